// Backward attention for Hopper in one kernel: S and dP are computed once, for dk and dv, which stay with the
// thread block, and for dq, to which many tiles of keys add. How they do is a policy, Shape::DqSum: in any
// order, so that the last bits of dq differ from run to run (dq_sum_unordered.cuh); in a fixed order,
// deterministic in FlashAttention's words (dq_sum_ordered.cuh); or by one thread block that takes all tiles
// that add to the same rows, and rounds the sums too (dq_sum_chains.cuh).
//
// delta, the row sums of dO * O, is an input: a launch before this one computes it (FlashAttention:
// preprocess).
//
// The grid is persistent: a thread block takes tile after tile of 128 keys, 64 for each consumer warpgroup
// (consumer.cuh), or of 64 keys with one consumer, and walks over blocks of queries. K, V and the first Q of
// the next tile are loaded (producer.cuh) while dk and dv of the last one are stored.
//
// The producer warpgroup: the first thread of warp 0 takes tiles and loads them, warp 1 loads lse and delta,
// and warps 2 and 3 do what the policy says, mostly to write dq.
#pragma once

#include "kernels/families/hopper_backward/consumer.cuh"
#include "kernels/families/hopper_backward/producer.cuh"
#include "kernels/families/hopper_backward/shared_storage.cuh"

namespace cplab::kernels::cuda::hopper {

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads, 1)
    attend_backward_fused_kernel(const __grid_constant__ typename Shape::Params params) {
  alignas(1024) extern __shared__ unsigned char fused_shared[];
  auto& memory = *reinterpret_cast<FusedStorage<Shape>*>(fused_shared);
  if (threadIdx.x == 32) {
    if (params.call.by_k.segments != nullptr) prefetch_line(params.call.by_k.segments);
    for (const CUtensorMap* map : {&params.k, &params.v, &params.q, &params.dout}) prefetch_tensor_map(*map);
    if (params.loads_lse_delta_by_tma)
      for (const CUtensorMap* map : {&params.lse, &params.delta}) prefetch_tensor_map(*map);
    if (params.adds_dq_by_tma) prefetch_tensor_map(params.dq);
    Shape::DqSum::prefetch(params.dq_sum);
    if (params.dkv_write != DkvWrite::row_by_row)
      for (const CUtensorMap* map : {&params.dk, &params.dv}) prefetch_tensor_map(*map);
  }
  FusedProducer<Shape> producer(params, memory);
  if (threadIdx.x == 0) {
    producer.start();
    init_barriers(memory);
  }
  const bool waits_late = params.call.follows_preparation;
  if (!waits_late) wait_on_dependent_grids();
  __syncthreads();
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    if constexpr (Shape::moves_registers) warpgroup_reg_dealloc<Shape::producer_registers>();
    const int warp = static_cast<int>(threadIdx.x) / 32;
    // Consumers need not wait here: they write nothing before info_full, at which warp 1 arrives after this
    // wait.
    if (waits_late && warp != 0) wait_on_dependent_grids();
    if (warp == 1) produce_info<Shape>(params, memory);
    if (Shape::DqSum::template run_warp<T>(params, memory, warp)) return;
    if (threadIdx.x % 32 != 0) return;
    if (warp == 0) producer.run();
    if (warp < 2) return;
    Shape::DqSum::run_thread(params, memory, warp - 2);
  } else {
    if constexpr (Shape::moves_registers) warpgroup_reg_alloc<Shape::consumer_registers>();
    FusedConsumer<T, Shape>(params, memory, warpgroup - 1).run();
  }
}

}  // namespace cplab::kernels::cuda::hopper
