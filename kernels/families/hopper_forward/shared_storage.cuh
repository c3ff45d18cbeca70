// The forward kernel's parameters, tile shape and shared memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/families/fits.hpp"
#include "kernels/families/hopper_forward/shape.hpp"
#include "kernels/families/parts/hopper/instructions.cuh"
#include "kernels/families/parts/hopper/pipeline.cuh"
#include "kernels/families/parts/hopper/tile_scheduler.cuh"
#include "kernels/families/parts/segment_blocks.cuh"
#include "kernels/tiles/measured_constants.hpp"
#include "kernels/tiles/score_params.hpp"

namespace cplab::kernels::cuda::hopper {

// How out is written: 64 rows at once by TMA, which for merged_tiles first loads what they are merged with;
// or row by row.
enum class OutWrite { row_by_row, stored_tiles, merged_tiles };

inline OutWrite out_write(const AttendParams& call) {
  if (!writes_out_by_tma(call)) return OutWrite::row_by_row;
  return call.write == Write::merge ? OutWrite::merged_tiles : OutWrite::stored_tiles;
}

struct ForwardParams {
  AttendParams call;
  CUtensorMap q, k, v, out;
  TileScheduler scheduler;
  std::int32_t* counter = nullptr;  // of tiles fetched so far; null: block b takes tiles b, b + blocks, ...
  int blocks = 1;                   // of the persistent grid
  OutWrite out_write = OutWrite::row_by_row;
  bool single_key_groups = false, single_value_groups = false;  // of the maps of q and k; of v and out
  float scale_log2 = 0;
  float rescale_threshold_log2 = 0;
};

// Those of a kernel that changes scores.
struct ChangedForwardParams : ForwardParams {
  ScoreParams scores;
};
template <bool changes>
using ForwardParamsOf = std::conditional_t<changes, ChangedForwardParams, ForwardParams>;

// A row's reference maximum moves only when the true one exceeds it by more than this (in units of log2), so
// that out hardly ever has to be rescaled (FlashAttention 4). P is then at most 2^8; dividing by the sum at
// the end makes up for it. Where max_logit is asked for, the reference is to be the true maximum, but for the
// rounding of its product with the scale: a second maximum beside it would cost registers that are not there.
inline float rescale_threshold_log2(const AttendParams& call) {
  return call.max_logit != nullptr ? 0 : static_cast<float>(measured("rescale_threshold"));
}

// W consumer warpgroups of 64 query rows each. Two at head size 128 and three at 64 are fastest where there
// are enough tiles for all multiprocessors; fewer warpgroups make more tiles.
//
// At head size 64 the exponentials take the MUFU as long as the products take the tensor cores. One in
// `polynomial_every` can be computed by a polynomial on the FMA units instead (0: none), which lost: the
// kernel is short of issue slots as well. CPLAB_POLYNOMIAL_EVERY overrides it, for measuring.
#ifndef CPLAB_POLYNOMIAL_EVERY
#define CPLAB_POLYNOMIAL_EVERY static_cast<int>(measured("polynomial_every"))
#endif
template <int D, int W>
struct ForwardShape {
  static constexpr int consumers = W;
  static constexpr int threads = warpgroup_threads * (1 + consumers);
  static constexpr int rows = 64 * consumers;
  static constexpr int value_size = hopper_forward_value_size(D);
  static constexpr int keys = hopper_forward_keys(D);
  // Blocks of K, and of V, that shared memory holds. At head size 128 there is room for one more K
  // beside two whole blocks.
  static constexpr int v_stages = hopper_forward_stages(D, W);
  static constexpr int k_stages =
      v_stages + (D == 128 && W == 2 ? static_cast<int>(measured("hopper_forward_128_more_k")) : 0);
  static constexpr int polynomial_every = CPLAB_POLYNOMIAL_EVERY;
  // Whether a block's softmax is completed before the wait for P V of the block before.
  static constexpr bool softmax_before_pv_wait =
      (D == 64 ? measured("softmax_before_pv_wait_64") : measured("softmax_before_pv_wait_128")) != 0;
  // FlashAttention 3's ping-pong: the warpgroups issue their products one after the other. A call
  // whose tiles go "out of turn" has the kernel without it.
  static constexpr bool ping_pong = consumers > 1 && measured("ping_pong") != 0;
  // How many lanes of a warp arrive at k_empty. One is enough and half a percent faster, but ptxas drops the
  // __syncwarp() before it where it knows the warp to be converged, and compute-sanitizer's racecheck then
  // reports the next write of BlockInfo as a hazard; so all lanes arrive.
  static constexpr auto lanes_release_k =
      static_cast<int>(D == 64 ? measured("lanes_release_k_64") : measured("lanes_release_k_128"));
  static constexpr int q_stages = hopper_forward_q_stages(D);
  // setmaxnreg: a thread has 65536 / threads registers at launch, rounded down to 8. What the producer gives
  // up the consumers get. A single consumer warpgroup has enough from the start where its thread block has
  // the multiprocessor for itself; two such blocks have 128 registers a thread, 40 + 216 for both warpgroups.
  static constexpr int blocks_together = hopper_forward_blocks_together(D, W);
  static constexpr bool moves_registers = W > 1 || blocks_together > 1;
  static constexpr int producer_registers = consumers == 3 ? 32 : 40;
  static constexpr int consumer_registers = consumers == 3 ? 160 : consumers == 2 ? 232 : 216;
  static constexpr int q_half_bytes = 64 * 128, k_half_bytes = keys * 128;  // bytes of 64 columns
  static constexpr int q_bytes = 64 * D * 2, k_bytes = keys * D * 2, v_bytes = keys * value_size * 2;
  static_assert(k_half_bytes % 1024 == 0, "a column group begins with a swizzle period");
  static_assert(value_size <= D, "out is staged where Q was");
};

enum class TileState : std::int16_t { live, without_keys, none };

// Published by the producer with a tile's Q.
struct alignas(16) QueryTile {
  int begin, end;  // rows
  int head;
  TileState state;     // none: there are no more tiles
  std::int16_t first;  // bit w: the first block has a live pair with the rows of warpgroup w
};

// What consumers need to know of every block of keys. Its bounds (`bounds`) they need only where it is
// masked.
struct alignas(8) BlockInfo {
  std::int32_t keys;   // to the end of the segment's live keys; may be more than the block has room for
  std::int32_t flags;  // bit w: the tile has a next block, and warpgroup w has a live pair in it
};
constexpr int block_is_masked = 1 << 8;  // not all pairs with the tile's rows are live
constexpr int block_is_last = 1 << 9;    // of its tile

template <int D, int W>
struct alignas(1024) ForwardStorage {
  using Shape = ForwardShape<D, W>;
  unsigned char q[Shape::q_stages][Shape::consumers][Shape::q_bytes];
  unsigned char k[Shape::k_stages][Shape::k_bytes];
  unsigned char v[Shape::v_stages][Shape::v_bytes];
  QueryTile tile[Shape::q_stages];
  int out_distance[Shape::q_stages];  // row r of the tile is physical row r + distance of out
  Block bounds[Shape::k_stages];
  BlockInfo info[Shape::k_stages];
  std::uint64_t q_full[Shape::q_stages], q_empty[Shape::q_stages];
  std::uint64_t old_out_full[Shape::consumers];  // what out of a warpgroup is merged with
  std::uint64_t k_full[Shape::k_stages], k_empty[Shape::k_stages];
  std::uint64_t v_full[Shape::v_stages], v_empty[Shape::v_stages];

  // One thread calls this, before all others use the barriers.
  __device__ __forceinline__ void init_barriers() {
    constexpr int consumer_warps = 4 * Shape::consumers;
    for (int n = 0; n < Shape::q_stages; ++n) {
      init_barrier(shared_address(&q_full[n]), 1);
      init_barrier(shared_address(&q_empty[n]), consumer_warps);
    }
    for (std::uint64_t& barrier : old_out_full) init_barrier(shared_address(&barrier), 1);
    for (int stage = 0; stage < Shape::k_stages; ++stage) {
      init_barrier(shared_address(&k_full[stage]), 1);
      init_barrier(shared_address(&k_empty[stage]), consumer_warps * Shape::lanes_release_k);
    }
    for (int stage = 0; stage < Shape::v_stages; ++stage) {
      init_barrier(shared_address(&v_full[stage]), 1);
      init_barrier(shared_address(&v_empty[stage]), consumer_warps);
    }
    fence_barrier_init();
  }
};

}  // namespace cplab::kernels::cuda::hopper
