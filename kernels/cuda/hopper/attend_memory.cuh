// What the forward kernel for Hopper is told, how large its tiles are, and what its warpgroups share.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/blocks.cuh"
#include "kernels/cuda/hopper/instructions.cuh"
#include "kernels/cuda/hopper/tile_order.cuh"

namespace cplab::kernels::cuda::hopper {

struct HopperAttendParams {
  AttendParams call;
  CUtensorMap q, k, v, out;
  TileOrder order;
  std::int32_t* counter = nullptr;  // of the tiles taken so far; null: every grid-th tile is a block's own
  int blocks = 1;                   // of the grid
  bool stores_tiles = false;        // out is stored in the dtype of q, by the copy engine
  float scale_log2 = 0;
};

// W consumer warpgroups of 64 query rows. Two at head size 128 and three at 64 are fastest where there are
// tiles enough for every multiprocessor; fewer make more tiles.
//
// The unit for special functions has as much to do as the tensor cores at head size 64. One exponential in
// `polynomial_every` can be computed without it (0: none): measured on an H100, 4 and 8 cost 5 to 9 %,
// because the instructions are short of slots, too. CPLAB_POLYNOMIAL_EVERY is for who wants to measure it
// again.
#ifndef CPLAB_POLYNOMIAL_EVERY
#define CPLAB_POLYNOMIAL_EVERY 0
#endif
template <int D, int W>
struct HopperAttendShape {
  static constexpr int consumers = W;
  static constexpr int threads = warpgroup_threads * (1 + consumers);
  static constexpr int rows = 64 * consumers;
  static constexpr int keys = 128;
  static constexpr int stages = 2;
  static constexpr int polynomial_every = CPLAB_POLYNOMIAL_EVERY;
  // Whether a block's softmax is complete before P V of the last block is waited for: better by 3 % at 64,
  // worse by 1 % at 128.
  static constexpr bool weights_first = D == 64;
  // Warpgroups queue their products in turn: 5 to 9 % at the smallest sizes, nothing at large ones.
  static constexpr bool takes_turns = consumers > 1;
  // One lane for its warp is right, but ptxas drops the __syncwarp() before it where the warp is together,
  // and racecheck then calls the next write of a block's facts a hazard: at head size 64 only, where all
  // lanes do it for 0.5 %.
  static constexpr int lanes_release_keys = D == 64 ? 32 : 1;
  static constexpr int tiles = 2;  // whose queries are there or under way
  // 65536 / threads at launch, in steps of 8; what the producer gives, the consumers take. One consumer
  // warpgroup has enough from the start.
  static constexpr int producer_registers = consumers == 2 ? 40 : 32;
  static constexpr int consumer_registers = consumers == 2 ? 232 : 160;
  static constexpr int q_half = 64 * 128, k_half = keys * 128;  // bytes of 64 columns
  static constexpr int q_bytes = 64 * D * 2, k_bytes = keys * D * 2;
};

enum class TileState : std::int16_t { live, without_keys, none };

// A tile as the producer hands it over, with its queries.
struct AttendTile {
  int begin, end;  // rows
  int head;
  TileState state;     // none: no tile comes any more
  std::int16_t first;  // bit w: the first block has a live pair with the rows of warpgroup w
};

// What consumers always need to know of a block; its bounds only where it is masked.
struct alignas(8) BlockFacts {
  std::int32_t keys;   // so many are its segment's
  std::int32_t marks;  // bit w: there is a next block, with a live pair with the rows of warpgroup w; and
};
constexpr int block_is_masked = 1 << 8;  // not all pairs with the tile's rows are live
constexpr int block_is_last = 1 << 9;    // of its tile

template <int D, int W>
struct alignas(1024) HopperAttendMemory {
  using Shape = HopperAttendShape<D, W>;
  unsigned char q[Shape::tiles][Shape::consumers][Shape::q_bytes];
  unsigned char k[Shape::stages][Shape::k_bytes];
  unsigned char v[Shape::stages][Shape::k_bytes];
  AttendTile tile[Shape::tiles];
  Block bounds[Shape::stages];
  BlockFacts facts[Shape::stages];
  std::uint64_t q_full[Shape::tiles], q_empty[Shape::tiles];
  std::uint64_t k_full[Shape::stages], k_empty[Shape::stages], v_full[Shape::stages], v_empty[Shape::stages];

  // One thread, before all others.
  __device__ __forceinline__ void init_barriers() {
    constexpr int consumer_warps = 4 * Shape::consumers;
    for (int n = 0; n < Shape::tiles; ++n) {
      init_barrier(shared_address(&q_full[n]), 1);
      init_barrier(shared_address(&q_empty[n]), Shape::consumers);
    }
    for (int stage = 0; stage < Shape::stages; ++stage) {
      init_barrier(shared_address(&k_full[stage]), 1);
      init_barrier(shared_address(&v_full[stage]), 1);
      init_barrier(shared_address(&k_empty[stage]), consumer_warps * Shape::lanes_release_keys);
      init_barrier(shared_address(&v_empty[stage]), consumer_warps);
    }
    fence_barrier_init();
  }
};

}  // namespace cplab::kernels::cuda::hopper
