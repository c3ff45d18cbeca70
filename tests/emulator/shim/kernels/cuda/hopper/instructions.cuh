// The emulator's version of kernels/cuda/hopper/instructions.cuh.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstring>

#include "tests/emulator/shim/device.hpp"

namespace cplab::kernels::cuda::hopper {

constexpr int warpgroup_threads = 128;

inline void init_barrier(std::uint32_t barrier, int arrivals) {
  emulator::machine().init_barrier(barrier, arrivals);
}
inline void fence_barrier_init() {}
inline void arrive(std::uint32_t barrier) {
  emulator::machine().arrive(barrier, 1, 0);
}
inline void arrive_expecting(std::uint32_t barrier, int bytes) {
  emulator::machine().arrive(barrier, 1, bytes);
}
inline void wait(std::uint32_t barrier, int parity) {
  emulator::machine().wait_barrier(barrier, parity);
}
inline void sync_threads_of(int id, int threads) {
  emulator::machine().meet(id, threads);
}
inline void fence_shared_writes() {}

inline int add_one(std::int32_t* number) {
  return (*number)++;
}
inline void prefetch_map(const CUtensorMap&) {}
inline void prefetch_line(const void*) {}

// Visits every element of a tile that lies inside the tensor or not: its place in memory (null outside) and
// in shared memory, laid out as the real ones: [column / 64][row][64], 128-byte swizzle.
template <class Visit>
void for_each_element(const CUtensorMap& map, int row, int head, std::uint32_t tile, Visit visit) {
  const DeviceView& view = map.view;
  unsigned char* const shared = emulator::machine().shared();
  for (int column = 0; column < view.width; ++column)
    for (int r = 0; r < map.rows; ++r) {
      std::uint16_t* element = nullptr;
      if (row + r >= 0 && row + r < view.rows)
        element = static_cast<std::uint16_t*>(view.data) + (row + r) * view.row_stride +
                  head * view.head_stride + column;
      const auto byte =
          static_cast<std::uint32_t>(column / 64 * map.rows * 128 + r * 128 + column % 64 * 2) + tile;
      visit(element, shared + (byte ^ (byte >> 7 & 7) << 4));
    }
}

// Zero outside the tensor.
inline void copy_tile(std::uint32_t into, const CUtensorMap& map, int row, int head, std::uint32_t barrier) {
  emulator::machine().copy(barrier, map.rows * map.view.width * 2, [=] {
    for_each_element(map, row, head, into, [](const std::uint16_t* element, unsigned char* shared) {
      const std::uint16_t value = element != nullptr ? *element : std::uint16_t{0};
      std::memcpy(shared, &value, sizeof(value));
    });
  });
}

inline void store_tile(const CUtensorMap& map, int row, int head, std::uint32_t from) {
  emulator::machine().store([=] {
    for_each_element(map, row, head, from, [](std::uint16_t* element, const unsigned char* shared) {
      if (element != nullptr) std::memcpy(element, shared, sizeof(*element));
    });
  });
}
inline void finish_stores() {
  emulator::machine().finish_stores();
}

inline void add_four(float* to, float x, float y, float z, float w) {
  to[0] += x;
  to[1] += y;
  to[2] += z;
  to[3] += w;
}

template <int registers>
inline void take_registers() {}
template <int registers>
inline void give_registers() {}

inline int warpgroup_index() {
  return threadIdx.x / warpgroup_threads;
}

}  // namespace cplab::kernels::cuda::hopper
