// Streams by lane; see streams.hpp.
#include "exec/gpu/streams.hpp"

#include <cuda_runtime.h>

#include "exec/gpu/rank.hpp"

namespace cplab {

GpuStreams::~GpuStreams() {
  for (const auto& [lane, stream] : streams_) (void)cudaStreamDestroy(stream);
}

kernels::CudaStream GpuStreams::of(const Lane& lane, int rank) {
  for (const auto& [known, stream] : streams_)
    if (known == lane) return stream;
  // Communication has priority: others wait for its data, and it needs few multiprocessors.
  int least = 0, greatest = 0;
  cuda_require(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange", rank);
  const int priority = lane.kind == LaneKind::compute ? least : greatest;
  cudaStream_t stream = nullptr;
  cuda_require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority), "cudaStreamCreate",
               rank);
  streams_.emplace_back(lane, stream);
  return stream;
}

}  // namespace cplab
