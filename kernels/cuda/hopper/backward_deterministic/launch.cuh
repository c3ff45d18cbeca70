// Launching the two deterministic backward kernels.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/hopper/backward_deterministic/kernel.cuh"
#include "kernels/cuda/hopper/hopper.hpp"
#include "kernels/cuda/hopper/parts/tensor_map.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/work/fits.hpp"

namespace cplab::kernels::cuda::hopper {

template <class T, int D, Gradient gradient>
void launch_deterministic(const DeterministicParams& params, CUstream_st* stream) {
  constexpr bool queries = gradient == Gradient::dq;
  const int blocks =
      (queries ? params.call.by_q.count * params.call.q.heads : params.call.by_k.count * params.call.k.heads);
  if (blocks == 0) return;
  launch_dependent(attend_backward_deterministic_kernel<T, D, gradient>, static_cast<unsigned>(blocks),
                   DeterministicShape<D, gradient>::threads, sizeof(DeterministicStorage<D, gradient>) + 1024,
                   stream, params);
}

inline std::shared_ptr<DeterministicParams> deterministic_params(const AttendBackwardParams& call) {
  const auto params = std::make_shared<DeterministicParams>();
  params->scale_log2 = scale_log2(call.scale);
  params->q = tensor_map(call.q, 64);
  params->k = tensor_map(call.k, 64);
  params->v = tensor_map(call.v, 64);
  params->dout = tensor_map(call.dout, 64);
  const int group = call.q.heads / call.k.heads;
  params->q_scheduler = TileScheduler(call.by_q.count, call.q.heads,
                                      heads_per_group(call.q.heads, call.k.heads, call.k), group);
  params->k_scheduler = TileScheduler(call.by_k.count, call.k.heads,
                                      heads_per_group(call.k.heads, call.q.heads, call.q), group);
  return params;
}

template <class T, int D>
Launch bind_backward_deterministic(const AttendBackwardParams& call) {
  return [params = deterministic_params(call), &call](CUstream_st* stream) {
    params->call = call;
    launch_deterministic<T, D, Gradient::dkv>(*params, stream);
    launch_deterministic<T, D, Gradient::dq>(*params, stream);
  };
}

template <class T, int D, Gradient gradient>
KernelFunction deterministic_function() {
  using Shape = DeterministicShape<D, gradient>;
  constexpr bool queries = gradient == Gradient::dq;
  return kernel_function<attend_backward_deterministic_kernel<T, D, gradient>,
                         sizeof(DeterministicStorage<D, gradient>) + 1024, Claim::hopper>(
      {.threads = Shape::threads,
       .tile_rows = queries ? Shape::rows : Shape::columns,
       .tile_columns = queries ? Shape::columns : Shape::rows,
       .stages = Shape::stages});
}

template <class T, int D>
AttendBackwardKernel backward_deterministic_kernel() {
  static_assert(DeterministicShape<D, Gradient::dq>::rows == hopper_backward_tile_rows &&
                DeterministicShape<D, Gradient::dkv>::rows == hopper_backward_tile_rows);
  static const KernelFunction functions[] = {deterministic_function<T, D, Gradient::dkv>(),
                                             deterministic_function<T, D, Gradient::dq>()};
  return {.name = hopper_backward_deterministic_name(Element<T>::dtype, D),
          .bind = bind_backward_deterministic<T, D>,
          .functions = functions};
}

// Instantiated by instance.cu.in.
template <int D>
std::vector<AttendBackwardKernel> backward_deterministic_kernels() {
  return {backward_deterministic_kernel<__nv_bfloat16, D>(), backward_deterministic_kernel<__half, D>()};
}

}  // namespace cplab::kernels::cuda::hopper
