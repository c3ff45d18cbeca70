// Backward attention for Hopper in tiles that share nothing, tiles of queries for dq and tiles of keys
// for dk and dv. There are no atomics and no scratch, so the result has the same bits in every run;
// but S and dP are computed twice (backward_fused/kernel.cuh computes them once). Both kinds of tiles
// are one launch, so that calls with few tiles fill the multiprocessors with both.
//
// The grid is persistent: a thread block takes tile after tile (producer.cuh), whose 128 rows two consumer
// warpgroups share (consumer.cuh).
#pragma once

#include <cstdint>

#include "kernels/families/hopper_backward_apart/consumer.cuh"
#include "kernels/families/hopper_backward_apart/producer.cuh"
#include "kernels/families/hopper_backward_apart/shared_storage.cuh"

namespace cplab::kernels::cuda::hopper {

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads, 1)
    attend_backward_deterministic_kernel(const __grid_constant__ DeterministicParams params) {
  extern __shared__ unsigned char deterministic_shared[];
  const std::uint32_t base = shared_address(deterministic_shared);
  auto& memory =
      *reinterpret_cast<DeterministicStorage<Shape>*>(deterministic_shared + (1024 - base % 1024) % 1024);
  DeterministicProducer<Shape> producer(params, memory);
  if (threadIdx.x == 0) {
    producer.start();
    init_barriers(memory);
  }
  if (threadIdx.x == 32) {
    for (const CUtensorMap* map : {&params.q, &params.k, &params.v, &params.dout}) prefetch_tensor_map(*map);
    if (params.loads_lse_delta_by_tma)
      for (const CUtensorMap* map : {&params.lse, &params.delta}) prefetch_tensor_map(*map);
    if (params.stores_dq_tiles) prefetch_tensor_map(params.dq);
    if (params.stores_dkv_tiles)
      for (const CUtensorMap* map : {&params.dk, &params.dv}) prefetch_tensor_map(*map);
  }
  wait_on_dependent_grids();
  __syncthreads();
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    warpgroup_reg_dealloc<Shape::producer_registers>();
    if (threadIdx.x == 0) producer.run();
    if (threadIdx.x / 32 == 1) LseDeltaProducer<Shape>(params, memory).run();
  } else {
    warpgroup_reg_alloc<Shape::consumer_registers>();
    DeterministicConsumer<T, Shape>(params, memory, warpgroup - 1).run();
  }
}

}  // namespace cplab::kernels::cuda::hopper
