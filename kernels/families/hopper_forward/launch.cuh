// Launches the forward kernel for Hopper.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/families/fits.hpp"
#include "kernels/families/hopper_forward/kernel.cuh"
#include "kernels/families/hopper_forward/params.cuh"
#include "kernels/families/parts/hopper/kernels.hpp"
#include "kernels/families/parts/launch.cuh"

namespace cplab::kernels::cuda::hopper {

template <class T, int D, int W, bool ping_pong = ForwardShape<D, W>::ping_pong>
Launch bind_forward(const AttendParams& call) {
  using Shape = ForwardShape<D, W>;
  if constexpr (ping_pong && hopper_forward_goes_out_of_turn(D, W))
    if (call.work.out_of_turn) return bind_forward<T, D, W, false>(call);
  const auto params = std::make_shared<ForwardParams>();
  *params = forward_params<D, W>(
      call, heads_per_group(call.q.heads, call.k.heads, call.k, call.work.rows_together, call.work.alike));
  params->blocks =
      std::min(Shape::blocks_together * std::max(call.multiprocessors, 1), params->scheduler.tiles);
  return [params, &call](CUstream_st* stream) {
    params->call = call;
    params->counter = params->blocks < params->scheduler.tiles ? call.tile_counter : nullptr;
    launch_dependent(attend_forward_kernel<T, D, W, ping_pong>, static_cast<unsigned>(params->blocks),
                     Shape::threads, sizeof(ForwardStorage<D, W>) + 1024, stream, *params);
  };
}

template <class T, int D, int W, bool ping_pong, bool changes = false>
KernelFunction forward_function() {
  using Shape = ForwardShape<D, W>;
  return kernel_function<attend_forward_kernel<T, D, W, ping_pong, changes>,
                         sizeof(ForwardStorage<D, W>) + 1024, Claim::hopper>({.threads = Shape::threads,
                                                                              .tile_rows = Shape::rows,
                                                                              .tile_columns = Shape::keys,
                                                                              .stages = Shape::v_stages});
}

template <class T, int D, int W>
std::span<const KernelFunction> forward_functions() {
  constexpr bool ping_pong = ForwardShape<D, W>::ping_pong;
  if constexpr (hopper_forward_goes_out_of_turn(D, W)) {
    static const KernelFunction both[] = {forward_function<T, D, W, ping_pong>(),
                                          forward_function<T, D, W, false>()};
    return both;
  } else {
    static const KernelFunction one[] = {forward_function<T, D, W, ping_pong>()};
    return one;
  }
}

template <class T, int D, int W>
AttendKernel forward_kernel() {
  return {.name = hopper_forward_name(Element<T>::dtype, D, W),
          .bind = bind_forward<T, D, W>,
          .functions = forward_functions<T, D, W>()};
}

// Makes the kernels with `most` consumer warpgroups and with all smaller numbers of them.
template <class T, int D, int most>
void add_forward_kernels(std::vector<AttendKernel>& kernels) {
  kernels.push_back(forward_kernel<T, D, most>());
  if constexpr (most > hopper_forward_least_warpgroups(D)) add_forward_kernels<T, D, most - 1>(kernels);
}

// instance.cu.in instantiates this.
template <int D>
std::vector<AttendKernel> forward_kernels() {
  constexpr int most = hopper_forward_warpgroups(D);
  std::vector<AttendKernel> kernels;
  add_forward_kernels<__nv_bfloat16, D, most>(kernels);
  add_forward_kernels<__half, D, most>(kernels);
  return kernels;
}

}  // namespace cplab::kernels::cuda::hopper
