// Launches the kernels for few queries: a thread block per piece, key head and part of its query heads, then,
// where keys are split, the launch that merges.
#pragma once

#include <vector>

#include "kernels/cuda/kernel_table.hpp"
#include "kernels/families/decode/forward.cuh"
#include "kernels/families/decode/merge.cuh"
#include "kernels/families/parts/launch.cuh"

namespace cplab::kernels::cuda {

// attend: the kernel that takes pieces.
template <class T, class Shape, auto attend>
void launch_decode(const AttendParams& params, CUstream_st* stream) {
  const PackedHeads packed = packed_heads(params.q.heads, params.k.heads, Shape::rows);
  const auto of_tile = static_cast<unsigned>(packed.parts * params.k.heads);
  launch_dependent(attend, of_tile * static_cast<unsigned>(params.work.count), Shape::threads,
                   Shape::shared_bytes, stream, params, packed);
  if (params.split.count == 0) return;
  launch_dependent(merge_decode_kernel<T, Shape>,
                   static_cast<unsigned>(Shape::rows) * of_tile * static_cast<unsigned>(params.split.count),
                   decode_merge_threads, decode_merge_bytes, stream, params, packed);
}

template <class T, class Shape, auto attend>
AttendKernel decode_kernel() {
  static const KernelFunction functions[] = {
      kernel_function<attend, Shape::shared_bytes, decode_claim(Shape::sizes, Shape::rows)>(
          {.threads = Shape::threads,
           .tile_rows = Shape::rows,
           .tile_columns = Shape::keys,
           .stages = Shape::stages}),
      kernel_function<merge_decode_kernel<T, Shape>, decode_merge_bytes>({.threads = decode_merge_threads})};
  return {.name = decode_name(Element<T>::dtype, Shape::sizes, Shape::rows),
          .bind = bind_parameters<launch_decode<T, Shape, attend>, AttendParams>,
          .functions = functions};
}

template <class Shape>
void add_decode_kernels(std::vector<AttendKernel>& kernels) {
  kernels.push_back(decode_kernel<__nv_bfloat16, Shape, attend_decode_kernel<__nv_bfloat16, Shape>>());
  kernels.push_back(decode_kernel<__half, Shape, attend_decode_kernel<__half, Shape>>());
}

// Instantiated by forward.cu.in.
template <int D, int E>
std::vector<AttendKernel> decode_kernels() {
  std::vector<AttendKernel> kernels;
  add_decode_kernels<DecodeShape<D, E, 16>>(kernels);
  add_decode_kernels<DecodeShape<D, E, 64>>(kernels);
  return kernels;
}

}  // namespace cplab::kernels::cuda
