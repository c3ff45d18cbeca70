// Launching the forward kernel for Hopper.
#pragma once

#include <algorithm>
#include <memory>

#include "kernels/cuda/hopper/attend_hopper.cuh"
#include "kernels/cuda/hopper/attend_hopper.hpp"
#include "kernels/cuda/hopper/tensor_map.cuh"
#include "kernels/cuda/launch.cuh"

namespace cplab::kernels::cuda::hopper {

template <class T, int D, int W>
Launch bind_attend_hopper(const AttendParams& call) {
  using Shape = HopperAttendShape<D, W>;
  const auto params = std::make_shared<HopperAttendParams>();
  params->q = tensor_map(call.q, 64);
  params->k = tensor_map(call.k, Shape::keys);
  params->v = tensor_map(call.v, Shape::keys);
  params->stores_tiles = stores_tiles(call);
  if (params->stores_tiles) params->out = tensor_map(call.out, 64);
  params->scale_log2 = scale_log2(call.scale);
  params->order = TileOrder(call.work.count, call.q.heads,
                            heads_per_group(call.q.heads, call.k.heads, call.k), call.q.heads / call.k.heads);
  params->blocks = std::min(std::max(call.multiprocessors, 1), params->order.tiles);
  return [params, &call](CUstream_st* stream) {
    params->call = call;
    params->counter = params->blocks < params->order.tiles ? call.tile_counter : nullptr;
    launch_early(attend_hopper_kernel<T, D, W>, static_cast<unsigned>(params->blocks), Shape::threads,
                 sizeof(HopperAttendMemory<D, W>) + 1024, stream, *params);
  };
}

// tile_costs: AttendVariant.
template <class T, int D, int W>
AttendVariant attend_hopper_variant(const char* name, const TileCosts& tile_costs,
                                    bool (*fits)(const Attend&)) {
  static const void* const kernels[] = {reinterpret_cast<const void*>(&attend_hopper_kernel<T, D, W>),
                                        nullptr};
  return {name,
          9,
          HopperAttendShape<D, W>::rows,
          tile_costs,
          fits,
          bind_attend_hopper<T, D, W>,
          kernels,
          sizeof(HopperAttendMemory<D, W>) + 1024,
          true};
}

}  // namespace cplab::kernels::cuda::hopper
