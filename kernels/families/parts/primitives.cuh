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

// -inf of 0 and of what is smaller than a normal number.
__device__ __forceinline__ float log2_approx(float x) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// Unlike fmaxf, NaN if one of them is.
__device__ __forceinline__ float max_or_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

// Raises a number in device memory that is not NaN to `value`, which is not NaN. As integers, numbers without
// a sign bit are ordered as they are, those with one the other way round: the sign of `value` decides, for it
// says which of the two orders is right whatever is there.
__device__ __forceinline__ void atomic_max(float* number, float value) {
  const int bits = __float_as_int(value);
  if (bits >= 0)
    atomicMax(reinterpret_cast<int*>(number), bits);
  else
    atomicMin(reinterpret_cast<unsigned*>(number), static_cast<unsigned>(bits));
}
__device__ __forceinline__ void atomic_max(double* number, double value) {
  const long long bits = __double_as_longlong(value);
  if (bits >= 0)
    atomicMax(reinterpret_cast<long long*>(number), bits);
  else
    atomicMin(reinterpret_cast<unsigned long long*>(number), static_cast<unsigned long long>(bits));
}

// threadIdx.x, read from its special register at every call instead of held in a register around a loop.
__device__ __forceinline__ int thread_index() {
  int index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  __builtin_assume(index >= 0 && index < 1024);  // divisions become shifts
  return index;
}

// For kernels launched by launch_dependent (launch.cuh): returns when what came before on the stream is done
// and its writes are visible (CUTLASS: the function of this name).
__device__ __forceinline__ void wait_on_dependent_grids() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The kernel after this one on the stream, launched in that way, may begin when every thread block of this
// one has called this or ended. A kernel that fills the device calls it when it has no more work to give out:
// thread blocks of the next one that only wait would take multiprocessors that others could use.
__device__ __forceinline__ void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// --- the two 16-bit element types ----------------------------------------------------------------------

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
