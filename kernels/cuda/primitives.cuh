// The smallest pieces of the attention kernels that are instructions rather than C++: registers,
// one-instruction arithmetic, 16-bit pairs. tests/emulator has its own version of this file.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/kernels.hpp"

namespace cplab::kernels::cuda {

constexpr float log2_e = 1.44269504088896340736f;
constexpr float ln_2 = 0.69314718055994530942f;
constexpr unsigned all_lanes = 0xffffffffu;

__device__ __forceinline__ float infinity() {
  return __int_as_float(0x7f800000);
}

__device__ __forceinline__ float exp2_approx(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// fmaxf would give the other one for a NaN.
__device__ __forceinline__ float max_or_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

// Read anew at every call: a special register instead of one that is held around a loop.
__device__ __forceinline__ int thread_index() {
  int index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  __builtin_assume(index >= 0 && index < 1024);  // divisions become shifts
  return index;
}

// A kernel that was launched early (launch.cuh) goes on when what came before on its stream is done and its
// writes are visible.
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// --- the two element types -----------------------------------------------------------------------------

template <class T>
struct Element;

template <>
struct Element<__nv_bfloat16> {
  static constexpr DType dtype = DType::bf16;

  // x in the lower half, both rounded to nearest even.
  static __device__ __forceinline__ std::uint32_t pack(float x, float y) {
    std::uint32_t result;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(y), "f"(x));
    return result;
  }
};

template <>
struct Element<__half> {
  static constexpr DType dtype = DType::fp16;

  static __device__ __forceinline__ std::uint32_t pack(float x, float y) {
    std::uint32_t result;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(y), "f"(x));
    return result;
  }
};

}  // namespace cplab::kernels::cuda
