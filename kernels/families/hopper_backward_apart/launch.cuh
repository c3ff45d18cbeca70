// Launches the deterministic backward kernel.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/families/fits.hpp"
#include "kernels/families/hopper_backward_apart/kernel.cuh"
#include "kernels/families/parts/hopper/kernels.hpp"
#include "kernels/families/parts/hopper/tensor_map.cuh"
#include "kernels/families/parts/launch.cuh"

namespace cplab::kernels::cuda::hopper {

template <class Shape>
constexpr std::int64_t deterministic_shared_bytes = sizeof(DeterministicStorage<Shape>) + 1024;

template <class T, class Shape>
Launch bind_backward_deterministic(const AttendBackwardParams& call) {
  const auto params = std::make_shared<DeterministicParams>();
  params->scale_log2 = scale_log2(call.scale);
  params->q = tensor_map(call.q, Shape::column_box_rows);
  params->k = tensor_map(call.k, Shape::column_box_rows);
  params->v = tensor_map(call.v, Shape::column_box_rows);
  params->dout = tensor_map(call.dout, Shape::column_box_rows);
  params->loads_lse_delta_by_tma = loads_lse_delta_by_tma(call);
  if (params->loads_lse_delta_by_tma) {
    params->lse = heads_map(call.lse, Shape::columns);
    params->delta = heads_map(call.delta, Shape::columns);
  }
  params->stores_dq_tiles = stores_dq_tiles(call);
  if (params->stores_dq_tiles)
    params->dq = call.dq.dtype == DType::fp32 ? accumulator_map(call.dq, 16) : tensor_map(call.dq, 16);
  params->stores_dkv_tiles = stores_dkv_tiles(call);
  if (params->stores_dkv_tiles) {
    params->dk = tensor_map(call.dk, 16);
    params->dv = tensor_map(call.dv, 16);
  }
  const int group = call.q.heads / call.k.heads;
  params->k_scheduler = TileScheduler(call.by_k.count, call.k.heads,
                                      heads_per_group(call.k.heads, call.q.heads, call.q), group);
  params->q_scheduler = TileScheduler(call.by_q.count, call.q.heads,
                                      heads_per_group(call.q.heads, call.k.heads, call.k), group);
  const int tiles = params->k_scheduler.tiles + params->q_scheduler.tiles;
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
