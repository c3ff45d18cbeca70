// Pipelines of stages in shared memory, each with a full and an empty mbarrier: what CUTLASS calls
// PipelineState, as functions of a count that only grows.
#pragma once

namespace cplab::kernels::cuda::hopper {

// The stage of the count-th block, and the parity of the barrier phase that its filling (or emptying) ends.
template <int stages>
struct PipelineIndex {
  static __device__ __forceinline__ int stage(int count) {
    return static_cast<int>(static_cast<unsigned>(count) % stages);
  }
  static __device__ __forceinline__ int parity(int count) {
    return static_cast<int>(static_cast<unsigned>(count) / stages & 1);
  }
};

}  // namespace cplab::kernels::cuda::hopper
