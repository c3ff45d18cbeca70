// Where the fused backward stages dk and dv in the epilogue.
#pragma once

#include "kernels/cuda/hopper/backward_fused/shared_storage.cuh"
#include "kernels/cuda/hopper/parts/instructions.cuh"

namespace cplab::kernels::cuda::hopper {

// Of this warp's 16 keys.
struct DkvStaging {
  unsigned char *dv, *dk;
};

// fp32: where Q and dO, dS and dq were, in the place of the warp among all of them.
template <class Shape>
__device__ __forceinline__ DkvStaging fp32_staging(FusedStorage<Shape>& memory) {
  const int at = (opaque(thread_index()) / 32 - 4) * 16 * Shape::head_size * 4;
  auto* const ds = reinterpret_cast<unsigned char*>(&memory.ds) + at;
  return {Shape::stages_together ? ds + Shape::dkv_bytes : memory.q[0] + at, ds};
}

// Rounded they take half of that. Either V of the own keys and the own staged dq, which no other warpgroup
// reads; neither waits for the other, which may be half a block behind. Or, one after the other, the warp's
// own rows of dS of the block after `count`, the tile's last, when dq of the block before it has been
// computed (ds_empty). In a tile of one block a product whose result is dropped (issue_dq()) may still read
// them.
template <class Shape>
__device__ __forceinline__ DkvStaging rounded_staging(FusedStorage<Shape>& memory, int warpgroup, int count) {
  if constexpr (Shape::stores_rounded_rows) {
    unsigned char* const ds = memory.ds[PipelineIndex<Shape::ds_tiles>::stage(count + 1)][0];
    const int own = (opaque(thread_index()) / 32 - 4) * 16 * 128;
    return {ds + own, ds + own};
  }
  constexpr int bytes = 16 * Shape::head_size * 2;
  static_assert(4 * bytes <= Shape::key_bytes && 4 * bytes <= Shape::dq_bytes);
  const int at = opaque(thread_index()) / 32 % 4 * bytes;
  return {memory.v[warpgroup] + at, memory.dq_staging[warpgroup] + at};
}

// Where they can be loaded while K, dS and dq are in use: dk where Q and dO of an earlier block than the last
// were, and dv there too if it fits, else where those of the last, `count`, were.
template <class Shape>
__device__ __forceinline__ DkvStaging old_staging(FusedStorage<Shape>& memory, int warpgroup, int count) {
  using Stages = PipelineIndex<Shape::stages>;
  constexpr int bytes = 16 * Shape::head_size * 2, all = 4 * Shape::consumers * bytes;
  const int at = (opaque(thread_index()) / 32 - 4) * bytes;
  const int before =
      Stages::stage(count + 1);  // the next tile's first block comes here, and waits for q_free
  if constexpr (all <= Shape::query_bytes) {
    return {memory.dout[before] + at, memory.q[before] + at};
  } else {
    static_assert(all == 2 * Shape::query_bytes && Shape::consumers == 2 && Shape::stages == 2);
    const auto in = [&](int stage) {
      return warpgroup == 0 ? memory.q[stage] + at : memory.dout[stage] + (at - Shape::query_bytes);
    };
    return {in(Stages::stage(count)), in(before)};
  }
}

}  // namespace cplab::kernels::cuda::hopper
