// Conversions of the shims for CUDA's 16-bit types.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cpu/convert.hpp"

using namespace cplab::kernels;

__nv_bfloat16 emulated_bfloat16(float x) {
  return {bf16_from_float(x)};
}
float emulated_float(__nv_bfloat16 x) {
  return float_from_bf16(x.bits);
}
__half emulated_half(float x) {
  return {fp16_from_float(x)};
}
float emulated_float(__half x) {
  return float_from_fp16(x.bits);
}
