// Launches the deterministic backward kernel.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/families/fits.hpp"
#include "kernels/families/hopper_backward_apart/kernel.cuh"
#include "kernels/families/hopper_backward_apart/params.cuh"
#include "kernels/families/parts/hopper/kernels.hpp"
#include "kernels/families/parts/launch.cuh"

namespace cplab::kernels::cuda::hopper {

template <class Shape>
constexpr std::int64_t deterministic_shared_bytes = sizeof(DeterministicStorage<Shape>) + 1024;

template <class T, class Shape>
Launch bind_backward_deterministic(const AttendBackwardParams& call) {
  const auto params = std::make_shared<DeterministicParams>();
  *params = deterministic_params<Shape>(call, {heads_per_group(call.k.heads, call.q.heads, call.q),
                                               heads_per_group(call.q.heads, call.k.heads, call.k)});
  const int tiles = params->key_tiles + params->q_scheduler.tiles;
  params->blocks = std::min(std::max(call.multiprocessors, 1), tiles);
  return [params, tiles, &call](CUstream_st* stream) {
    if (tiles == 0) return;
    params->call = call;
    params->counter = params->blocks < tiles ? call.tile_counter : nullptr;
    launch_dependent(attend_backward_deterministic_kernel<T, Shape>, static_cast<unsigned>(params->blocks),
                     Shape::threads, deterministic_shared_bytes<Shape>, stream, *params);
  };
}

template <class T, int D>
AttendBackwardKernel backward_deterministic_kernel() {
  using Shape = DeterministicShape<D>;
  static_assert(Shape::rows == hopper_backward_tile_rows);
  static const KernelFunction functions[] = {
      kernel_function<attend_backward_deterministic_kernel<T, Shape>, deterministic_shared_bytes<Shape>,
                      Claim::hopper>({.threads = Shape::threads,
                                      .tile_rows = Shape::columns,
                                      .tile_columns = Shape::rows,
                                      .stages = Shape::stages})};
  return {.name = hopper_backward_deterministic_name(Element<T>::dtype, D),
          .bind = bind_backward_deterministic<T, Shape>,
          .functions = functions};
}

// instance.cu.in instantiates this.
template <int D>
std::vector<AttendBackwardKernel> backward_deterministic_kernels() {
  return {backward_deterministic_kernel<__nv_bfloat16, D>(), backward_deterministic_kernel<__half, D>()};
}

}  // namespace cplab::kernels::cuda::hopper
