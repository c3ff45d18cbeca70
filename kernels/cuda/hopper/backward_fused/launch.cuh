// Launching the fused backward kernel.
#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "kernels/cuda/elementwise/elementwise.hpp"
#include "kernels/cuda/hopper/backward_fused/kernel.cuh"
#include "kernels/cuda/hopper/hopper.hpp"
#include "kernels/cuda/hopper/parts/tensor_map.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/families/fits.hpp"

namespace cplab::kernels::cuda::hopper {

// 1024 more than needed, where there is room for it, in case shared memory does not begin at a multiple of
// that.
template <class Shape>
constexpr std::int64_t fused_shared_bytes = std::min<std::int64_t>(sizeof(FusedStorage<Shape>) + 1024,
                                                                   most_shared_bytes);

template <class T, class Shape>
Launch bind_backward_fused(const AttendBackwardParams& call) {
  if constexpr (!Shape::adds_tiles)
    if (dkv_write(call) == DkvWrite::added_tiles) return bind_backward_fused<T, typename Shape::Adding>(call);
  const auto params = std::make_shared<FusedParams>();
  params->scale_log2 = scale_log2(call.scale);
  params->ds_factor = ds_factor<T>(call.scale);
  params->q = tensor_map(call.q, Shape::query_box_rows);
  params->k = tensor_map(call.k, 64);
  params->v = tensor_map(call.v, 64);
  params->dout = tensor_map(call.dout, Shape::query_box_rows);
  params->loads_lse_delta_by_tma = loads_lse_delta_by_tma(call);
  if (params->loads_lse_delta_by_tma) {
    params->lse = heads_map(call.lse, Shape::queries);
    params->delta = heads_map(call.delta, Shape::queries);
  }
  params->adds_dq_by_tma = adds_dq_by_tma(call);
  params->adds_every_row = Shape::ordered && adds_every_row(call);
  if (params->adds_dq_by_tma) params->dq = accumulator_map(call.dq, Shape::dq_rows);
  if (Shape::by_chains) params->dq_strips = accumulator_map(call.dq, rounding_rows);
  params->dkv_write = dkv_write(call);
  if (params->dkv_write != DkvWrite::row_by_row) {
    params->dk = tensor_map(call.dk, 16);
    params->dv = tensor_map(call.dv, 16);
  }
  const int group = call.q.heads / call.k.heads;
  params->splits_query_heads = splits_query_heads(call);
  params->heads_of_tile = params->splits_query_heads ? 1 : group;
  const int units = call.q.heads / params->heads_of_tile;
  const FusedOrder order =
      Shape::ordered ? order_of_turns(call.turns.even, call.turns.full) : any_order(call.by_k.alike);
  int together = fused_heads_per_group(units, call.q.heads, call.q, call.by_k.rows_together, order);
  if constexpr (Shape::by_chains) together = units;  // all heads of the longest chain first
  if constexpr (Shape::ordered) {
    if (params->splits_query_heads)
      together = heads_that_take_turns(together, call.k.heads, call.by_k.live,
                                       queueing_tiles(call.turns.full, call.by_k.rows_together, Shape::keys),
                                       call.multiprocessors);
    together = set_order_of_heads(*params, call, units, together);
    params->stores_first_dq = stores_first_dq(call);
  }
  params->scheduler =
      TileScheduler(Shape::by_chains ? call.chains.count : call.by_k.live, units, together, group);
  params->blocks = std::min(std::max(call.multiprocessors, 1), params->scheduler.tiles);
  if (!Shape::by_chains && !params->stores_first_dq && call.write_dq == Write::store && !call.dq_is_zero)
    throw std::logic_error("a backward kernel was to add to dq, which nobody sets to 0");
  return [params, &call](CUstream_st* stream) {
    params->call = call;
    params->counter =
        Shape::ordered || params->blocks < params->scheduler.tiles ? call.tile_counter : nullptr;
    if (needs_zeroed_dkv(call) && !call.dkv_is_zero) {
      params->call.follows_preparation = false;
      launch_fill(call.zeroed_dk, 0, stream);
      launch_fill(call.zeroed_dv, 0, stream);
    }
    if (params->blocks == 0) return;
    launch_dependent(attend_backward_fused_kernel<T, Shape>, static_cast<unsigned>(params->blocks),
                     Shape::threads, static_cast<std::size_t>(fused_shared_bytes<Shape>), stream, *params);
  };
}

template <class T, class Shape>
KernelFunction fused_function() {
  return kernel_function<attend_backward_fused_kernel<T, Shape>, fused_shared_bytes<Shape>, Claim::hopper>(
      {.threads = Shape::threads,
       .tile_rows = Shape::queries,
       .tile_columns = Shape::keys,
       .stages = Shape::stages});
}

template <class T, int D, DqOrder order, int consumers = 2>
AttendBackwardKernel backward_fused_kernel() {
  using Shape = FusedShape<D, order, false, consumers>;
  static_assert(Shape::keys ==
                (consumers == 2 ? hopper_backward_tile_rows : hopper_backward_small_tile_rows));
  static const KernelFunction functions[] = {fused_function<T, Shape>(),
                                             fused_function<T, typename Shape::Adding>()};
  return {.name = Shape::ordered     ? hopper_backward_ordered_name(Element<T>::dtype, D)
                  : Shape::by_chains ? hopper_backward_chains_name(Element<T>::dtype, D)
                                     : hopper_backward_fused_name(Element<T>::dtype, D, Shape::keys),
          .bind = bind_backward_fused<T, Shape>,
          .functions = functions};
}

// Instantiated by instance.cu.in.
template <int D>
std::vector<AttendBackwardKernel> backward_fused_kernels() {
  return {backward_fused_kernel<__nv_bfloat16, D, DqOrder::any>(),
          backward_fused_kernel<__half, D, DqOrder::any>(),
          backward_fused_kernel<__nv_bfloat16, D, DqOrder::in_turn>(),
          backward_fused_kernel<__half, D, DqOrder::in_turn>()};
}

// Instantiated by instance_64_keys.cu.
template <int D>
std::vector<AttendBackwardKernel> backward_fused_64_keys_kernels() {
  return {backward_fused_kernel<__nv_bfloat16, D, DqOrder::any, 1>(),
          backward_fused_kernel<__half, D, DqOrder::any, 1>()};
}

// Instantiated by instance_chains.cu.
template <int D>
std::vector<AttendBackwardKernel> backward_chains_kernels() {
  return {backward_fused_kernel<__nv_bfloat16, D, DqOrder::by_chains>(),
          backward_fused_kernel<__half, D, DqOrder::by_chains>()};
}

}  // namespace cplab::kernels::cuda::hopper
