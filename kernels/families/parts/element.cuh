// Elements in device memory whose dtype is known at run time only: loads widen exactly to T (float, or double
// where any operand is fp64), stores round once, to nearest even. Device code.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda {

__device__ inline __half to_half(float value) {
  return __float2half_rn(value);
}
__device__ inline __half to_half(double value) {
  return __double2half(value);
}
__device__ inline __nv_bfloat16 to_bfloat16(float value) {
  return __float2bfloat16_rn(value);
}
__device__ inline __nv_bfloat16 to_bfloat16(double value) {
  return __double2bfloat16(value);
}

// The element at `index` elements behind `data`.
template <class T>
__device__ inline T load_element_as(const void* data, DType dtype, std::int64_t index) {
  switch (dtype) {
    case DType::fp64: return static_cast<T>(static_cast<const double*>(data)[index]);
    case DType::fp32: return static_cast<T>(static_cast<const float*>(data)[index]);
    case DType::bf16: return static_cast<T>(__bfloat162float(static_cast<const __nv_bfloat16*>(data)[index]));
    case DType::fp16: return static_cast<T>(__half2float(static_cast<const __half*>(data)[index]));
  }
  return T(0);
}

template <class T>
__device__ inline void store_element_as(T value, void* data, DType dtype, std::int64_t index) {
  switch (dtype) {
    case DType::fp64: static_cast<double*>(data)[index] = static_cast<double>(value); break;
    case DType::fp32: static_cast<float*>(data)[index] = static_cast<float>(value); break;
    case DType::bf16: static_cast<__nv_bfloat16*>(data)[index] = to_bfloat16(value); break;
    case DType::fp16: static_cast<__half*>(data)[index] = to_half(value); break;
  }
}

// `value` as the nearest number of `dtype`.
template <class T>
__device__ inline T rounded_as(T value, DType dtype) {
  switch (dtype) {
    case DType::fp64: return value;
    case DType::fp32: return static_cast<T>(static_cast<float>(value));
    case DType::bf16: return static_cast<T>(__bfloat162float(to_bfloat16(value)));
    case DType::fp16: return static_cast<T>(__half2float(to_half(value)));
  }
  return value;
}

// Where row `row` of head `head` begins, in elements behind view.data.
__device__ inline std::int64_t row_offset(const DeviceView& view, std::int32_t row, std::int32_t head) {
  const std::int64_t physical = view.map != nullptr ? view.map[row] : row;
  return physical * view.row_stride + head * view.head_stride;
}

template <class T>
__device__ inline T load_first(const DeviceView& view, std::int32_t row, std::int32_t head) {
  return load_element_as<T>(view.data, view.dtype, row_offset(view, row, head));
}

// A product that the compiler must not fuse with a later addition: exp(scale s - maximum) has to be exactly 1
// at the maximum.
__device__ inline float product(float a, float b) {
  return __fmul_rn(a, b);
}
__device__ inline double product(double a, double b) {
  return __dmul_rn(a, b);
}

template <class T>
__device__ inline T minus_infinity() {
  return -static_cast<T>(__int_as_float(0x7f800000));
}

// log(exp(a) + exp(b)), neither of them -inf; a NaN on either side comes out as NaN.
template <class T>
__device__ inline T merged_lse(T a, T b) {
  const T high = a < b ? b : a;
  const T low = a < b ? a : b;
  return high + log1p(exp(low - high));
}

}  // namespace cplab::kernels::cuda
