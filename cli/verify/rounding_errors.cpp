// Sizes of roundings; see rounding_errors.hpp.
#include "cli/verify/rounding_errors.hpp"

#include <cmath>

namespace cplab {

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::fp64: return 0x1p-53;
    case DType::fp32: return 0x1p-24;
    case DType::bf16: return 0x1p-8;
    case DType::fp16: return 0x1p-11;
  }
  return 0;
}

// fp16: the root mean square of rounding to its subnormals' spacing, 2^-24. bf16 and fp32: exp and products
// underflow below 2^-126 each; room for 2^14 of them. fp64: far below anything that can matter, and its
// square can still be told from 0.
double underflow(DType dtype) {
  switch (dtype) {
    case DType::fp64: return 0x1p-500;
    case DType::fp32:
    case DType::bf16: return 0x1p-112;
    case DType::fp16: return 0x1p-24 / std::sqrt(12.0);
  }
  return 0;
}

double rounding_variance(DType dtype) {
  return square(0.4247 * unit_roundoff(dtype));
}

double result_variance(const Roundings& r, double terms, double value) {
  const double mixed = (terms + square(value)) / 2;
  double roundings = r.casts * square(value);
  if (r.tiles) roundings += r.tile_count > 1 ? mixed : square(value);
  if (r.sliced) roundings += mixed;
  if (r.running > 0) roundings += (r.running + 1) / 2 * mixed;
  return roundings;
}

double single_sum_variance(const Roundings& r, double value) {
  return r.running > 0 ? 2 * r.operations * square(value) : 0;
}

}  // namespace cplab
