// Launching the two gradient kernels for Hopper that give the same bits every time.
#pragma once

#include <memory>

#include "kernels/cuda/elementwise.hpp"
#include "kernels/cuda/hopper/attend_backward_hopper.cuh"
#include "kernels/cuda/hopper/attend_hopper.hpp"
#include "kernels/cuda/hopper/tensor_map.cuh"
#include "kernels/cuda/launch.cuh"

namespace cplab::kernels::cuda::hopper {

template <class T, int D, Part part>
void launch_gradient(const HopperBackwardParams& params, CUstream_st* stream) {
  constexpr bool queries = part == Part::dq;
  const int blocks =
      (queries ? params.call.by_q.count * params.call.q.heads : params.call.by_k.count * params.call.k.heads);
  if (blocks == 0) return;
  launch_early(gradient_hopper_kernel<T, D, part>, static_cast<unsigned>(blocks),
               GradientShape<D, part>::threads, sizeof(GradientMemory<D, part>) + 1024, stream, params);
}

inline std::shared_ptr<HopperBackwardParams> hopper_backward_params(const AttendBackwardParams& call) {
  const auto params = std::make_shared<HopperBackwardParams>();
  params->scale_log2 = scale_log2(call.scale);
  params->q = tensor_map(call.q, 64);
  params->k = tensor_map(call.k, 64);
  params->v = tensor_map(call.v, 64);
  params->dout = tensor_map(call.dout, 64);
  const int group = call.q.heads / call.k.heads;
  params->q_order =
      TileOrder(call.by_q.count, call.q.heads, heads_per_group(call.q.heads, call.k.heads, call.k), group);
  params->k_order =
      TileOrder(call.by_k.count, call.k.heads, heads_per_group(call.k.heads, call.q.heads, call.q), group);
  return params;
}

template <class T, int D>
Launch bind_attend_backward_hopper(const AttendBackwardParams& call) {
  return [params = hopper_backward_params(call), &call](CUstream_st* stream) {
    params->call = call;
    launch_gradient<T, D, Part::dk_dv>(*params, stream);
    launch_gradient<T, D, Part::dq>(*params, stream);
  };
}

template <class T, int D>
AttendBackwardVariant attend_backward_hopper_variant(const char* name, bool (*fits)(const AttendBackward&)) {
  static const void* const kernels[] = {
      reinterpret_cast<const void*>(&gradient_hopper_kernel<T, D, Part::dk_dv>),
      reinterpret_cast<const void*>(&gradient_hopper_kernel<T, D, Part::dq>), nullptr};
  static constexpr std::int64_t shared_bytes[] = {sizeof(GradientMemory<D, Part::dk_dv>) + 1024,
                                                  sizeof(GradientMemory<D, Part::dq>) + 1024};
  return {name,
          9,
          true,
          GradientShape<D, Part::dq>::rows,
          GradientShape<D, Part::dk_dv>::rows,
          fits,
          bind_attend_backward_hopper<T, D>,
          kernels,
          shared_bytes};
}

}  // namespace cplab::kernels::cuda::hopper
