// Launches the kernels for Hopper of attention that changes logits: those of softmax attention, with the
// highest tiles alone, as instances that change scores.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/families/hopper_backward/launch.cuh"
#include "kernels/families/hopper_forward/launch.cuh"
#include "kernels/families/masked/hopper/changed_call.hpp"
#include "kernels/families/masked/masked.hpp"

namespace cplab::kernels::cuda {

template <class T, int D>
Launch bind_changed_forward(const MaskedParams& call) {
  constexpr int W = hopper_forward_warpgroups(D);
  using Shape = hopper::ForwardShape<D, W>;
  if (call.tile.work.count == 0 || call.tile.q.heads == 0) return [](CUstream_st*) {};
  const auto params = std::make_shared<hopper::ChangedForwardParams>();
  const AttendParams& tile = call.tile;
  static_cast<hopper::ForwardParams&>(*params) = hopper::forward_params<D, W>(
      tile,
      hopper::heads_per_group(tile.q.heads, tile.k.heads, tile.k, tile.work.rows_together, tile.work.alike));
  params->blocks =
      std::min(Shape::blocks_together * std::max(tile.multiprocessors, 1), params->scheduler.tiles);
  params->scale_log2 = call.scores.scale_log2;
  return [params, &call](CUstream_st* stream) {
    params->call = call.tile;
    params->scores = call.scores;
    params->counter = params->blocks < params->scheduler.tiles ? call.tile.tile_counter : nullptr;
    launch_dependent(hopper::attend_forward_kernel<T, D, W, Shape::ping_pong, true>,
                     static_cast<unsigned>(params->blocks), Shape::threads,
                     sizeof(hopper::ForwardStorage<D, W>) + 1024, stream, *params);
  };
}

template <class T, int D>
MaskedKernel changed_forward_kernel() {
  constexpr int W = hopper_forward_warpgroups(D);
  static const KernelFunction functions[] = {
      hopper::forward_function<T, D, W, hopper::ForwardShape<D, W>::ping_pong, true>()};
  return {.name = hopper_masked_forward_name(Element<T>::dtype, D),
          .bind = bind_changed_forward<T, D>,
          .functions = functions};
}

template <int D, bool adds = false>
using ChangedFusedShape = hopper::FusedShape<D, hopper::UnorderedDqSum, adds, 2, true>;

// The caller has set dq to 0 where it is to be stored.
template <class T, class Shape>
Launch bind_changed_backward(const MaskedBackwardParams& call) {
  const AttendBackwardParams& tile = call.tile;
  if constexpr (!Shape::adds_tiles)
    if (hopper::dkv_write(tile) == hopper::DkvWrite::added_tiles)
      return bind_changed_backward<T, typename Shape::Adding>(call);
  const auto params = std::make_shared<typename Shape::Params>(hopper::fused_params<T, Shape>(
      tile, hopper::UnorderedDqSum::heads_together(tile, hopper::units_of_heads(tile))));
  params->scale_log2 = call.scores.scale_log2;
  params->blocks = std::min(std::max(tile.multiprocessors, 1), params->scheduler.tiles);
  return [params, &call](CUstream_st* stream) {
    params->call = call.tile;
    params->scores = call.scores;
    params->counter = params->blocks < params->scheduler.tiles ? call.tile.tile_counter : nullptr;
    if (hopper::needs_zeroed_dkv(call.tile)) {
      launch_fill(call.tile.zeroed_dk, 0, stream);
      launch_fill(call.tile.zeroed_dv, 0, stream);
    }
    if (params->blocks == 0) return;
    launch_dependent(hopper::attend_backward_fused_kernel<T, Shape>, static_cast<unsigned>(params->blocks),
                     Shape::threads, static_cast<std::size_t>(hopper::fused_shared_bytes<Shape>), stream,
                     *params);
  };
}

template <class T, int D>
MaskedBackwardKernel changed_backward_kernel() {
  using Shape = ChangedFusedShape<D>;
  static const KernelFunction functions[] = {hopper::fused_function<T, Shape>(),
                                             hopper::fused_function<T, typename Shape::Adding>()};
  return {.name = hopper_masked_backward_name(Element<T>::dtype, D),
          .bind = bind_changed_backward<T, Shape>,
          .functions = functions};
}

// Instantiated by forward.cu.in and backward.cu.in of this folder.
template <int D>
std::vector<MaskedKernel> changed_forward_kernels() {
  return {changed_forward_kernel<__nv_bfloat16, D>(), changed_forward_kernel<__half, D>()};
}
template <int D>
std::vector<MaskedBackwardKernel> changed_backward_kernels() {
  return {changed_backward_kernel<__nv_bfloat16, D>(), changed_backward_kernel<__half, D>()};
}

}  // namespace cplab::kernels::cuda
