// The fused backward kernel's parameters, from a call.
#pragma once

#include "kernels/families/fits.hpp"
#include "kernels/families/hopper_backward/score_gradients.cuh"
#include "kernels/families/hopper_backward/shared_storage.cuh"
#include "kernels/families/parts/hopper/tensor_map.cuh"
#include "kernels/tiles/row_space.hpp"

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
  constexpr int D = Shape::head_size;
  params.q = padded_map(call.q, Shape::query_box_rows, D);
  params.k = padded_map(call.k, 64, D);
  params.v = padded_map(call.v, 64, D);
  params.dout = padded_map(call.dout, Shape::query_box_rows, D);
  params.single_key_groups = has_single_groups(call.q);
  params.single_value_groups = has_single_groups(call.v);
  params.single_dq_groups = has_single_groups(call.dq);
  params.single_dk_groups = has_single_groups(call.dk);
  params.single_dv_groups = has_single_groups(call.dv);
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
    params.dk = padded_map(call.dk, 16, D);
    params.dv = padded_map(call.dv, 16, D);
  }
  const int group = call.q.heads / call.k.heads, units = units_of_heads(call);
  params.splits_query_heads = splits_query_heads(call);
  params.heads_of_tile = params.splits_query_heads ? 1 : group;
  params.dq_sum = Shape::DqSum::params(call, units, together);
  params.scheduler = TileScheduler(Shape::DqSum::scheduled_tiles(call), units, together, group);
  return params;
}

}  // namespace cplab::kernels::cuda::hopper
