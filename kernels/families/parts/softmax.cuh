// The state of the online softmax, for all attention kernels on tensor cores.
#pragma once

#include "kernels/families/parts/primitives.cuh"
#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda {

// Row maximum (of unscaled scores) and row sum of rows g and g + 8 of a 16-row accumulator, as one lane holds
// them; the sum is over the lane's own columns. The mma kernels keep it in shared memory, because registers
// are short.
struct __align__(16) SoftmaxState {
  float maximum[2];
  float sum[2];
};

// A maximum in units of log2; 0 while no key was seen: then every P is exp2(-inf) = 0.
__device__ __forceinline__ float scaled_maximum(float maximum, float scale_log2) {
  return maximum == -infinity() ? 0 : maximum * scale_log2;
}

// What a row is finished with, whose sum is of exp2(score - shift) and above 0, or NaN: 1 / sum, and lse;
// with the head's sink in it, where there is one. Then the larger of sink and shift is what is subtracted, as
// if the sink were one more score.
struct FinishedSum {
  float factor, lse;
};
__device__ __forceinline__ FinishedSum finish_sum(const AttendParams& call, int head, float sum,
                                                  float shift) {
  if (call.sink != nullptr) {
    const float sink = static_cast<const float*>(call.sink)[head * call.sink_stride];
    const float above = fmaf(sink, log2_e, -shift);
    if (above > 0) {
      const float rescale = exp2f(-above);
      sum = fmaf(sum, rescale, 1);
      return {__fdividef(rescale, sum), sink + logf(sum)};
    }
    sum += exp2f(above);
  }
  return {__fdividef(1, sum), fmaf(shift, ln_2, logf(sum))};
}

// The same of a row that sees no key: its sink is all there is. Nobody asks for it where results are merged.
__device__ __forceinline__ FinishedSum sum_without_keys(const AttendParams& call, int head) {
  if (call.sink == nullptr) return {0, -infinity()};
  return {0, static_cast<const float*>(call.sink)[head * call.sink_stride]};
}

// Of two lse above -inf, or NaN: max + log1p(exp(min - max)).
__device__ __forceinline__ float merged_lse(float a, float b) {
  const float high = a < b ? b : a;
  const float low = a < b ? a : b;
  return high + log1pf(expf(low - high));
}

}  // namespace cplab::kernels::cuda
