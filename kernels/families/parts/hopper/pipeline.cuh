// Pipelines of stages in shared memory, each with a full and an empty mbarrier: what CUTLASS calls
// PipelineState, as functions of a count that only grows, or of a place.
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

// Stages without a division, for numbers of stages that are no power of two. A place in the pipeline
// is 2 * stage + parity, and begins at 0; after() and before() give its neighbours.
template <int stages>
struct PipelinePlace {
  static __device__ __forceinline__ int stage(int place) { return place >> 1; }
  static __device__ __forceinline__ int parity(int place) { return place & 1; }
  static __device__ __forceinline__ int after(int place) {
    return place < last ? place + 2 : (place - last) ^ 1;
  }
  static __device__ __forceinline__ int before(int place) {
    return place > 1 ? place - 2 : (place + last) ^ 1;
  }

 private:
  static constexpr int last = 2 * (stages - 1);  // stage, parity 0
};

}  // namespace cplab::kernels::cuda::hopper
