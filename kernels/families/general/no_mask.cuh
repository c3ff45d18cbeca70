// What softmax attention does to a pair beside scaling its score: nothing. Also says what the general kernels
// ask of a Mask; the other one is HeadMask of masked/general_pairs.cuh.
#pragma once

#include <cstdint>

#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda {

// Of one query head, with sums in T.
template <class T>
struct NoMask {
  using Value = T;
  using Params = AttendParams;  // of the forward
  using BackwardParams = AttendBackwardParams;
  // Whether logit() does anything. Where it does not, the forward scales scores as it uses them, and
  // max_logit may be asked for.
  static constexpr bool changes_scores = false;
  static constexpr int dq_blocks = 0;  // thread blocks of dq on a multiprocessor at least; 0: as it comes

  // The parameters of attention among those of the kernel.
  static __host__ __device__ const AttendParams& call(const AttendParams& params) { return params; }
  static __host__ __device__ const AttendBackwardParams& call(const AttendBackwardParams& params) {
    return params;
  }

  template <class AnyParams>
  __device__ NoMask(const AnyParams& /*params*/, std::int32_t /*head*/) {}

  // Whether a pair may be kept of the keys [begin, end) and the tile of queries whose first is `query`; of
  // the queries [begin, end) and the tile of keys whose first is `key`. The same on all threads.
  __device__ bool may_keep_keys(std::int32_t /*query*/, std::int32_t /*begin*/, std::int32_t /*end*/) const {
    return true;
  }
  __device__ bool may_keep_queries(std::int32_t /*key*/, std::int32_t /*begin*/, std::int32_t /*end*/) const {
    return true;
  }
  __device__ bool keeps(std::int32_t /*query*/, std::int32_t /*key*/) const { return true; }
  // From z = scale q.k to x, of which the softmax is taken; `slope` becomes dx/dz.
  __device__ T logit(T score, std::int32_t /*query*/, std::int32_t /*key*/, T& slope) const {
    slope = T(1);
    return score;
  }
};

}  // namespace cplab::kernels::cuda
