// The emulator's version of kernels/families/parts/primitives.cuh.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/emulator/shim/device.hpp"

namespace cplab::kernels::cuda {

constexpr float log2_e = 1.44269504088896340736f;
constexpr float ln_2 = 0.69314718055994530942f;
constexpr unsigned all_lanes = 0xffffffffu;

inline float infinity() {
  return __int_as_float(0x7f800000);
}

inline float exp2_approx(float x) {
  return std::exp2(x);
}

inline float log2_approx(float x) {
  return std::log2(x);
}

inline float max_or_nan(float a, float b) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<float>::quiet_NaN() : std::max(a, b);
}

inline void atomic_max(float* number, float value) {  // threads take turns only where they wait
  if (value > *number) *number = value;
}

inline int thread_index() {
  return threadIdx.x;
}

inline void wait_on_dependent_grids() {}
inline void launch_dependents() {}

inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(static_cast<const unsigned char*>(pointer) -
                                    emulator::machine().shared());
}

template <class T>
struct Element;

template <>
struct Element<__nv_bfloat16> {
  static constexpr DType dtype = DType::bf16;

  static std::uint32_t pack(float x, float y) {
    return emulated_bfloat16(x).bits | std::uint32_t{emulated_bfloat16(y).bits} << 16;
  }
};

template <>
struct Element<__half> {
  static constexpr DType dtype = DType::fp16;

  static std::uint32_t pack(float x, float y) {
    return emulated_half(x).bits | std::uint32_t{emulated_half(y).bits} << 16;
  }
};

}  // namespace cplab::kernels::cuda
