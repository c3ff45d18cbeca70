// Summing dq in any order: each tile of keys adds its share of dq to the dQ accumulator in memory, which is 0
// before the launch, as soon as it has it. The last bits of the sums differ from run to run.
//
// UnorderedDqSum is a policy of the fused backward kernel (Shape::DqSum), as are OrderedDqSum and
// ChainedDqSum. What a policy has, in this order: the kernel's parameters and the host's decisions that
// belong to this way; its shared memory and barriers; the order of tiles and the roles of warps in the
// producer warpgroup; and how a consumer hands over dq of a block, and writes dk and dv.
#pragma once

#include <string>

#include "kernels/families/fits.hpp"
#include "kernels/families/hopper_backward/dq_accumulate.cuh"
#include "kernels/families/hopper_backward/shape.hpp"
#include "kernels/families/hopper_backward/shared_storage.cuh"
#include "kernels/families/hopper_backward/tile_source.cuh"
#include "kernels/families/parts/hopper/instructions.cuh"
#include "kernels/tiles/heads_together.hpp"

namespace cplab::kernels::cuda::hopper {

// The tiles of a thread block come as the scheduler counts them. The first one is known at the start: its
// number is that of the thread block.
template <class Shape>
class UnorderedTiles : public TileSource<Shape> {
 public:
  __device__ __forceinline__ UnorderedTiles(const typename Shape::Params& params, FusedStorage<Shape>& memory)
      : TileSource<Shape>(params, memory, static_cast<int>(blockIdx.x)) {}

  __device__ __forceinline__ void start() { enter(0); }
  template <class Producer>
  __device__ __forceinline__ void run(Producer& producer) {
    producer.walk_tiles();
  }
  __device__ __forceinline__ bool next() { return this->draw(); }
  __device__ __forceinline__ void enter(int number) {
    int index, unit;
    this->params_.scheduler.find(this->drawn_, index, unit);
    this->enter_rows(number, index);
    this->enter_heads(number, unit * this->params_.heads_of_tile);
  }
};

struct UnorderedDqSum {
  // --- host side ----------------------------------------------------------------------------------------
  struct Params {};
  static constexpr bool always_draws = false;  // the first tiles are not drawn from the counter

  static std::string kernel_name(DType dtype, int head_size, int keys) {
    return hopper_backward_fused_name(dtype, head_size, keys);
  }
  static int scheduled_tiles(const AttendBackwardParams& call) { return call.by_k.live; }
  static int heads_together(const AttendBackwardParams& call, int units) {
    return fused_heads_per_group(units, call.q.heads, call.q, call.by_k.rows_together,
                                 any_order(call.by_k.alike));
  }
  static Params params(const AttendBackwardParams&, int, int&) { return {}; }
  static bool adds_every_row(const AttendBackwardParams&) { return false; }
  static bool stores_first(const AttendBackwardParams&) { return false; }

  // --- shared memory and barriers -----------------------------------------------------------------------
  static constexpr int more_dq_tiles = 0;
  template <class Shape>
  struct Storage {
    __device__ __forceinline__ void init_barriers() {}
  };

  // --- producer warpgroup -------------------------------------------------------------------------------
  template <class Shape>
  using Tiles = UnorderedTiles<Shape>;

  static __device__ __forceinline__ void prefetch(const Params&) {}

  // Returns whether this warp of the producer warpgroup has a role for all of its lanes, which has then
  // ended.
  template <class T, class Shape>
  static __device__ __forceinline__ bool run_warp(const typename Shape::Params&, FusedStorage<Shape>&, int) {
    return false;
  }
  // The role of the first threads of warps 2 and 3: each adds one part of dq to memory, as consumers stage
  // it.
  template <class Shape>
  static __device__ __forceinline__ void run_thread(const typename Shape::Params& params,
                                                    FusedStorage<Shape>& memory, int part) {
    for (int count = 0;; ++count) {
      wait(shared_address(&memory.dq_full[part]), count & 1);
      const int staged = memory.dq_staged[part];
      if (staged == dq_end) return;
      if (staged != dq_nothing_staged) {
        fence_view_async_shared();  // TMA sees what other threads wrote before they arrived at the barrier
        const Block& block = memory.bounds[staged];
        StagedDq<Shape>{params, memory, block.begin, block.head}.add(part);
        tma_store_wait();
      }
      arrive(shared_address(&memory.dq_empty[part]));
    }
  }

  // --- consumer warpgroups ------------------------------------------------------------------------------
  // Stages dq of a block for the threads above. Where some rows must not be touched, it adds the others here,
  // by vector atomics, which takes less time than to stage -0. Returns whether dq was staged.
  template <class Shape>
  static __device__ __forceinline__ bool hand_over(const DqTile<Shape>& dq) {
    const bool staged = dq.params.adds_dq_by_tma && dq.clean;
    dq.wait_for_room();
    if (staged)
      dq.stage();
    else
      dq.add();
    return staged;
  }

  // dk and dv are added to in any order too, where thread blocks share them. Writes dv ahead of dk, before
  // the tile's last dq is complete, and returns whether it has been written.
  template <class Epilogue, class Gradient>
  static __device__ __forceinline__ bool write_first(const Epilogue& epilogue, const Gradient& dv) {
    epilogue.write(dv);
    return true;
  }
  // Writes dk afterwards.
  template <class At, class Epilogue, class Gradient>
  static __device__ __forceinline__ void write_second(const At&, const Epilogue& epilogue, const Gradient&,
                                                      const Gradient& dk) {
    epilogue.write(dk);
  }
  template <class At, class Epilogue, class Gradient>
  static __device__ __forceinline__ void write_both(const At&, const Epilogue& epilogue, const Gradient& dv,
                                                    const Gradient& dk) {
    epilogue.write(dv, dk);
  }
};

}  // namespace cplab::kernels::cuda::hopper
