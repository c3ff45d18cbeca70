// How many heads tile schedulers take side by side, so that what their tiles walk over stays in the L2 cache.
#pragma once

#include <cstdint>

#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda {

// The size of groups of at most `most` into which `all` heads are divided equally. In a small last group the
// longest tiles would begin late, and end the launch alone: 1 x 6047 causal, 12 heads of 64 in two groups of
// 6 has 1.19 of the speed of 10 and 2.
std::int64_t equal_groups(std::int64_t all, std::int64_t most);

namespace hopper {

// How many of `heads` heads the tile scheduler takes side by side: as many as keep the rows of the tensors
// that the tiles walk over (k and v, or q and dout; `walked_heads` heads in all, each like a head of
// `walked`) in the L2 cache. rows_together: the most of these rows that neighbours in the list share (0: not
// known). Where those of more heads take a part of the cache only, more are taken: the heads of a row are
// neighbours in memory. alike: all tiles take the same time (WorkTables::alike). Then the order of heads does
// not matter for the last wave, and few are taken: their rows are read by all multiprocessors at about the
// same time.
int heads_per_group(int heads, int walked_heads, const DeviceView& walked, std::int32_t rows_together = 0,
                    bool alike = false);
// Likewise of the fused backward, whose tiles walk over q, dout and dq. heads: how often a tile of keys is
// taken (key_tile_heads()). Tiles add to dq in any order or take turns, those of an uneven list with masks
// fewer heads at a time than others. In any order heads should be complete one after the other, because dq of
// those is rounded while others are taken: so that few are side by side whose tiles are alike, and of others
// no more than keep all multiprocessors busy with long tiles and then short ones.
enum class FusedOrder { any, any_of_alike, turns, turns_of_uneven };
FusedOrder order_of_turns(bool even, bool full);  // of a list, as in DqTurns
inline FusedOrder any_order(bool alike) {
  return alike ? FusedOrder::any_of_alike : FusedOrder::any;
}
int fused_heads_per_group(int heads, int query_heads, const DeviceView& q, std::int32_t rows_together,
                          FusedOrder order);

}  // namespace hopper
}  // namespace cplab::kernels::cuda
