// How the mma kernels are launched: a thread block per tile and head. The backward is two kernels that share
// nothing (backward_dkv.cuh, backward_dq.cuh): no atomics and no scratch, so the same bits every time.
#pragma once

#include <vector>

#include "kernels/cuda/kernel_table.hpp"
#include "kernels/families/mma/backward_dkv.cuh"
#include "kernels/families/mma/backward_dq.cuh"
#include "kernels/families/mma/forward.cuh"
#include "kernels/families/mma/tiles.hpp"

namespace cplab::kernels::cuda {

template <class T, class Shape>
void launch_forward_mma(const AttendParams& params, CUstream_st* stream) {
  if (params.work.count == 0 || params.q.heads == 0) return;
  const dim3 grid(static_cast<unsigned>(params.work.count), static_cast<unsigned>(params.q.heads));
  attend_forward_mma_kernel<T, Shape><<<grid, Shape::threads, Shape::shared_bytes, stream>>>(params);
}

template <class T, int D, int E>
AttendKernel mma_forward_kernel() {
  using Shape = MmaForwardShape<D, E>;
  static const KernelFunction functions[] = {
      kernel_function<attend_forward_mma_kernel<T, Shape>, Shape::shared_bytes>(
          {.threads = Shape::threads, .tile_rows = Shape::rows, .tile_columns = Shape::keys, .stages = 1})};
  return {.name = mma_forward_name(Element<T>::dtype, {D, E}),
          .bind = bind_parameters<launch_forward_mma<T, Shape>, AttendParams>,
          .functions = functions};
}

// Instantiated by forward.cu.in.
template <int D, int E>
std::vector<AttendKernel> mma_forward_kernels() {
  return {mma_forward_kernel<__nv_bfloat16, D, E>(), mma_forward_kernel<__half, D, E>()};
}

template <class T, class Dkv, class Dq>
void launch_backward_mma(const AttendBackwardParams& params, CUstream_st* stream) {
  static_assert(Dkv::keys == Dq::queries);
  if (params.by_k.count > 0 && params.k.heads > 0) {
    const dim3 grid(static_cast<unsigned>(params.by_k.count), static_cast<unsigned>(params.k.heads));
    attend_backward_dkv_mma_kernel<T, Dkv><<<grid, Dkv::threads, Dkv::shared_bytes, stream>>>(params);
  }
  if (params.by_q.count > 0 && params.q.heads > 0) {
    const dim3 grid(static_cast<unsigned>(params.by_q.count), static_cast<unsigned>(params.q.heads));
    attend_backward_dq_mma_kernel<T, Dq><<<grid, Dq::threads, Dq::shared_bytes, stream>>>(params);
  }
}

template <class T, int D, int E, bool small_tiles>
AttendBackwardKernel mma_backward_kernel() {
  using Dkv = MmaDkvShape<D, E, small_tiles>;
  using Dq = MmaDqShape<D, E, Dkv::keys>;
  static const KernelFunction functions[] = {
      kernel_function<attend_backward_dkv_mma_kernel<T, Dkv>, Dkv::shared_bytes, Dkv::claim>(
          {.threads = Dkv::threads, .tile_rows = Dkv::queries, .tile_columns = Dkv::keys, .stages = 2}),
      kernel_function<attend_backward_dq_mma_kernel<T, Dq>, Dq::shared_bytes, Dq::claim>(
          {.threads = Dq::threads, .tile_rows = Dq::queries, .tile_columns = Dq::keys, .stages = 2})};
  return {.name = mma_backward_name(Element<T>::dtype, {D, E}, small_tiles),
          .bind = bind_parameters<launch_backward_mma<T, Dkv, Dq>, AttendBackwardParams>,
          .functions = functions};
}

// Instantiated by backward.cu.in.
template <int D, int E>
std::vector<AttendBackwardKernel> mma_backward_kernels() {
  std::vector<AttendBackwardKernel> all = {mma_backward_kernel<__nv_bfloat16, D, E, false>(),
                                           mma_backward_kernel<__half, D, E, false>()};
  if constexpr (has_small_tiles({D, E})) {
    all.push_back(mma_backward_kernel<__nv_bfloat16, D, E, true>());
    all.push_back(mma_backward_kernel<__half, D, E, true>());
  }
  return all;
}

}  // namespace cplab::kernels::cuda
