// Backward attention for Hopper in two kernels that share nothing, one for dq, one for dk and dv: no atomics
// and no scratch, so the same bits every time; S and dP are computed twice (once: backward_fused/kernel.cuh).
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/backward_deterministic/consumer.cuh"
#include "kernels/cuda/hopper/backward_deterministic/producer.cuh"
#include "kernels/cuda/hopper/backward_deterministic/shared_storage.cuh"

namespace cplab::kernels::cuda::hopper {

template <class T, int D, Gradient gradient>
__global__ void __launch_bounds__(DeterministicShape<D, gradient>::threads, 1)
    attend_backward_deterministic_kernel(const __grid_constant__ DeterministicParams params) {
  using Shape = DeterministicShape<D, gradient>;
  constexpr bool queries = gradient == Gradient::dq;
  extern __shared__ unsigned char deterministic_shared[];
  const std::uint32_t base = shared_address(deterministic_shared);
  auto& memory = *reinterpret_cast<DeterministicStorage<D, gradient>*>(deterministic_shared +
                                                                       (1024 - base % 1024) % 1024);
  int tile_index, head;
  (queries ? params.q_scheduler : params.k_scheduler).find(static_cast<int>(blockIdx.x), tile_index, head);
  const WorkTile tile = (queries ? params.call.by_q : params.call.by_k).tiles[tile_index];
  if (threadIdx.x == 0) {
    memory.tile = tile;
    memory.head = head;
    init_barrier(shared_address(&memory.owned_full), 1);
    for (int stage = 0; stage < Shape::stages; ++stage) {
      // Arrivals: the copy, and for dk and dv the 32 lanes of the other producer.
      init_barrier(shared_address(&memory.full[stage]), queries ? 1 : 1 + 32);
      init_barrier(shared_address(&memory.block_known[stage]), 1);
      init_barrier(shared_address(&memory.empty[stage]), 4 * Shape::consumers);
    }
    fence_barrier_init();
  }
  wait_on_dependent_grids();
  __syncthreads();
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    warpgroup_reg_dealloc<Shape::producer_registers>();
    if (threadIdx.x == 0) produce<D, gradient>(params, memory);
    if constexpr (!queries) {
      if (threadIdx.x / 32 == 1) load_lse_delta<D, gradient>(params.call, memory);
    }
  } else {
    warpgroup_reg_alloc<Shape::consumer_registers>();
    consume<T, D, gradient>(params, memory, warpgroup - 1);
  }
}

}  // namespace cplab::kernels::cuda::hopper
