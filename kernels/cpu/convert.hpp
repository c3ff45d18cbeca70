// Conversions between the stored bits of bf16 and fp16 and the floating types of the CPU tiles, and the
// same for runs of elements in memory. Widening is exact; narrowing rounds to nearest even, once, keeps
// subnormals and infinities, and turns a NaN into a quiet NaN with the sign and top payload bits kept.
// The formats are IEEE 754 binary16 (fp16) and the upper half of binary32 (bf16).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/kernels.hpp"

namespace cplab::kernels {

inline float float_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline std::uint16_t bf16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  // Adding just under half an ulp, plus one where the kept part is odd, carries exactly when nearest even
  // rounds up; a carry out of the significand runs into the exponent and, at the top, gives infinity.
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quieted = (bits >> 16) | 0x40U;
  return static_cast<std::uint16_t>(nan ? quieted : rounded);
}

inline float float_from_fp16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t magnitude = bits & 0x7fffU;
  // Moved to the place of a float's fields the number reads 2^112 too small (bias 127 against 15), also
  // when it is subnormal, so one exact product is right for both.
  const auto finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112F);
  const std::uint32_t special = 0x7f800000U | (magnitude << 13);
  return std::bit_cast<float>(sign | (magnitude >= 0x7c00U ? special : finite));
}

inline std::uint16_t fp16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t result = 0;
  if (magnitude > 0x7f800000U) {  // NaN
    result = 0x7e00U | ((magnitude >> 13) & 0x3ffU);
  } else if (magnitude >= 0x47800000U) {  // 2^16; what rounds up to it carries into this pattern below
    result = 0x7c00U;
  } else if (magnitude < 0x38800000U) {  // below 2^-14: subnormal
    // The ulp of 0.5f is 2^-24, that of a subnormal fp16: the addition rounds to it, to nearest even.
    result = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
  } else {
    result = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - 0x38000000U) >> 13;
  }
  return static_cast<std::uint16_t>(sign | result);
}

// fp64 to fp32 with round-to-odd, so that a further rounding to 22 or fewer bits equals one rounding of
// `value` itself (Boldo and Melquiond 2008); plain nearest would round twice.
float float_to_odd(double value);

// `value` as the nearest number of `dtype`.
float rounded_to(float value, DType dtype);
double rounded_to(double value, DType dtype);

// In place over `count` numbers; nothing happens where `dtype` is no narrower than T.
template <class T>
void round_elements(T* values, std::int64_t count, DType dtype);

// `count` contiguous elements of `dtype`, at any alignment, to or from contiguous T (float or double).
template <class T>
void load_elements(const std::byte* from, DType dtype, std::int64_t count, T* into);
template <class T>
void store_elements(const T* from, std::int64_t count, DType dtype, std::byte* into);

}  // namespace cplab::kernels
