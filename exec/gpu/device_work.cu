// A wait and a copy; see device_work.hpp.
#include <cuda_runtime.h>

#include <algorithm>

#include "exec/gpu/device_work.hpp"

namespace cplab {

namespace {

__device__ std::uint64_t now_ns() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__global__ void spin(std::uint64_t nanoseconds) {
  const std::uint64_t start = now_ns();
  while (now_ns() - start < nanoseconds) __nanosleep(200);
}

// `in_run` Words of each run, run after run.
template <class Word>
__global__ void copy_runs(const Word* from, Word* into, std::size_t in_run, std::size_t count,
                          std::size_t from_stride, std::size_t into_stride) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < in_run * count;
       i += step) {
    const std::size_t run = i / in_run, at = i - run * in_run;
    into[run * into_stride + at] = from[run * from_stride + at];
  }
}

template <class Word>
int copy_words(kernels::CudaStream stream, const ByteBlock& block) {
  constexpr std::size_t threads = 256, words_of_thread = 8, most_blocks = 4096;
  const std::size_t words = block.bytes / sizeof(Word) * block.count;
  const std::size_t blocks = std::min(most_blocks, (words - 1) / (threads * words_of_thread) + 1);
  copy_runs<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(
      reinterpret_cast<const Word*>(block.from), reinterpret_cast<Word*>(block.into),
      block.bytes / sizeof(Word), block.count, block.from_stride / sizeof(Word),
      block.into_stride / sizeof(Word));
  return cudaGetLastError();
}

}  // namespace

int queue_local_copy(kernels::CudaStream stream, const ByteBlock& block) {
  if (block.bytes == 0 || block.count == 0) return cudaSuccess;
  const std::size_t all = reinterpret_cast<std::size_t>(block.from) |
                          reinterpret_cast<std::size_t>(block.into) | block.bytes | block.from_stride |
                          block.into_stride;
  if (all % sizeof(uint4) == 0) return copy_words<uint4>(stream, block);
  if (all % sizeof(std::uint32_t) == 0) return copy_words<std::uint32_t>(stream, block);
  return copy_words<char>(stream, block);
}

int queue_spin(kernels::CudaStream stream, std::uint64_t nanoseconds) {
  spin<<<1, 1, 0, stream>>>(nanoseconds);
  return cudaGetLastError();
}

}  // namespace cplab
