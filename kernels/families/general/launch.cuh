// How the general kernels of a Mask are launched (no_mask.cuh says what that is).
#pragma once

#include <cstdint>

#include "kernels/families/general/backward.cuh"
#include "kernels/families/general/forward.cuh"

namespace cplab::kernels::cuda {

inline dim3 general_grid(std::int32_t tiles, std::int32_t heads, std::int32_t passes = 1) {
  return {static_cast<unsigned>(tiles), static_cast<unsigned>(heads), static_cast<unsigned>(passes)};
}

template <class Mask>
void launch_general(const typename Mask::Params& params, CUstream_st* stream) {
  const AttendParams& call = Mask::call(params);
  if (call.work.count == 0 || call.q.heads == 0) return;
  attend_general<Mask><<<general_grid(call.work.count, call.q.heads), general_threads, 0, stream>>>(params);
}

// There is at least one tile of keys and one key head.
template <class Mask>
void launch_general_dkv(const typename Mask::BackwardParams& params, CUstream_st* stream) {
  const AttendBackwardParams& call = Mask::call(params);
  using Shape = GeneralShape<typename Mask::Value>;
  const std::int32_t dk_passes = Shape::passes(call.q.width);
  const std::int32_t dv_passes = Shape::passes(call.v.width);
  attend_backward_general_dkv<Mask>
      <<<general_grid(call.by_k.count, call.k.heads, dk_passes + dv_passes), general_threads, 0, stream>>>(
          params, dk_passes);
}

// There is at least one tile of queries and one query head.
template <class Mask>
void launch_general_dq(const typename Mask::BackwardParams& params, CUstream_st* stream) {
  const AttendBackwardParams& call = Mask::call(params);
  const std::int32_t passes = GeneralShape<typename Mask::Value>::passes(call.q.width);
  attend_backward_general_dq<Mask>
      <<<general_grid(call.by_q.count, call.q.heads, passes), general_threads, 0, stream>>>(params);
}

}  // namespace cplab::kernels::cuda
