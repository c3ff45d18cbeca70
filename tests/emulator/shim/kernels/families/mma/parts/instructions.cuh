// The emulator's version of kernels/families/mma/parts/instructions.cuh. A copy arrives when its thread waits
// for it or for its group, no earlier.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/families/parts/primitives.cuh"

namespace cplab::kernels::cuda {

struct EmulatedCopy {
  unsigned char* to;
  const void* from;
  int size, bytes;
  int group;
};
inline std::vector<EmulatedCopy> emulated_copies[1024];  // by thread
inline int emulated_groups[1024];                        // committed so far

inline void emulated_copy(std::uint32_t to, const void* from, int size, int bytes) {
  emulated_copies[thread_index()].push_back(
      {emulator::machine().shared() + to, from, size, bytes, emulated_groups[thread_index()]});
}
inline void cp_async_16(std::uint32_t to, const void* from, int bytes) {
  emulated_copy(to, from, 16, bytes);
}
inline void cp_async_4(std::uint32_t to, const void* from, int bytes) {
  emulated_copy(to, from, 4, bytes);
}
inline void cp_async_commit_group() {
  ++emulated_groups[thread_index()];
}
// Those of groups before `end`.
inline void emulated_arrival(int end) {
  std::erase_if(emulated_copies[thread_index()], [&](const EmulatedCopy& copy) {
    if (copy.group >= end) return false;
    std::memset(copy.to, 0, static_cast<std::size_t>(copy.size));
    if (copy.bytes > 0) std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.bytes));
    return true;
  });
}
template <int groups>
void cp_async_wait_group() {
  emulated_arrival(emulated_groups[thread_index()] - groups);
}
inline void cp_async_wait_all() {
  emulated_arrival(emulated_groups[thread_index()]);
}
inline void barrier_sync_block() {
  __syncthreads();
}

// What each lane gives, of all 32.
inline std::array<std::uint64_t, 32> from_all_lanes(std::uint64_t value) {
  std::array<std::uint64_t, 32> all;
  std::copy_n(emulator::machine().exchange(value), 32, all.begin());
  return all;
}

// PTX ISA, "Matrix Fragments for mma.m16n8k16": a holds rows g and g + 8, columns 2 t and one more, then the
// same eight columns on; b holds rows 2 t and one more of column g, then the same eight rows on.
template <class T>
struct Mma {
  static void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    const auto low = from_all_lanes(a[0] | std::uint64_t{a[1]} << 32);
    const auto high = from_all_lanes(a[2] | std::uint64_t{a[3]} << 32);
    const auto b = from_all_lanes(b0 | std::uint64_t{b1} << 32);
    const int lane = thread_index() % 32, g = lane / 4, t = lane % 4;
    const auto element = [](std::uint32_t pair, int which) {
      T value;
      value.bits = static_cast<std::uint16_t>(pair >> (16 * which));
      return emulated_float(value);
    };
    for (int e = 0; e < 4; ++e) {
      const int shift = e / 2 * 32, column = 2 * t + e % 2;
      for (int k = 0; k < 16; ++k) {
        const auto& of_row = k < 8 ? low : high;
        const auto pair =
            static_cast<std::uint32_t>(of_row[static_cast<std::size_t>(4 * g + k % 8 / 2)] >> shift);
        const auto of_b =
            static_cast<std::uint32_t>(b[static_cast<std::size_t>(4 * column + k % 8 / 2)] >> (k / 8 * 32));
        c[e] += element(pair, k % 2) * element(of_b, k % 2);
      }
    }
  }
};

inline void emulated_ldmatrix(std::uint32_t (&into)[4], std::uint32_t from, bool transposed) {
  const auto addresses = from_all_lanes(from);
  const int lane = thread_index() % 32;
  const auto element = [&](int matrix, int row, int column) {
    std::uint16_t bits = 0;
    std::memcpy(
        &bits,
        emulator::machine().shared() + addresses[static_cast<std::size_t>(8 * matrix + row)] + 2 * column, 2);
    return std::uint32_t{bits};
  };
  for (int m = 0; m < 4; ++m) {
    const int at = lane / 4, pair = 2 * (lane % 4);
    into[m] = transposed ? element(m, pair, at) | element(m, pair + 1, at) << 16
                         : element(m, at, pair) | element(m, at, pair + 1) << 16;
  }
}
inline void ldmatrix(std::uint32_t (&into)[4], std::uint32_t from) {
  emulated_ldmatrix(into, from, false);
}
inline void ldmatrix_trans(std::uint32_t (&into)[4], std::uint32_t from) {
  emulated_ldmatrix(into, from, true);
}

}  // namespace cplab::kernels::cuda
