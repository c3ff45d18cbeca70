// 2^x on the FMA units instead of the MUFU, which does 16 a cycle and multiprocessor where those do 128: to
// compute some of a softmax's exponentials so takes load off the MUFU (FlashAttention 4 does it). The method
// is Cody and Waite's, "Software Manual for the Elementary Functions", 1980: 2^x = 2^n p(x - n), n the
// nearest integer.
#pragma once

#include <cstdint>

#include "kernels/families/parts/primitives.cuh"

namespace cplab::kernels::cuda {

// Relative error 3e-6, exact at integers; x from -inf to 126, below -126.5 it is 0; NaN stays NaN. Degree 4:
// 3 (1.1e-4) would do for weights that are rounded to 16 bits, but not for the lse of their sum.
__device__ __forceinline__ float exp2_polynomial(float x) {
  x = max_or_nan(x, -127);
  // Adding 1.5 * 2^23 rounds to an integer, which is then the lowest bits; 127 more make it an exponent.
  constexpr float rounder = 12582912.0f + 127;
  const float rounded = x + rounder;
  const float f = x - (rounded - rounder);
  // The least relative error over -1/2 .. 1/2 of those that are 1 at 0.
  float p = fmaf(0.0095828699f, f, 0.055906468f);
  p = fmaf(p, f, 0.24024099f);
  p = fmaf(p, f, 0.69312418f);
  p = fmaf(p, f, 1.0f);
  // A multiplication, because adding to the exponent bits would turn a NaN into a number.
  return p * __uint_as_float(__float_as_uint(rounded) << 23);
}

}  // namespace cplab::kernels::cuda
