// How the mma kernels of dynamic mask attention are launched: a thread block per tile and head. The backward
// is two kernels that share nothing (backward_dkv.cuh, backward_dq.cuh): no atomics and no scratch, so the
// same bits every time.
#pragma once

#include <vector>

#include "kernels/families/masked/backward_dkv.cuh"
#include "kernels/families/masked/backward_dq.cuh"
#include "kernels/families/masked/forward.cuh"
#include "kernels/families/masked/masked.hpp"

namespace cplab::kernels::cuda {

template <class T, int D>
void launch_masked_forward(const MaskedParams& params, CUstream_st* stream) {
  using Shape = MaskedForwardShape<D>;
  const AttendParams& call = params.tile;
  if (call.work.count == 0 || call.q.heads == 0) return;
  const dim3 grid(static_cast<unsigned>(call.work.count), static_cast<unsigned>(call.q.heads));
  attend_masked_forward_kernel<T, D><<<grid, Shape::threads, Shape::shared_bytes, stream>>>(params);
}

template <class T, int D>
MaskedKernel masked_forward_kernel() {
  using Shape = MaskedForwardShape<D>;
  static const KernelFunction functions[] = {
      kernel_function<attend_masked_forward_kernel<T, D>, Shape::shared_bytes>(
          {.threads = Shape::threads, .tile_rows = Shape::rows, .tile_columns = Shape::keys, .stages = 1})};
  return {.name = masked_forward_name(Element<T>::dtype, D),
          .bind = bind_parameters<launch_masked_forward<T, D>, MaskedParams>,
          .functions = functions};
}

// Instantiated by forward.cu.in.
template <int D>
std::vector<MaskedKernel> masked_forward_kernels() {
  return {masked_forward_kernel<__nv_bfloat16, D>(), masked_forward_kernel<__half, D>()};
}

template <class T, int D>
void launch_masked_backward(const MaskedBackwardParams& params, CUstream_st* stream) {
  using Dkv = MaskedDkvShape<D>;
  using Dq = MaskedDqShape<D>;
  const AttendBackwardParams& call = params.tile;
  if (call.by_k.count > 0 && call.k.heads > 0) {
    const dim3 grid(static_cast<unsigned>(call.by_k.count), static_cast<unsigned>(call.k.heads));
    attend_masked_dkv_kernel<T, D><<<grid, Dkv::threads, Dkv::shared_bytes, stream>>>(params);
  }
  if (call.by_q.count > 0 && call.q.heads > 0) {
    const dim3 grid(static_cast<unsigned>(call.by_q.count), static_cast<unsigned>(call.q.heads));
    attend_masked_dq_kernel<T, D><<<grid, Dq::threads, Dq::shared_bytes, stream>>>(params);
  }
}

template <class T, int D>
MaskedBackwardKernel masked_backward_kernel() {
  using Dkv = MaskedDkvShape<D>;
  using Dq = MaskedDqShape<D>;
  static const KernelFunction functions[] = {
      kernel_function<attend_masked_dkv_kernel<T, D>, Dkv::shared_bytes>(
          {.threads = Dkv::threads, .tile_rows = Dkv::queries, .tile_columns = Dkv::keys, .stages = 2}),
      kernel_function<attend_masked_dq_kernel<T, D>, Dq::shared_bytes>(
          {.threads = Dq::threads, .tile_rows = Dq::queries, .tile_columns = Dq::keys, .stages = 2})};
  return {.name = masked_backward_name(Element<T>::dtype, D),
          .bind = bind_parameters<launch_masked_backward<T, D>, MaskedBackwardParams>,
          .functions = functions};
}

// Instantiated by backward.cu.in.
template <int D>
std::vector<MaskedBackwardKernel> masked_backward_kernels() {
  return {masked_backward_kernel<__nv_bfloat16, D>(), masked_backward_kernel<__half, D>()};
}

}  // namespace cplab::kernels::cuda
