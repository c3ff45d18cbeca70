// Event edges, derived from what operations read and write.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace cplab {

// Gives every operation its `after`: for each earlier conflicting access on another lane an edge, unless
// other edges and lane order imply it. Two accesses conflict if they are of one buffer, their boxes overlap
// and one of them writes; if they are of two buffers of one slab; if they are of two buffers that share bytes
// of the arena; and with RankPlan::between_layers the first backward operation of a lane waits for the
// forward's last of every lane. Buffers need their offsets. Replaces the edges that are there, but for
// `after_started`, which order no data and stay as they are.
void derive_edges(RankPlan&);

// How data dependencies alone order the uses of buffers, without the edges for bytes that buffers share.
struct DataOrder {
  std::size_t lanes = 0;
  // By buffer and lane, buffer * lanes + lane. last: 1 + the last operation of the lane that touches the
  // buffer, 0 for none. known: how much of the lane is certainly complete when any operation that touches the
  // buffer starts (the least over these operations), counted in the same way.
  std::vector<std::uint32_t> last, known;

  // Every use of buffer a is complete before any use of buffer b starts.
  bool before(std::uint32_t a, std::uint32_t b) const {
    for (std::size_t l = 0; l < lanes; ++l)
      if (last[a * lanes + l] > known[b * lanes + l]) return false;
    return true;
  }
};
DataOrder order_of_data(const RankPlan&);
// Gives every operation the `after` that the data needs, as derive_edges if no two buffers shared bytes, and
// says what it orders.
DataOrder derive_data_edges(RankPlan&);

}  // namespace cplab
