// The parameters of the deterministic backward kernel, from a call.
#pragma once

#include "kernels/families/fits.hpp"
#include "kernels/families/hopper_backward_apart/shared_storage.cuh"
#include "kernels/families/parts/hopper/tensor_map.cuh"
#include "kernels/tiles/row_space.hpp"

namespace cplab::kernels::cuda::hopper {

// How many heads of a key head, and of a query head, are taken side by side.
struct HeadsTogether {
  int keys, queries;
};

// All but how thread blocks take tiles.
template <class Shape>
DeterministicParams deterministic_params(const AttendBackwardParams& call, const HeadsTogether& together) {
  constexpr int D = Shape::head_size, E = Shape::value_size;
  DeterministicParams params;
  params.call = call;
  params.scale_log2 = scale_log2(call.scale);
  const auto set_maps = [&](int rows, CUtensorMap& q, CUtensorMap& k, CUtensorMap& v, CUtensorMap& dout) {
    q = padded_map(call.q, rows, D);
    k = padded_map(call.k, rows, D);
    v = padded_map(call.v, rows, E);
    dout = padded_map(call.dout, rows, E);
  };
  set_maps(Shape::row_box_rows, params.q, params.k, params.v, params.dout);
  if (Shape::columns < Shape::row_box_rows)
    set_maps(Shape::columns, params.q_of_block, params.k_of_block, params.v_of_block, params.dout_of_block);
  params.single_key_groups = has_single_groups(call.q);
  params.single_value_groups = has_single_groups(call.v);
  params.single_dq_groups = has_single_groups(call.dq);
  params.single_dk_groups = has_single_groups(call.dk);
  params.single_dv_groups = has_single_groups(call.dv);
  params.loads_lse_delta_by_tma = loads_lse_delta_by_tma(call);
  if (params.loads_lse_delta_by_tma) {
    params.lse = heads_map(call.lse, Shape::columns);
    params.delta = heads_map(call.delta, Shape::columns);
  }
  params.stores_dq_tiles = stores_dq_tiles(call) && (D == 128 || call.dq.dtype == call.q.dtype);
  if (params.stores_dq_tiles)
    params.dq = call.dq.dtype == DType::fp32 ? accumulator_map(call.dq, 16) : padded_map(call.dq, 16, D);
  params.stores_dkv_tiles = stores_dkv_tiles(call);
  if (params.stores_dkv_tiles) {
    params.dk = padded_map(call.dk, 16, D);
    params.dv = padded_map(call.dv, 16, E);
  }
  const int group = call.q.heads / call.k.heads;
  params.k_scheduler = TileScheduler(call.by_k.count, call.k.heads, together.keys, group);
  params.q_scheduler = TileScheduler(call.by_q.count, call.q.heads, together.queries, group);
  params.key_tiles = (Shape::splits_dkv ? 2 : 1) * params.k_scheduler.tiles;
  return params;
}

}  // namespace cplab::kernels::cuda::hopper
