// Stored bits and values: every bf16 and fp16 pattern, and narrowing at every boundary between neighbours.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/kernels.hpp"
#include "tests/kernels/tensor.hpp"

namespace cplab::testing {
namespace {

using kernels::load_element;
using kernels::store_element;

struct Format {
  DType dtype;
  int exponent_bits, significand_bits;
};
constexpr Format formats[] = {{DType::bf16, 8, 7}, {DType::fp16, 5, 10}};

// The value of a pattern, from the definition of an IEEE 754 binary interchange format.
double value_of(const Format& format, unsigned pattern) {
  const unsigned significand = pattern & ((1U << format.significand_bits) - 1);
  const unsigned exponent = (pattern >> format.significand_bits) & ((1U << format.exponent_bits) - 1);
  const double sign = (pattern & 0x8000U) != 0 ? -1 : 1;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  if (exponent == (1U << format.exponent_bits) - 1)
    return significand == 0 ? sign * infinity : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(significand, 1 - bias - format.significand_bits);
  return sign * std::ldexp(significand + (1U << format.significand_bits),
                           static_cast<int>(exponent) - bias - format.significand_bits);
}

std::uint16_t stored(DType dtype, double value) {
  std::uint16_t bits = 0x5a5a;
  store_element(&bits, dtype, 0, value);
  return bits;
}

double loaded(DType dtype, unsigned pattern) {
  const auto bits = static_cast<std::uint16_t>(pattern);
  return load_element(&bits, dtype, 0);
}

// The fp32 number through the `copy` tile, which narrows without passing through fp64.
std::uint16_t cast(DType dtype, float value) {
  std::uint16_t bits = 0x5a5a;
  const View from = tiny_view(&value, DType::fp32, 1, 1, 1);
  const View into = tiny_view(&bits, dtype, 1, 1, 1);
  kernels::cpu_tiles().copy(from, into);
  return bits;
}

}  // namespace

TEST_CASE("every 16-bit pattern loads as its value and stores back as itself") {
  for (const Format& format : formats) {
    unsigned wrong_values = 0;
    unsigned wrong_patterns = 0;
    for (unsigned pattern = 0; pattern < 0x10000; ++pattern) {
      const double value = loaded(format.dtype, pattern);
      const double exact = value_of(format, pattern);
      // Bits, so that the zeros are told apart; any NaN is a NaN.
      const bool same = std::bit_cast<std::uint64_t>(value) == std::bit_cast<std::uint64_t>(exact);
      if (!same && !(std::isnan(value) && std::isnan(exact))) ++wrong_values;
      // A signalling NaN becomes quiet, as in every IEEE conversion; sign and payload stay.
      const unsigned quiet = std::isnan(exact) ? 1U << (format.significand_bits - 1) : 0U;
      if (stored(format.dtype, value) != (pattern | quiet)) ++wrong_patterns;
    }
    INFO(name_of(format.dtype));
    CHECK(wrong_values == 0);
    CHECK(wrong_patterns == 0);
  }
}

TEST_CASE("narrowing rounds to nearest even, once, between any two neighbours") {
  for (const Format& format : formats) {
    const unsigned top = ((1U << format.exponent_bits) - 1) << format.significand_bits;  // infinity
    unsigned wrong = 0;
    for (unsigned pattern = 0; pattern < top; ++pattern) {
      const double low = value_of(format, pattern);
      // Above the largest finite number rounding goes on as if the next one were there.
      const double high =
          pattern + 1 == top ? 2 * low - value_of(format, pattern - 1) : value_of(format, pattern + 1);
      const double middle = low + (high - low) / 2;  // exact: 12 significant bits
      const unsigned even = pattern % 2 == 0 ? pattern : pattern + 1;
      for (const unsigned sign : {0U, 0x8000U}) {
        const double s = sign == 0 ? 1 : -1;
        if (stored(format.dtype, s * middle) != (even | sign)) ++wrong;
        // One ulp of fp64 off the middle: rounding to fp32 first would land on the middle again.
        if (stored(format.dtype, s * std::nextafter(middle, 0)) != (pattern | sign)) ++wrong;
        if (stored(format.dtype, s * std::nextafter(middle, infinity)) != ((pattern + 1) | sign)) ++wrong;
        const auto middle_fp32 = static_cast<float>(s * middle);  // exact, also below the normal range
        const auto away = static_cast<float>(s * infinity);
        if (cast(format.dtype, middle_fp32) != (even | sign)) ++wrong;
        if (cast(format.dtype, std::nextafter(middle_fp32, 0.0F)) != (pattern | sign)) ++wrong;
        if (cast(format.dtype, std::nextafter(middle_fp32, away)) != ((pattern + 1) | sign)) ++wrong;
      }
    }
    INFO(name_of(format.dtype));
    CHECK(wrong == 0);
  }
}

TEST_CASE("numbers beyond the range become infinities and zeros of their sign") {
  for (const Format& format : formats) {
    const auto top =
        static_cast<std::uint16_t>(((1U << format.exponent_bits) - 1) << format.significand_bits);
    CHECK(stored(format.dtype, 1e300) == top);
    CHECK(stored(format.dtype, -1e300) == (top | 0x8000));
    CHECK(stored(format.dtype, infinity) == top);
    CHECK(stored(format.dtype, 1e-300) == 0);
    CHECK(stored(format.dtype, -1e-300) == 0x8000);
    CHECK(cast(format.dtype, std::numeric_limits<float>::max()) == top);
    CHECK(cast(format.dtype, std::numeric_limits<float>::denorm_min()) == 0);
  }
}

// Rounding the pattern of a NaN as if it were a number would lose a payload in the low bits (infinity) or
// carry into the sign (zero).
TEST_CASE("any fp32 NaN becomes a NaN of the same sign") {
  for (const std::uint32_t payload : {0x1U, 0x1fffU, 0x8000U, 0x400000U, 0x7fffffU}) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      for (const Format& format : formats) {
        const unsigned pattern = cast(format.dtype, std::bit_cast<float>(sign | 0x7f800000U | payload));
        CHECK(std::isnan(value_of(format, pattern)));
        CHECK((pattern & 0x8000U) == sign >> 16);
      }
    }
  }
}

TEST_CASE("fp32 and fp64 elements are the machine's own") {
  for (const double value : {0.0, -0.0, 1.0 / 3, -2.5e-40, 3e38, 1e300, -infinity, 5e-324}) {
    double as_double = 1;
    store_element(&as_double, DType::fp64, 0, value);
    CHECK(std::bit_cast<std::uint64_t>(as_double) == std::bit_cast<std::uint64_t>(value));
    CHECK(load_element(&as_double, DType::fp64, 0) == value);
    float as_float = 1;
    store_element(&as_float, DType::fp32, 0, value);
    CHECK(std::bit_cast<std::uint32_t>(as_float) == std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    CHECK(load_element(&as_float, DType::fp32, 0) == static_cast<double>(static_cast<float>(value)));
  }
}

TEST_CASE("elements are addressed by index and may lie at any alignment") {
  for (const DType dtype : all_dtypes) {
    std::byte memory[64] = {};
    void* odd = memory + 1;
    for (std::int64_t x = 0; x < 4; ++x) store_element(odd, dtype, x, static_cast<double>(x) + 0.5);
    for (std::int64_t x = 0; x < 4; ++x) CHECK(load_element(odd, dtype, x) == static_cast<double>(x) + 0.5);
    CHECK(memory[0] == std::byte{0});
    CHECK(memory[1 + 4 * kernels::bytes_of(dtype)] == std::byte{0});
  }
}

}  // namespace cplab::testing
