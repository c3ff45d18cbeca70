// Launching the kernel for all gradients for Hopper.
#pragma once

#include <algorithm>
#include <memory>

#include "kernels/cuda/elementwise.hpp"
#include "kernels/cuda/hopper/attend_backward_fused.cuh"
#include "kernels/cuda/hopper/attend_hopper.hpp"
#include "kernels/cuda/hopper/tensor_map.cuh"
#include "kernels/cuda/launch.cuh"

namespace cplab::kernels::cuda::hopper {

template <class T, int D>
Launch bind_attend_backward_fused(const AttendBackwardParams& call) {
  const auto params = std::make_shared<FusedParams>();
  params->scale_log2 = scale_log2(call.scale);
  params->q = tensor_map(call.q, 64);
  params->k = tensor_map(call.k, 64);
  params->v = tensor_map(call.v, 64);
  params->dout = tensor_map(call.dout, 64);
  params->reduces_tiles = reduces_tiles(call);
  if (params->reduces_tiles) params->dq = sum_map(call.dq);
  params->key_rows = writes_tiles(call) ? call.dk.dtype == DType::fp32 ? KeyRows::sums : KeyRows::rounded
                                        : KeyRows::one_by_one;
  if (params->key_rows != KeyRows::one_by_one) {
    params->dk = tensor_map(call.dk, 16);
    params->dv = tensor_map(call.dv, 16);
  }
  const int group = call.q.heads / call.k.heads;
  params->shares_keys = shares_keys(call);
  params->heads_of_tile = params->shares_keys ? 1 : group;
  const int units = call.q.heads / params->heads_of_tile;
  params->order = TileOrder(call.by_k.live, units, heads_per_group(units, call.q.heads, call.q), group);
  params->blocks = std::min(std::max(call.multiprocessors, 1), params->order.tiles);
  return [params, &call](CUstream_st* stream) {
    params->call = call;
    params->counter = params->blocks < params->order.tiles ? call.tile_counter : nullptr;
    if (call.write_dq == Write::store) launch_fill(call.dq, 0, stream);
    if (needs_zeroed_key_gradients(call)) {
      launch_fill(call.dk, 0, stream);
      launch_fill(call.dv, 0, stream);
    }
    if (params->blocks == 0) return;
    launch_early(attend_backward_fused_kernel<T, D>, static_cast<unsigned>(params->blocks),
                 FusedShape<D>::threads, sizeof(FusedMemory<D>) + 1024, stream, *params);
  };
}

template <class T, int D>
AttendBackwardVariant attend_backward_fused_variant(const char* name, bool (*fits)(const AttendBackward&)) {
  static const void* const kernels[] = {reinterpret_cast<const void*>(&attend_backward_fused_kernel<T, D>),
                                        nullptr};
  static constexpr std::int64_t shared_bytes[] = {sizeof(FusedMemory<D>) + 1024};
  return {name,
          9,
          false,
          FusedShape<D>::keys,
          FusedShape<D>::keys,
          fits,
          bind_attend_backward_fused<T, D>,
          kernels,
          shared_bytes,
          true};
}

}  // namespace cplab::kernels::cuda::hopper
