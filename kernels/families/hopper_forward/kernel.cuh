// Forward attention for Hopper, as in FlashAttention 3: a producer warpgroup loads tiles by TMA
// (producer.cuh), consumer warpgroups multiply them by wgmma (consumer.cuh). The grid is persistent: a thread
// block takes tile after tile, and the epilogue of one overlaps with the loads of the next.
#pragma once

#include <cstdint>

#include "kernels/families/hopper_forward/consumer.cuh"
#include "kernels/families/hopper_forward/producer.cuh"
#include "kernels/families/hopper_forward/shared_storage.cuh"

namespace cplab::kernels::cuda::hopper {

// changes: scores are more than q.k (ScoreParams).
template <class T, int D, int W, bool ping_pong, bool changes = false>
__global__ void __launch_bounds__(ForwardShape<D, W>::threads, ForwardShape<D, W>::blocks_together)
    attend_forward_kernel(const __grid_constant__ ForwardParamsOf<changes> params) {
  using Shape = ForwardShape<D, W>;
  extern __shared__ unsigned char forward_shared[];
  const std::uint32_t base = shared_address(forward_shared);
  auto& memory = *reinterpret_cast<ForwardStorage<D, W>*>(forward_shared + (1024 - base % 1024) % 1024);
  ForwardProducer<D, W, changes> producer(params, memory);
  if (threadIdx.x == 0) {
    producer.start();
    memory.init_barriers();
  }
  wait_on_dependent_grids();
  __syncthreads();
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    if constexpr (Shape::moves_registers) warpgroup_reg_dealloc<Shape::producer_registers>();
    if (threadIdx.x == 0) producer.run();
  } else {
    if constexpr (Shape::moves_registers) warpgroup_reg_alloc<Shape::consumer_registers>();
    ForwardConsumer<T, D, W, ping_pong, changes>(params, memory, warpgroup - 1).run();
  }
}

}  // namespace cplab::kernels::cuda::hopper
