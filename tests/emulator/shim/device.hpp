// CUDA C++ as ordinary C++ for the kernels that the emulator runs: qualifiers, built-in variables and types,
// warp functions.
#pragma once

#include <math.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/kernels.hpp"
#include "tests/emulator/machine.hpp"

#define __device__
#define __host__
#define __global__
#ifdef CPLAB_EMULATED_STATIC_SHARED  // no kernel of the file has dynamic shared memory
#define __shared__ static
#else
#define __shared__
#endif
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)

using std::max;
using std::min;

struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

// Of the grid: blocks are numbered along x, then y, then z. Kernels with a grid of one axis need not say.
inline unsigned emulated_grid_x = ~0U, emulated_grid_y = 1;

struct EmulatedIndex {
  struct Thread {
    operator int() const { return cplab::emulator::machine().thread(); }
  };
  struct Block {
    operator unsigned() const { return cplab::emulator::machine().block() % emulated_grid_x; }
  };
  struct BlockY {
    operator unsigned() const {
      return cplab::emulator::machine().block() / emulated_grid_x % emulated_grid_y;
    }
  };
  struct BlockZ {
    operator unsigned() const {
      return cplab::emulator::machine().block() / emulated_grid_x / emulated_grid_y;
    }
  };
};
struct EmulatedThread {
  EmulatedIndex::Thread x;
};
struct EmulatedBlock {
  EmulatedIndex::Block x;
  EmulatedIndex::BlockY y;
  EmulatedIndex::BlockZ z;
};
inline constexpr EmulatedThread threadIdx;
inline constexpr EmulatedBlock blockIdx;

inline float __int_as_float(int bits) {
  return std::bit_cast<float>(bits);
}
inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
inline int __ffs(int bits) {
  return std::countr_zero(static_cast<unsigned>(bits)) + 1;  // bits is not 0
}
inline unsigned atomicOr(unsigned* number, unsigned bits) {  // threads take turns only where they wait
  const unsigned before = *number;
  *number |= bits;
  return before;
}
template <class T>
T atomicAdd(T* number, T more) {
  const T before = *number;
  *number += more;
  return before;
}
inline int __popc(unsigned bits) {
  return std::popcount(bits);
}
inline long long __double_as_longlong(double x) {
  return std::bit_cast<long long>(x);
}
// How many threads the running block has.
inline int emulated_threads = 0;
inline void __syncthreads() {
  cplab::emulator::machine().meet(0, emulated_threads);
}
inline int __syncthreads_or(int predicate) {
  static bool any = false;
  any = any || predicate != 0;
  __syncthreads();
  const bool result = any;
  __syncthreads();
  any = false;
  __syncthreads();
  return result;
}
inline void __syncwarp() {
  (void)cplab::emulator::machine().exchange(0);
}
inline int __all_sync(unsigned, int predicate) {
  const std::uint64_t* const all = cplab::emulator::machine().exchange(predicate != 0);
  return std::all_of(all, all + 32, [](std::uint64_t each) { return each != 0; });
}
inline int __any_sync(unsigned, int predicate) {
  const std::uint64_t* const all = cplab::emulator::machine().exchange(predicate != 0);
  return std::any_of(all, all + 32, [](std::uint64_t each) { return each != 0; });
}
inline unsigned __ballot_sync(unsigned, int predicate) {
  const std::uint64_t* const all = cplab::emulator::machine().exchange(predicate != 0);
  unsigned bits = 0;
  for (int lane = 0; lane < 32; ++lane) bits |= static_cast<unsigned>(all[lane]) << lane;
  return bits;
}
template <class T>
T emulated_shuffle(T value, int lane) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  bits = cplab::emulator::machine().exchange(bits)[lane];
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return emulated_shuffle(value, lane);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return emulated_shuffle(value, cplab::emulator::machine().thread() % 32 ^ mask);
}
