// Stands in for CUDA's header: bf16 as far as the attention kernels use it.
#pragma once

#include "tests/emulator/shim/device.hpp"

struct __nv_bfloat16 {
  std::uint16_t bits;
};
struct __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
// In conversions.cpp: inlined, GCC 12 sees bounds of arrays exceeded in the kernels that are not.
__nv_bfloat16 emulated_bfloat16(float x);
float emulated_float(__nv_bfloat16 x);
inline float2 __bfloat1622float2(__nv_bfloat162 x) {
  return {emulated_float(x.x), emulated_float(x.y)};
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {emulated_bfloat16(x), emulated_bfloat16(y)};
}
inline float __bfloat162float(__nv_bfloat16 x) {
  return emulated_float(x);
}
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  return emulated_bfloat16(x);
}
inline __nv_bfloat16 __double2bfloat16(double x) {
  __nv_bfloat16 result;
  cplab::kernels::store_element(&result, cplab::kernels::DType::bf16, 0, x);
  return result;
}
