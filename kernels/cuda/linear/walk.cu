// LinearLocal, LinearLocalBackward and LinearInter for any width, dtype and chunk: which thread block
// computes which part of which result. The computation: walk.cuh.
#include <cstdint>

#include "kernels/cuda/linear/linear.hpp"
#include "kernels/cuda/linear/walk.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/cuda/parts/primitives.cuh"

namespace cplab::kernels::cuda {
namespace {

constexpr int results = 4;

__device__ bool has_result(const LinearParams& p, WalkResult result) {
  return operands_of(p, result).o->data != nullptr;
}

__device__ bool of_values(WalkResult result) {
  return result == WalkResult::out || result == WalkResult::dv;
}

// Part `part` of one result, where a part has columns of every result.
template <class T, std::int32_t columns, bool walks>
__device__ void run_result(const LinearParams& p, const BlockPlace& place, WalkResult result, int number,
                           const WalkShared<T>& shared) {
  const LinearCut& cut = p.cut;
  const WalkOperands operands = operands_of(p, result);
  const bool values = of_values(result);
  const bool sliced = cut.counters > 0;
  const std::int32_t key_part = sliced ? place.part % cut.key_parts : place.part;
  const std::int32_t value_part = sliced ? place.part / cut.key_parts : place.part;
  const std::int32_t first = values ? value_part * cut.value_columns : key_part * cut.key_columns;
  const std::int32_t end = min(first + (values ? cut.value_columns : cut.key_columns), operands.o->width);
  WalkPart part{.column = 0, .begin = 0, .end = operands.a->width};
  if (sliced) {
    part.slice = values ? key_part : value_part;
    part.begin = part.slice * (values ? cut.key_columns : cut.value_columns);
    part.end = min(part.begin + (values ? cut.key_columns : cut.value_columns), part.end);
    part.rounds = true;
    // Counters of this chunk and head; slices of one part of a result are `stride` parts apart.
    const std::int32_t slices = values ? cut.key_parts : cut.value_parts;
    const std::int32_t stride = values ? 1 : cut.key_parts;
    const std::int64_t rest = (static_cast<std::int64_t>(place.chunk) * operands.o->heads + place.head);
    std::int32_t* const mine = p.counters + ((rest * cut.results + number) * cut.parts + place.part);
    if (part.slice > 0) part.done_before = mine - stride;
    if (part.slice + 1 < slices) part.done = mine;
  }
  for (std::int32_t column = first; column < end; column += columns) {
    part.column = column;
    Walk<T, columns, walks> walk(p, p.chunks.list[place.chunk], place.head, result, part, shared);
    walk.run();
    part.steps = walk.steps();
  }
  // Nobody reads or writes it any more in this launch: the slice before has counted for the last time.
  if (part.done_before != nullptr && threadIdx.x == 0 && part.steps > 0) *part.done_before = 0;
}

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
  std::int32_t rest = place.part;
  int number = 0;
  for (int n = 0; n < results; ++n) {
    const auto result = static_cast<WalkResult>(n);
    if (!has_result(p, result)) continue;
    if (p.cut.work != ChunkWork::blocked) {
      run_result<T, columns, walks>(p, place, result, number++, shared);
      continue;
    }
    const WalkOperands operands = operands_of(p, result);
    const std::int32_t parts = (operands.o->width + columns - 1) / columns;
    if (rest < parts) {
      const WalkPart part{.column = rest * columns, .begin = 0, .end = operands.a->width};
      Walk<T, columns, walks>(p, chunk, place.head, result, part, shared).run();
      return;
    }
    rest -= parts;
  }
}

template <class T, bool walks>
void launch_walk(const LinearParams& p, CUstream_st* stream) {
  const auto kernel = p.cut.columns == 64   ? linear_walk<T, 64, walks>
                      : p.cut.columns == 32 ? linear_walk<T, 32, walks>
                                            : linear_walk<T, 16, walks>;
  launch_dependent(kernel, static_cast<unsigned>(p.cut.thread_blocks), linear_threads,
                   static_cast<std::size_t>(p.cut.shared_bytes), stream, p);
}

constexpr std::int64_t shared_bytes[] = {linear_shared_limit, linear_shared_limit, linear_shared_limit};

template <class T, bool walks>
LinearKernel kernel_named(const char* name) {
  static const void* const functions[] = {reinterpret_cast<const void*>(&linear_walk<T, 64, walks>),
                                          reinterpret_cast<const void*>(&linear_walk<T, 32, walks>),
                                          reinterpret_cast<const void*>(&linear_walk<T, 16, walks>), nullptr};
  return {.name = name,
          .bind = bind_parameters<launch_walk<T, walks>, LinearParams>,
          .functions = functions,
          .shared_bytes = shared_bytes};
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
