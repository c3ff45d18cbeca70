// Launching the two gradient kernels for Hopper.
#pragma once

#include <memory>

#include "kernels/cuda/hopper/attend_backward_hopper.cuh"
#include "kernels/cuda/hopper/attend_hopper.hpp"
#include "kernels/cuda/hopper/tensor_map.cuh"

namespace cplab::kernels::cuda::hopper {

template <class T, int D, Owner owner>
void launch_gradient(const HopperBackwardParams& params, CUstream_st* stream) {
  const bool queries = owner == Owner::queries;
  const int blocks =
      (queries ? params.call.by_q.count * params.call.q.heads : params.call.by_k.count * params.call.k.heads);
  if (blocks == 0) return;
  gradient_hopper_kernel<T, D, owner><<<static_cast<unsigned>(blocks), GradientShape<D, owner>::threads,
                                        sizeof(GradientMemory<D, owner>) + 1024, stream>>>(params);
}

template <class T, int D>
Launch bind_attend_backward_hopper(const AttendBackwardParams& call) {
  const auto params = std::make_shared<HopperBackwardParams>();
  params->scale_log2 = static_cast<float>(call.scale * 1.44269504088896340736);
  params->q = tensor_map(call.q, 64);
  params->k = tensor_map(call.k, 64);
  params->v = tensor_map(call.v, 64);
  params->dout = tensor_map(call.dout, 64);
  params->q_heads_per_group = heads_per_group(call.q.heads, call.k.heads, call.k);
  params->k_heads_per_group = heads_per_group(call.k.heads, call.q.heads, call.q);
  return [params, &call](CUstream_st* stream) {
    params->call = call;
    launch_gradient<T, D, Owner::keys>(*params, stream);
    launch_gradient<T, D, Owner::queries>(*params, stream);
  };
}

template <class T, int D>
AttendBackwardVariant attend_backward_hopper_variant(const char* name, bool (*fits)(const AttendBackward&)) {
  static const void* const kernels[] = {
      reinterpret_cast<const void*>(&gradient_hopper_kernel<T, D, Owner::keys>),
      reinterpret_cast<const void*>(&gradient_hopper_kernel<T, D, Owner::queries>), nullptr};
  static constexpr std::int64_t shared_bytes[] = {sizeof(GradientMemory<D, Owner::keys>) + 1024,
                                                  sizeof(GradientMemory<D, Owner::queries>) + 1024};
  return {name,
          9,
          GradientShape<D, Owner::queries>::rows,
          GradientShape<D, Owner::keys>::rows,
          fits,
          bind_attend_backward_hopper<T, D>,
          kernels,
          shared_bytes};
}

}  // namespace cplab::kernels::cuda::hopper
