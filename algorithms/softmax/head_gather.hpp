// K and V of all members of a scope at every member, some key heads at a time, and the way back of their
// gradients: what all-gather algorithms have in common. The next heads move while the ones before are
// attended; gradients are packed and moved behind the heads that they belong to, and drained later.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "algorithms/core/redistribution.hpp"
#include "algorithms/core/transfer.hpp"
#include "algorithms/softmax/softmax.hpp"
#include "algorithms/softmax/softmax_sum.hpp"

namespace cplab {

class HeadGather {
 public:
  // `to`: what members hold afterwards, with all key heads, kept by Builder::shared(); `strides`: the key
  // heads that move at a time, in order.
  HeadGather(const Scope&, const Distribution& to, std::vector<HeadRange> strides);

  int strides() const { return static_cast<int>(strides_.size()); }
  HeadRange keys(int stride) const { return strides_[static_cast<std::size_t>(stride)]; }
  const std::vector<TokenRun>& runs() const { return to_.runs; }
  std::int64_t rows() const { return to_.rows(); }  // of a gathered buffer
  // Nothing moves: the member is alone, or all hold all keys.
  bool local() const { return s_.P() == 1 || s_.keys.everywhere; }

  // K and V of all, or gradients, of `heads` key heads: [slots, rows, heads, D + E], and what lies behind V.
  enum class Holds : std::uint8_t { kv, dkv };
  Box buffer(std::string_view name, Role, Category, std::int64_t slots, std::int64_t heads,
             std::string_view slab = {}, Holds holds = Holds::kv) const;
  // A slot of it as that stride's: its first heads, by their numbers in the problem.
  Box slot(const Box& buffer, std::int64_t index, int stride) const;

  using At = std::function<Box(int stride)>;
  using Attend = std::function<void(int stride, const Box& held)>;
  // For every stride: gathers it from the members' `kv` into at(stride), and calls attend. `apart`: K and V
  // of the stride move in two communications. Where nothing moves kv itself is attended.
  void run(const Box& kv, const At& at, const Attend&,
           const std::function<bool(int stride)>& apart = nullptr) const;
  // The same with what is there already.
  void run_kept(const Box& kv, const At& at, const Attend&) const;

  // The tile with the stride's heads, of gathered K and V; backward it adds to `sums`, of which `touched`
  // knows what has been written, and computes delta where Backward::out is given, which is taken away then.
  void attend(Lane, int stride, const Forward&, const Box& held, const Tile&) const;
  void attend_backward(Lane, int stride, Backward&, const Box& held, const Box& sums, const Tile&,
                       FirstTouch& touched) const;

  // What the tiles of the backward are given: delta is there, or left to the first of them where it may
  // compute it. `gathers`: something is gathered before that tile.
  Backward begin_backward(const Backward&, std::span<const Tile> tiles, bool gathers) const;
  // SoftmaxAlgorithm::stores_dq_once for these tiles, which alternate between so many lanes.
  bool store_dq_once(std::span<const Tile> tiles, std::int64_t lanes) const;

  // Sends the stride's gradients [rows, heads] home, to be summed into dkv. Those sent before are drained
  // first, or with `stage_first` between packing and moving these. `packed`: as TransferTensor.
  void send_home(int stride, const Box& gradients, const Box& dkv, Role wire, const Box& packed = {},
                 bool stage_first = false);
  void drain();  // of what was sent last; nothing if that is done

 private:
  Box queries(int stride, const Box&, const Tile&) const;
  PairBoxes pairs(int stride, const PairBoxes& of_rank, const Tile&) const;
  Builder::PairMask mask(const Box& kv, const Box& dkv, WriteMode, const PairBoxes&, const Tile&) const;
  std::vector<Transfer> gathers(int stride, const Box& kv, const Box& into, bool apart) const;

  const Scope& s_;
  const Holding to_;
  const bool reads_;  // some query here sees some key
  std::vector<HeadRange> strides_;
  std::vector<const Redistribution*> how_;  // by stride
  TransferOptions options_;
  std::optional<Transfer> pending_;
};

// A member's queries in chunks that see their keys apart from one another: the first runs of all sequences,
// then the second ones, and so on. Where pieces say what a member holds its chunks are many and small: they
// are one.
std::vector<std::vector<TokenRun>> query_chunks(const Holding&, std::string_view placement);

}  // namespace cplab
