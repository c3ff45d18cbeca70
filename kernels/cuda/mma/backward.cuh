// Backward attention by mma.sync, in two kernels that share nothing (backward_dkv.cuh, backward_dq.cuh): no
// atomics and no scratch, so the same bits every time.
#pragma once

#include <vector>

#include "kernels/cuda/kernel_table.hpp"
#include "kernels/cuda/mma/backward_dkv.cuh"
#include "kernels/cuda/mma/backward_dq.cuh"
#include "kernels/work/variants.hpp"

namespace cplab::kernels::cuda {

template <class T, int D>
void launch_backward_mma(const AttendBackwardParams& params, CUstream_st* stream) {
  using Dkv = MmaDkvShape<D>;
  using Dq = MmaDqShape<D>;
  static_assert(Dkv::keys == mma_tile_rows && Dq::queries == mma_tile_rows);
  if (params.by_k.count > 0 && params.k.heads > 0) {
    const dim3 grid(static_cast<unsigned>(params.by_k.count), static_cast<unsigned>(params.k.heads));
    attend_backward_dkv_mma_kernel<T, D><<<grid, Dkv::threads, Dkv::shared_bytes, stream>>>(params);
  }
  if (params.by_q.count > 0 && params.q.heads > 0) {
    const dim3 grid(static_cast<unsigned>(params.by_q.count), static_cast<unsigned>(params.q.heads));
    attend_backward_dq_mma_kernel<T, D><<<grid, Dq::threads, Dq::shared_bytes, stream>>>(params);
  }
}

template <class T, int D>
AttendBackwardKernel mma_backward_kernel() {
  static const void* const functions[] = {
      reinterpret_cast<const void*>(&attend_backward_dkv_mma_kernel<T, D>),
      reinterpret_cast<const void*>(&attend_backward_dq_mma_kernel<T, D>), nullptr};
  static constexpr std::int64_t shared_bytes[] = {MmaDkvShape<D>::shared_bytes, MmaDqShape<D>::shared_bytes};
  return {.name = mma_backward_name(Element<T>::dtype, D),
          .bind = bind_parameters<launch_backward_mma<T, D>, AttendBackwardParams>,
          .functions = functions,
          .shared_bytes = shared_bytes};
}

// Instantiated by backward.cu.in.
template <int D>
std::vector<AttendBackwardKernel> mma_backward_kernels() {
  return {mma_backward_kernel<__nv_bfloat16, D>(), mma_backward_kernel<__half, D>()};
}

}  // namespace cplab::kernels::cuda
