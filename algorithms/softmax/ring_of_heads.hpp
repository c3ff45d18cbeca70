// A ring over some of the heads, beside others over the rest, with its members in an order of its own.
#pragma once

#include <cstdint>
#include <string>

#include "algorithms/softmax/ring_attention.hpp"

namespace cplab {

struct RingOfHeads {
  // `keys`: the key heads that travel, on the communication lane `lane`. `members`: all of the scope's, in
  // the order in which rows pass from one to the next.
  RingOfHeads(const Scope& whole, const Team& members, HeadRange keys, RingOptions, int lane);

  // What the ring is to compute of the whole, and where. Its K and V, and dK and dV where they come from
  // other ranks, are in buffers of their own: a message of some of the heads is of as many pieces as rows.
  const Forward& forward_part(const Forward&);
  const Backward& backward_part(const Backward&);
  void finish(const Backward&);  // brings those gradients to their places

  Scope scope;
  RingAttention ring;
  Forward f;
  Backward g;

 private:
  Box contiguous(const Box& kv);
};

// All ranks of a group from the last to the first.
TeamSpec all_in_reverse(std::string name, std::int64_t ranks);

}  // namespace cplab
