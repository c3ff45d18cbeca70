// The forward kernel's parameters, from a call.
#pragma once

#include "kernels/families/fits.hpp"
#include "kernels/families/hopper_forward/shared_storage.cuh"
#include "kernels/families/parts/hopper/tensor_map.cuh"
#include "kernels/tiles/row_space.hpp"

namespace cplab::kernels::cuda::hopper {

// All but how thread blocks take tiles. together: so many heads are taken side by side.
template <int D, int W>
ForwardParams forward_params(const AttendParams& call, int together) {
  using Shape = ForwardShape<D, W>;
  ForwardParams params;
  params.call = call;
  params.q = padded_map(call.q, 64, D);
  params.k = padded_map(call.k, Shape::keys, D);
  params.v = padded_map(call.v, Shape::keys, Shape::value_size);
  params.out_write = out_write(call);
  if (params.out_write != OutWrite::row_by_row) params.out = padded_map(call.out, 64, Shape::value_size);
  params.single_key_groups = has_single_groups(call.q);
  params.single_value_groups = has_single_groups(call.v);
  params.scale_log2 = scale_log2(call.scale);
  params.rescale_threshold_log2 = rescale_threshold_log2(call);
  params.scheduler = TileScheduler(call.work.count, call.q.heads, together, call.q.heads / call.k.heads);
  return params;
}

}  // namespace cplab::kernels::cuda::hopper
