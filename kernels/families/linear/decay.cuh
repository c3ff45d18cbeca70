// What the kernels of linear attention share: powers of a decay, four neighbouring elements at a time, which
// thread block does what. Device code.
#pragma once

#include <cstdint>

#include "kernels/families/parts/element.cuh"
#include "kernels/tiles/linear_params.hpp"

namespace cplab::kernels::cuda {

// exp(-slope n), within a few units in the last place however large the exponent: fp32 gets what its rounding
// of the exponent leaves out as a factor of its own. 0 and finite for any finite slope and n.
template <class T>
__device__ inline T decay(double slope, std::int64_t n);
template <>
__device__ inline float decay<float>(double slope, std::int64_t n) {
  const double exponent = fmin(slope * static_cast<double>(n), 1e4);
  const float high = static_cast<float>(exponent);
  const float power = expf(-high);
  return fmaf(power, -static_cast<float>(exponent - static_cast<double>(high)), power);
}
template <>
__device__ inline double decay<double>(double slope, std::int64_t n) {
  return exp(-fmin(slope * static_cast<double>(n), 1e4));
}

// Thread blocks of a launch count through parts first, then heads, then chunks (of a scan: groups of them).
struct BlockPlace {
  std::int32_t chunk, head, part;
};
__device__ inline BlockPlace block_place(const LinearCut& cut, std::int32_t heads) {
  const auto block = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t part = block % cut.parts;
  const std::int32_t rest = block / cut.parts;
  return {.chunk = rest / heads, .head = rest % heads, .part = part};
}

template <class T>
struct Four {
  T value[4];
};

// Whether four neighbouring elements, the first at a multiple of four columns, may be accessed as one.
__device__ inline bool fours_aligned(const DeviceView& view) {
  const std::uintptr_t size = view.dtype == DType::fp64 ? 8 : view.dtype == DType::fp32 ? 4 : 2;
  const std::uintptr_t bytes = size == 2 ? 8 : 16;
  return reinterpret_cast<std::uintptr_t>(view.data) % bytes == 0 &&
         ((view.row_stride | view.head_stride | view.width) & 3) == 0;
}

// Elements at, at + 1, ...: `count` of them, at least four if aligned; others are 0.
template <class T>
__device__ inline Four<T> load_four(const DeviceView& view, std::int64_t at, std::int32_t count,
                                    bool aligned) {
  Four<T> four = {};
  if (aligned && view.dtype == DType::fp32) {
    const float4 x = *reinterpret_cast<const float4*>(static_cast<const float*>(view.data) + at);
    four = {static_cast<T>(x.x), static_cast<T>(x.y), static_cast<T>(x.z), static_cast<T>(x.w)};
  } else if (aligned && view.dtype == DType::bf16) {
    const uint2 x = *reinterpret_cast<const uint2*>(static_cast<const std::uint16_t*>(view.data) + at);
    four = {static_cast<T>(__uint_as_float(x.x << 16)), static_cast<T>(__uint_as_float(x.x & 0xffff0000U)),
            static_cast<T>(__uint_as_float(x.y << 16)), static_cast<T>(__uint_as_float(x.y & 0xffff0000U))};
  } else if (aligned && view.dtype == DType::fp16) {
    const __half2* x = reinterpret_cast<const __half2*>(static_cast<const __half*>(view.data) + at);
    const float2 low = __half22float2(x[0]);
    const float2 high = __half22float2(x[1]);
    four = {static_cast<T>(low.x), static_cast<T>(low.y), static_cast<T>(high.x), static_cast<T>(high.y)};
  } else {
#pragma unroll
    for (std::int32_t i = 0; i < 4; ++i)
      if (i < count) four.value[i] = load_element_as<T>(view.data, view.dtype, at + i);
  }
  return four;
}

template <class T>
__device__ inline void store_four(const Four<T>& four, const DeviceView& view, std::int64_t at,
                                  std::int32_t count, bool aligned) {
  if (aligned && view.dtype == DType::fp32) {
    *reinterpret_cast<float4*>(static_cast<float*>(view.data) + at) =
        make_float4(static_cast<float>(four.value[0]), static_cast<float>(four.value[1]),
                    static_cast<float>(four.value[2]), static_cast<float>(four.value[3]));
  } else if (aligned && view.dtype == DType::bf16) {
    __nv_bfloat162* x = reinterpret_cast<__nv_bfloat162*>(static_cast<__nv_bfloat16*>(view.data) + at);
    x[0] = __halves2bfloat162(to_bfloat16(four.value[0]), to_bfloat16(four.value[1]));
    x[1] = __halves2bfloat162(to_bfloat16(four.value[2]), to_bfloat16(four.value[3]));
  } else {
#pragma unroll
    for (std::int32_t i = 0; i < 4; ++i)
      if (i < count) store_element_as<T>(four.value[i], view.data, view.dtype, at + i);
  }
}

}  // namespace cplab::kernels::cuda
