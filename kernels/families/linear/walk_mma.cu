// LinearLocal and LinearLocalBackward in 16 bits on tensor cores: the kernels of walk_mma.cuh, for states of
// up to 64 or 128 rows and 32 or 64 columns at a time.
#include <cstdint>

#include "kernels/families/linear/linear.hpp"
#include "kernels/families/linear/walk_mma.cuh"
#include "kernels/families/parts/launch.cuh"

namespace cplab::kernels::cuda {
namespace {

template <class T, int depth, int columns>
__global__ void __launch_bounds__(linear_threads, 2) linear_walk_mma(const __grid_constant__ LinearParams p) {
  extern __shared__ __align__(16) unsigned char memory[];
  wait_on_dependent_grids();
  auto& shared = *reinterpret_cast<MmaWalkShared<T, depth, columns>*>(memory);
  const BlockPlace place = block_place(p.cut, p.q.heads);
  const DeviceChunk& chunk = p.chunks.list[place.chunk];
  if (threadIdx.x <= linear_tokens)
    shared.powers[threadIdx.x] = decay<float>(p.chunks.slopes[place.head], threadIdx.x);
  run_parts<columns>(p, place, [&](WalkResult result, WalkPart& part) {
    MmaWalk<T, depth, columns>(p, chunk, place.head, result, part, shared).run();
  });
}

template <class T, int depth, int columns>
constexpr std::int64_t bytes_of_kernel = sizeof(MmaWalkShared<T, depth, columns>);
static_assert(bytes_of_kernel<__half, 64, 32> == mma_walk_bytes(64, 32));
static_assert(bytes_of_kernel<__half, 64, 64> == mma_walk_bytes(64, 64));
static_assert(bytes_of_kernel<__half, 128, 32> == mma_walk_bytes(128, 32));
static_assert(bytes_of_kernel<__half, 128, 64> == mma_walk_bytes(128, 64));

template <class T>
void launch_mma(const LinearParams& p, CUstream_st* stream) {
  const bool deep = p.cut.depth > 64;
  const auto kernel = p.cut.columns == 32 ? (deep ? linear_walk_mma<T, 128, 32> : linear_walk_mma<T, 64, 32>)
                                          : (deep ? linear_walk_mma<T, 128, 64> : linear_walk_mma<T, 64, 64>);
  launch_dependent(kernel, static_cast<unsigned>(p.cut.thread_blocks), linear_threads,
                   static_cast<std::size_t>(p.cut.shared_bytes), stream, p);
}

template <class T, int depth, int columns>
KernelFunction mma_function() {
  return kernel_function<linear_walk_mma<T, depth, columns>, bytes_of_kernel<T, depth, columns>>(
      {.threads = linear_threads, .tile_rows = linear_tokens, .tile_columns = columns, .stages = 1});
}

template <class T>
LinearKernel kernel_named(const char* name) {
  static const KernelFunction functions[] = {mma_function<T, 64, 32>(), mma_function<T, 64, 64>(),
                                             mma_function<T, 128, 32>(), mma_function<T, 128, 64>()};
  return {.name = name, .bind = bind_parameters<launch_mma<T>, LinearParams>, .functions = functions};
}

}  // namespace

std::vector<LinearKernel> linear_mma_kernels() {
  return {kernel_named<__nv_bfloat16>("linear_local mma bf16"),
          kernel_named<__nv_bfloat16>("linear_local_backward mma bf16"),
          kernel_named<__half>("linear_local mma fp16"),
          kernel_named<__half>("linear_local_backward mma fp16")};
}

}  // namespace cplab::kernels::cuda
