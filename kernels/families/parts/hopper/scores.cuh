// Scores that are changed before they are exponentiated, in the registers of a warp that has 16 rows of an
// accumulator: less a slope times a distance of positions (alibi), and through a softcap.
//
// The tanh of a softcap has to be right to a few units of the last place, because lse is held to the
// roundings of fp32: tanh.approx (a relative error of 2^-11) is not. Small arguments, which models have, take
// a polynomial on the FMA units, which have time where the MUFU has none. A warp with any other argument
// takes two operations of the MUFU for each.
#pragma once

#include <cstdint>

#include "kernels/families/parts/primitives.cuh"
#include "kernels/tiles/score_params.hpp"

namespace cplab::kernels::cuda::hopper {

// s - slope |distance| of all elements. A lane has two rows; distances of its first column are first[half],
// and grow by `step` from column to column.
template <int n_tiles>
__device__ __forceinline__ void subtract_distances(float (&s)[n_tiles][4], float slope, int step,
                                                   const int (&first)[2]) {
  const float of_column = slope * static_cast<float>(step);
  const float of_row[2] = {slope * static_cast<float>(first[0]), slope * static_cast<float>(first[1])};
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      s[n][e] -= fabsf(fmaf(of_column, static_cast<float>(8 * n + e % 2), of_row[e / 2]));
}

// tanh(inner z) where |z| is at most ScoreParams::limit.
__device__ __forceinline__ float small_tanh(float z, const ScoreParams& by) {
  const float square = z * z;
  float sum = fmaf(by.terms[4], square, by.terms[3]);
  sum = fmaf(sum, square, by.terms[2]);
  sum = fmaf(sum, square, by.terms[1]);
  return z * fmaf(sum, square, by.terms[0]);
}

// tanh(inner z) of all elements; by a whole warp. NaN stays NaN.
template <int n_tiles>
__device__ __forceinline__ void cap_scores(float (&s)[n_tiles][4], const ScoreParams& by) {
  float most[2] = {0, 0};
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) most[e % 2] = fmaxf(most[e % 2], fabsf(s[n][e]));
  if (__any_sync(all_lanes, fmaxf(most[0], most[1]) > by.limit) == 0) {
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] = small_tanh(s[n][e], by);
    return;
  }
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) s[n][e] = 1 - __fdividef(2, 1 + exp2_approx(s[n][e] * by.twice_log2));
}

// What a softcap multiplies dS by: 1 - tanh^2. The tanh comes from P = exp2(x scale_log2 - lse), because
// there are no registers to keep it in. lse: in units of log2, +inf where a query has no gradient. Where P is
// 0 the factor is, too.
__device__ __forceinline__ float cap_slope(float p, float lse, const ScoreParams& by) {
  const float t = fmaxf((log2_approx(p) + lse) * by.inverse_log2, -1.0f);
  return fmaf(-t, t, 1.0f);
}

}  // namespace cplab::kernels::cuda::hopper
