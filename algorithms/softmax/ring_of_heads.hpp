// A ring over a part of what travels, beside others over the rest, with its members in an order of its own:
// over some of the heads, or over some of each member's keys.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "algorithms/softmax/ring_attention.hpp"

namespace cplab {

struct PartialRing {
  PartialRing(const Scope& whole, const Team& members, const Distribution& tokens,
              const Distribution& key_tokens, RingOptions, int lane);
  virtual ~PartialRing() = default;
  // What the ring is to compute of the whole, and where.
  virtual const Forward& forward_part(const Forward&) = 0;
  virtual const Backward& backward_part(const Backward&) = 0;
  virtual void finish(const Backward&) {}

  Scope scope;
  RingAttention ring;
  Forward f;
  Backward g;
};

struct RingOfHeads final : PartialRing {
  // `keys`: the key heads that travel, on the communication lane `lane`. `members`: all of the scope's, in
  // the order in which rows pass from one to the next.
  RingOfHeads(const Scope& whole, const Team& members, HeadRange keys, RingOptions, int lane);

  // Its K and V, and dK and dV where they come from other ranks, are in buffers of their own: a message of
  // some of the heads is of as many pieces as rows.
  const Forward& forward_part(const Forward&) override;
  const Backward& backward_part(const Backward&) override;
  void finish(const Backward&) override;  // brings those gradients to their places

 private:
  Box contiguous(const Box& kv);
};

struct RingOfKeys final : PartialRing {
  // The keys of each member whose rows are [begin, begin + count); the ring sums with others into `sums`.
  RingOfKeys(const Scope& whole, const Team& members, RowRange keys, RingOptions, int lane,
             std::shared_ptr<RingSums> sums);
  const Forward& forward_part(const Forward&) override;
  const Backward& backward_part(const Backward&) override;

 private:
  const bool first_;  // of those that sum together: it computes what all of them need of a row
};

// All ranks of a group from the last to the first.
TeamSpec all_in_reverse(std::string name, std::int64_t ranks);

}  // namespace cplab
