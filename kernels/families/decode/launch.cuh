// Launches the kernels for few queries: a thread block per piece, key head and part of its query heads, then,
// where keys are split, the launch that merges.
#pragma once

#include <vector>

#include "kernels/cuda/kernel_table.hpp"
#include "kernels/families/decode/forward.cuh"
#include "kernels/families/decode/merge.cuh"
#include "kernels/families/parts/launch.cuh"

namespace cplab::kernels::cuda {

template <class T, class Shape>
void launch_decode(const AttendParams& params, CUstream_st* stream) {
  const PackedHeads packed = packed_heads(params.q.heads, params.k.heads, Shape::rows);
  const auto of_tile = static_cast<unsigned>(packed.parts * params.k.heads);
  launch_dependent(attend_decode_kernel<T, Shape>, of_tile * static_cast<unsigned>(params.work.count),
                   Shape::threads, Shape::shared_bytes, stream, params, packed);
  if (params.split.count == 0) return;
  constexpr unsigned blocks = Shape::rows / Shape::merged_rows;
  launch_dependent(merge_decode_kernel<T, Shape>,
                   blocks * of_tile * static_cast<unsigned>(params.split.count), decode_merge_threads, 0,
                   stream, params, packed);
}

template <class T, int D, int E, int rows>
AttendKernel decode_kernel() {
  using Shape = DecodeShape<D, E, rows>;
  static const KernelFunction functions[] = {
      kernel_function<attend_decode_kernel<T, Shape>, Shape::shared_bytes, decode_claim(Shape::sizes, rows)>(
          {.threads = Shape::threads,
           .tile_rows = Shape::rows,
           .tile_columns = Shape::keys,
           .stages = Shape::stages}),
      kernel_function<merge_decode_kernel<T, Shape>>({.threads = decode_merge_threads})};
  return {.name = decode_name(Element<T>::dtype, Shape::sizes, rows),
          .bind = bind_parameters<launch_decode<T, Shape>, AttendParams>,
          .functions = functions};
}

// Instantiated by forward.cu.in.
template <int D, int E>
std::vector<AttendKernel> decode_kernels() {
  std::vector<AttendKernel> all{decode_kernel<__nv_bfloat16, D, E, 16>(), decode_kernel<__half, D, E, 16>()};
  if constexpr (decode_has_rows({D, E}, 64)) {
    all.push_back(decode_kernel<__nv_bfloat16, D, E, 64>());
    all.push_back(decode_kernel<__half, D, E, 64>());
  }
  return all;
}

}  // namespace cplab::kernels::cuda
