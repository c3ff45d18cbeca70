// The tile scheduler: the order in which a launch takes the tiles of a work list, over all heads.
#pragma once

#include <cstdint>

#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda::hopper {

// Divides numbers from 0 to 2^31 - 1 by a divisor known before the launch, by a multiplication (CUTLASS:
// FastDivmod; Granlund and Montgomery, "Division by invariant integers using multiplication", 1994).
class FastDivmod {
 public:
  FastDivmod() = default;
  explicit FastDivmod(int divisor) : divisor_(divisor) {
    while (std::uint64_t{1} << shift_ < static_cast<std::uint64_t>(divisor)) ++shift_;
    const std::uint64_t excess = (std::uint64_t{1} << shift_) - static_cast<std::uint64_t>(divisor);
    multiplier_ = static_cast<std::uint32_t>((excess << 32) / static_cast<std::uint64_t>(divisor) + 1);
  }

  __device__ __forceinline__ int quotient(int n) const {
    const auto number = static_cast<std::uint32_t>(n);
    return static_cast<int>((__umulhi(number, multiplier_) + number) >> shift_);
  }
  __device__ __forceinline__ int remainder(int n, int quotient) const { return n - quotient * divisor_; }

 private:
  int divisor_ = 1;
  std::uint32_t multiplier_ = 1;
  int shift_ = 0;
};

// Heads are taken in groups whose K and V (or Q, dO and dq) together fit into the L2 cache; within a group
// the list's first tile of all its heads comes first, then the second.
struct TileScheduler {
  TileScheduler() = default;
  // Schedules the first `count` tiles of the work list for each of `heads` heads, in groups of
  // heads_per_group <= heads. heads_of_kv is the number of query heads of a key head.
  TileScheduler(int count, int heads, int heads_per_group, int heads_of_kv)
      : tiles(count * heads),
        group_heads(heads_per_group),
        whole_groups(heads / heads_per_group),
        of_group(count > 0 ? count * heads_per_group : 1),
        of_heads(heads_per_group),
        of_last_heads(whole_groups * heads_per_group < heads ? heads - whole_groups * heads_per_group
                                                             : heads_per_group),
        of_kv_head(heads_of_kv) {}

  int tiles = 0;
  int group_heads = 1, whole_groups = 0;
  FastDivmod of_group, of_heads, of_last_heads, of_kv_head;

  // Finds which tile of the work list, and which head, the number-th tile is, 0 <= number < tiles.
  __device__ __forceinline__ void find(int number, int& tile, int& head) const {
    const int group = of_group.quotient(number);
    const int in_group = of_group.remainder(number, group);
    const FastDivmod& heads = group < whole_groups ? of_heads : of_last_heads;
    tile = heads.quotient(in_group);
    head = group * group_heads + heads.remainder(in_group, tile);
  }
};

}  // namespace cplab::kernels::cuda::hopper
