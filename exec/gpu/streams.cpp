// Streams by lane; see streams.hpp.
#include "exec/gpu/streams.hpp"

#include <cuda_runtime.h>

#include "exec/gpu/rank.hpp"

namespace cplab {

GpuStreams::~GpuStreams() {
  for (const auto& [lane, stream] : streams_) (void)cudaStreamDestroy(stream);
  if (uploads_ != nullptr) (void)cudaStreamDestroy(uploads_);
}

// `first`: before others where multiprocessors are short.
kernels::CudaStream GpuStreams::make(bool first, int rank) {
  int least = 0, greatest = 0;
  cuda_require(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange", rank);
  cudaStream_t stream = nullptr;
  cuda_require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, first ? greatest : least),
               "cudaStreamCreate", rank);
  return stream;
}

kernels::CudaStream GpuStreams::of(const Lane& lane, int rank) {
  for (const auto& [known, stream] : streams_)
    if (known == lane) return stream;
  // Communication has priority: others wait for its data, and it needs few multiprocessors.
  streams_.emplace_back(lane, make(lane.kind != LaneKind::compute, rank));
  return streams_.back().second;
}

kernels::CudaStream GpuStreams::uploads(int rank) {
  if (uploads_ == nullptr) uploads_ = make(true, rank);
  return uploads_;
}

}  // namespace cplab
