// The fused backward kernel's parameters, from a call.
#pragma once

#include "kernels/families/fits.hpp"
#include "kernels/families/hopper_backward/score_gradients.cuh"
#include "kernels/families/hopper_backward/shared_storage.cuh"
#include "kernels/families/parts/hopper/tensor_map.cuh"

namespace cplab::kernels::cuda::hopper {

// How often a launch takes a tile of keys, each time for other query heads.
inline int units_of_heads(const AttendBackwardParams& call) {
  return splits_query_heads(call) ? call.q.heads : call.k.heads;
}

// All but the tile counter. together: at most so many of the units of heads are taken side by side.
template <class T, class Shape>
typename Shape::Params fused_params(const AttendBackwardParams& call, int together) {
  typename Shape::Params params;
  params.call = call;
  params.scale_log2 = scale_log2(call.scale);  // a kernel that changes scores has its own
  params.ds_factor = ds_factor<T>(call.scale);
  params.q = tensor_map(call.q, Shape::query_box_rows);
  params.k = tensor_map(call.k, 64);
  params.v = tensor_map(call.v, 64);
  params.dout = tensor_map(call.dout, Shape::query_box_rows);
  params.loads_lse_delta_by_tma = loads_lse_delta_by_tma(call);
  if (params.loads_lse_delta_by_tma) {
    params.lse = heads_map(call.lse, Shape::queries);
    params.delta = heads_map(call.delta, Shape::queries);
  }
  params.adds_dq_by_tma = adds_dq_by_tma(call);
  if (params.adds_dq_by_tma) params.dq = accumulator_map(call.dq, Shape::dq_rows);
  params.adds_every_row = Shape::DqSum::adds_every_row(call);
  params.dkv_write = dkv_write(call);
  if (params.dkv_write != DkvWrite::row_by_row) {
    params.dk = tensor_map(call.dk, 16);
    params.dv = tensor_map(call.dv, 16);
  }
  const int group = call.q.heads / call.k.heads, units = units_of_heads(call);
  params.splits_query_heads = splits_query_heads(call);
  params.heads_of_tile = params.splits_query_heads ? 1 : group;
  params.dq_sum = Shape::DqSum::params(call, units, together);
  params.scheduler = TileScheduler(Shape::DqSum::scheduled_tiles(call), units, together, group);
  return params;
}

}  // namespace cplab::kernels::cuda::hopper
