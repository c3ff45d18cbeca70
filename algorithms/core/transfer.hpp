// Redistributes tensors between the buffers of a team's members, in three stages that may be emitted apart:
// pack (copies that make messages of few contiguous pieces, or change their dtype), move (one communication),
// unpack (copies into place; sums, where an adjoint brings several shares to one place).
//
// What each stage needs follows from the distributions: nothing is packed whose messages have few pieces, and
// all_gather, reduce_scatter, all_to_all or exchange is chosen by what moves.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/core/builder.hpp"
#include "algorithms/core/redistribution.hpp"

namespace cplab {

// One tensor. Messages keep its order: those of tensors named together are parts of one communication.
struct TransferTensor {
  std::string_view name;                // staging buffers are NAME_packed, NAME_received, NAME_summed
  const Redistribution* how = nullptr;  // outlives the transfer
  Box source, target;                   // in the layouts of how's `from` and `to`; of an adjoint the reverse
  // Staging buffers of the algorithm's choice, [rows, heads, width] large enough for what is staged, in rows
  // and heads counted from 0, which are used then. Without them a transfer declares its own where it needs
  // them.
  Box packed = {}, received = {};
};

struct TransferOptions {
  bool adjoint = false;  // gradients go back: each receiver's share to who gave it, where shares are summed
  std::optional<Role> wire = {};  // in which tensors travel and are summed; else that of each source
  TransportChoice transport = Transport::nccl;
  std::int64_t most_pieces = 16;  // a message of more contiguous pieces is packed by a copy
};

class Transfer {
 public:
  Transfer(Builder&, const Team&, TransferOptions, const std::vector<TransferTensor>&);

  void pack(Lane);
  void move(Lane);  // nothing in a team of one member
  void unpack(Lane);
  void all(Lane compute, Lane comm);

 private:
  // What goes to or comes from one member, in the tensor's buffer and on the wire.
  struct Share {
    int peer = 0;
    RangeList rows;
    HeadRange heads;
    Box box, wire;
  };
  struct Copy {
    Box from, into;
  };
  struct Tensor {
    std::string name;
    Role role = Role::nominal;  // on the wire
    Layout layout = Layout::rows_first;
    std::int64_t width = 1, planes = 0;
    Box source, target;
    HeadRange heads;  // that this member holds before the redistribution
    std::vector<Share> out, in;
    bool sums = false;
    std::vector<Copy> packing, unpacking;
  };
  std::vector<Share> shares(const TransferTensor&, bool outgoing) const;
  bool needs_staging(const Tensor&, const Box&, const std::vector<Share>&) const;
  void stage(const Tensor&, const std::string& name, const Box& buffer, Box staging, std::vector<Share>&,
             std::vector<Copy>& copies, bool outgoing);
  void stage_sums(const Tensor&, Box staging, std::vector<Share>&);
  void sum(Lane, const Tensor&);
  void fill_rest(Lane, const Tensor&);

  Builder& b_;
  const Team& team_;
  TransferOptions options_;
  OpKind kind_;
  std::vector<Tensor> tensors_;
};

}  // namespace cplab
