// CUDA C++ as ordinary C++ for the kernels that the emulator runs: qualifiers, built-in variables and types,
// warp functions.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/kernels.hpp"
#include "tests/emulator/machine.hpp"

#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)

using std::max;
using std::min;

struct float2 {
  float x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

struct EmulatedIndex {
  struct Thread {
    operator int() const { return cplab::emulator::machine().thread(); }
  };
  struct Block {
    operator unsigned() const { return cplab::emulator::machine().block(); }
  };
};
struct EmulatedThread {
  EmulatedIndex::Thread x;
};
struct EmulatedBlock {
  EmulatedIndex::Block x;
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
// How many threads the running block has.
inline int emulated_threads = 0;
inline void __syncthreads() {
  cplab::emulator::machine().meet(0, emulated_threads);
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
inline int __shfl_sync(unsigned, int value, int lane) {
  return static_cast<int>(cplab::emulator::machine().exchange(static_cast<std::uint32_t>(value))[lane]);
}
inline float __shfl_sync(unsigned, float value, int lane) {
  const std::uint64_t* const all = cplab::emulator::machine().exchange(std::bit_cast<std::uint32_t>(value));
  return std::bit_cast<float>(static_cast<std::uint32_t>(all[lane]));
}
inline float __shfl_xor_sync(unsigned, float value, int mask) {
  cplab::emulator::Machine& machine = cplab::emulator::machine();
  const std::uint64_t* const all = machine.exchange(std::bit_cast<std::uint32_t>(value));
  return std::bit_cast<float>(static_cast<std::uint32_t>(all[machine.thread() % 32 ^ mask]));
}
