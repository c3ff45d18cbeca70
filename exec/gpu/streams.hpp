// The streams of one GPU on which a plan's lanes run.
#pragma once

#include <utility>
#include <vector>

#include "kernels/cuda.hpp"
#include "plan/plan.hpp"

namespace cplab {

// Made on the GPU that is current at the first call of of(); calls come from one thread at a time.
class GpuStreams {
 public:
  GpuStreams() = default;
  ~GpuStreams();
  GpuStreams(const GpuStreams&) = delete;
  GpuStreams& operator=(const GpuStreams&) = delete;

  // That of the lane: the same at every call. Throws GpuError, which names the rank.
  kernels::CudaStream of(const Lane& lane, int rank);
  // One beside the lanes, which waits for nothing but what is queued on it: for the tables of kernels.
  kernels::CudaStream uploads(int rank);

 private:
  static kernels::CudaStream make(bool first, int rank);

  kernels::CudaStream uploads_ = nullptr;
  std::vector<std::pair<Lane, kernels::CudaStream>> streams_;
};

}  // namespace cplab
