// K and V of all members of a scope at every member, some key heads at a time, and the way back of their
// gradients: what all-gather algorithms have in common.
#pragma once

#include <vector>

#include "algorithms/redistribution.hpp"
#include "algorithms/scope.hpp"
#include "algorithms/transfer.hpp"

namespace cplab {

class HeadGather {
 public:
  // `to`: what members hold afterwards, with all key heads; `parts`: of the key heads, in order.
  HeadGather(const Scope&, const Distribution& to, std::vector<HeadRange> parts, Transport,
             std::int64_t most_pieces);

  int parts() const { return static_cast<int>(parts_.size()); }
  HeadRange keys(int part) const { return parts_[static_cast<std::size_t>(part)]; }
  HeadRange queries(int part) const;  // that read these key heads
  const std::vector<TokenRun>& runs() const { return to_.runs; }
  std::int64_t rows() const { return to_.rows(); }  // of a gathered buffer
  std::int64_t widest() const;                      // key heads of the largest part

  // K and V, or gradients, of `heads` key heads: [slots, rows, heads, D + E].
  Box buffer(std::string_view name, Role, Category, std::int64_t slots, std::int64_t rows,
             std::int64_t heads) const;
  // One slot of such a buffer as the part's: its first heads, by their numbers.
  Box slot(const Box& buffer, std::int64_t index, int part) const;

  // `staging`: as TransferTensor.
  Transfer gather(int part, const Box& kv, const Box& into, const Box& staging = {}) const;
  // The adjoint, on the wire in `wire`.
  Transfer scatter(int part, const Box& gradients, const Box& dkv, Role wire, const Box& packed = {},
                   const Box& received = {}) const;

 private:
  const Scope& s_;
  const Holding to_;
  std::vector<HeadRange> parts_;
  std::vector<Redistribution> how_;  // by part
  Transport transport_;
  std::int64_t most_pieces_;
};

// Of a member's queries: for every sequence its first run, then its second, ...: pieces that see their keys
// apart from one another.
std::vector<std::vector<TokenRun>> query_chunks(const Holding&);

}  // namespace cplab
