// Element conversions of the CPU tiles; see convert.hpp for the rules.
#include "kernels/cpu/convert.hpp"

#include <cmath>
#include <cstring>
#include <type_traits>

namespace cplab::kernels {
namespace {

// Memory is only ever touched through memcpy: an arena hands the same bytes out under several types, and
// views need not be aligned. Compilers turn a fixed-size memcpy into one move.
template <class Stored>
Stored read_at(const std::byte* from, std::int64_t index) {
  Stored stored;
  std::memcpy(&stored, from + index * static_cast<std::int64_t>(sizeof(Stored)), sizeof(Stored));
  return stored;
}

template <class Stored>
void write_at(std::byte* into, std::int64_t index, Stored stored) {
  std::memcpy(into + index * static_cast<std::int64_t>(sizeof(Stored)), &stored, sizeof(Stored));
}

std::uint16_t bf16_from(float value) {
  return bf16_from_float(value);
}
std::uint16_t bf16_from(double value) {
  return bf16_from_float(float_to_odd(value));
}
std::uint16_t fp16_from(float value) {
  return fp16_from_float(value);
}
std::uint16_t fp16_from(double value) {
  return fp16_from_float(float_to_odd(value));
}

template <class T>
T rounded(T value, DType dtype) {
  switch (dtype) {
    case DType::fp64: return value;
    case DType::fp32: return static_cast<T>(static_cast<float>(value));
    case DType::bf16: return static_cast<T>(float_from_bf16(bf16_from(value)));
    case DType::fp16: return static_cast<T>(float_from_fp16(fp16_from(value)));
  }
  return value;
}

}  // namespace

std::size_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::fp64: return 8;
    case DType::fp32: return 4;
    case DType::bf16:
    case DType::fp16: return 2;
  }
  return 0;
}

float float_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  // Truncate (an infinity becomes the largest finite number, which is odd), then make the last bit say
  // "something was lost". The magnitude is in the low 31 bits, so one less is one ulp towards zero.
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1U);
}

float rounded_to(float value, DType dtype) {
  return rounded(value, dtype);
}
double rounded_to(double value, DType dtype) {
  return rounded(value, dtype);
}

template <class T>
void round_elements(T* values, std::int64_t count, DType dtype) {
  switch (dtype) {
    case DType::fp64: break;
    case DType::fp32:
      if constexpr (std::is_same_v<T, double>) {
        for (std::int64_t x = 0; x < count; ++x) values[x] = rounded(values[x], DType::fp32);
      }
      break;
    case DType::bf16:
      for (std::int64_t x = 0; x < count; ++x) values[x] = rounded(values[x], DType::bf16);
      break;
    case DType::fp16:
      for (std::int64_t x = 0; x < count; ++x) values[x] = rounded(values[x], DType::fp16);
      break;
  }
}

template <class T>
void load_elements(const std::byte* from, DType dtype, std::int64_t count, T* into) {
  switch (dtype) {
    case DType::fp64:
      for (std::int64_t x = 0; x < count; ++x) into[x] = static_cast<T>(read_at<double>(from, x));
      break;
    case DType::fp32:
      for (std::int64_t x = 0; x < count; ++x) into[x] = static_cast<T>(read_at<float>(from, x));
      break;
    case DType::bf16:
      for (std::int64_t x = 0; x < count; ++x)
        into[x] = static_cast<T>(float_from_bf16(read_at<std::uint16_t>(from, x)));
      break;
    case DType::fp16:
      for (std::int64_t x = 0; x < count; ++x)
        into[x] = static_cast<T>(float_from_fp16(read_at<std::uint16_t>(from, x)));
      break;
  }
}

template <class T>
void store_elements(const T* from, std::int64_t count, DType dtype, std::byte* into) {
  switch (dtype) {
    case DType::fp64:
      for (std::int64_t x = 0; x < count; ++x) write_at(into, x, static_cast<double>(from[x]));
      break;
    case DType::fp32:
      for (std::int64_t x = 0; x < count; ++x) write_at(into, x, static_cast<float>(from[x]));
      break;
    case DType::bf16:
      for (std::int64_t x = 0; x < count; ++x) write_at(into, x, bf16_from(from[x]));
      break;
    case DType::fp16:
      for (std::int64_t x = 0; x < count; ++x) write_at(into, x, fp16_from(from[x]));
      break;
  }
}

template void round_elements(float*, std::int64_t, DType);
template void round_elements(double*, std::int64_t, DType);
template void load_elements(const std::byte*, DType, std::int64_t, float*);
template void load_elements(const std::byte*, DType, std::int64_t, double*);
template void store_elements(const float*, std::int64_t, DType, std::byte*);
template void store_elements(const double*, std::int64_t, DType, std::byte*);

double load_element(const void* data, DType dtype, std::int64_t index) {
  const auto* bytes = static_cast<const std::byte*>(data);
  double value = 0;
  load_elements(bytes + index * static_cast<std::int64_t>(bytes_of(dtype)), dtype, 1, &value);
  return value;
}

void store_element(void* data, DType dtype, std::int64_t index, double value) {
  auto* bytes = static_cast<std::byte*>(data);
  store_elements(&value, 1, dtype, bytes + index * static_cast<std::int64_t>(bytes_of(dtype)));
}

}  // namespace cplab::kernels
