// LinearLocal, LinearLocalBackward and LinearInter for any width, dtype and chunk: which thread block
// computes which part of which result. The computation: walk.cuh.
#include <cstdint>

#include "kernels/families/linear/linear.hpp"
#include "kernels/families/linear/walk.cuh"
#include "kernels/families/parts/launch.cuh"
#include "kernels/families/parts/primitives.cuh"

namespace cplab::kernels::cuda {
namespace {

template <class T, std::int32_t columns, bool walks>
__global__ void __launch_bounds__(linear_threads) linear_walk(const __grid_constant__ LinearParams p) {
  extern __shared__ __align__(16) unsigned char memory[];
  wait_on_dependent_grids();
  const WalkShared<T> shared = walk_shared<T, columns>(memory);
  const std::int32_t heads = max(p.q.heads, max(p.k.heads, max(p.v.heads, p.dout.heads)));
  const BlockPlace place = block_place(p.cut, heads);
  const DeviceChunk& chunk = p.chunks.list[place.chunk];
  if constexpr (walks) {
    if (threadIdx.x <= linear_tokens)
      shared.powers[threadIdx.x] = decay<T>(p.chunks.slopes[place.head], threadIdx.x);
  }
  run_parts<columns>(p, place, [&](WalkResult result, WalkPart& part) {
    Walk<T, columns, walks>(p, chunk, place.head, result, part, shared).run();
  });
}

template <class T, bool walks>
void launch_walk(const LinearParams& p, CUstream_st* stream) {
  const auto kernel = p.cut.columns == 64   ? linear_walk<T, 64, walks>
                      : p.cut.columns == 32 ? linear_walk<T, 32, walks>
                                            : linear_walk<T, 16, walks>;
  launch_dependent(kernel, static_cast<unsigned>(p.cut.thread_blocks), linear_threads,
                   static_cast<std::size_t>(p.cut.shared_bytes), stream, p);
}

template <class T, std::int32_t columns, bool walks>
KernelFunction walk_function() {
  return kernel_function<linear_walk<T, columns, walks>, linear_shared_limit>(
      {.threads = linear_threads, .tile_rows = linear_tokens, .tile_columns = columns, .stages = 1});
}

template <class T, bool walks>
LinearKernel kernel_named(const char* name) {
  static const KernelFunction functions[] = {walk_function<T, 64, walks>(), walk_function<T, 32, walks>(),
                                             walk_function<T, 16, walks>()};
  return {.name = name, .bind = bind_parameters<launch_walk<T, walks>, LinearParams>, .functions = functions};
}

}  // namespace

std::vector<LinearKernel> linear_walk_kernels() {
  return {
      kernel_named<float, true>("linear_local general fp32"),
      kernel_named<float, true>("linear_local_backward general fp32"),
      kernel_named<float, false>("linear_inter general fp32"),
#ifdef CPLAB_FULL_KERNELS
      kernel_named<double, true>("linear_local general fp64"),
      kernel_named<double, true>("linear_local_backward general fp64"),
      kernel_named<double, false>("linear_inter general fp64"),
#endif
  };
}

}  // namespace cplab::kernels::cuda
