// Stands in for CUDA's header: fp16 as far as the attention kernels use it.
#pragma once

#include "tests/emulator/shim/device.hpp"

struct __half {
  std::uint16_t bits;
};
struct __half2 {
  __half x, y;
};
// In conversions.cpp: inlined, GCC 12 sees bounds of arrays exceeded in the kernels that are not.
__half emulated_half(float x);
float emulated_float(__half x);
inline float2 __half22float2(__half2 x) {
  return {emulated_float(x.x), emulated_float(x.y)};
}
inline __half2 __floats2half2_rn(float x, float y) {
  return {emulated_half(x), emulated_half(y)};
}
inline float __half2float(__half x) {
  return emulated_float(x);
}
inline __half __float2half_rn(float x) {
  return emulated_half(x);
}
inline __half __double2half(double x) {
  __half result;
  cplab::kernels::store_element(&result, cplab::kernels::DType::fp16, 0, x);
  return result;
}
