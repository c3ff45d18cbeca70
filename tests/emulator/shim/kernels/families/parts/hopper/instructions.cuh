// The emulator's version of kernels/families/parts/hopper/instructions.cuh.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

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
inline void arrive_and_expect_tx(std::uint32_t barrier, int bytes) {
  emulator::machine().arrive(barrier, 1, bytes);
}
inline void wait(std::uint32_t barrier, int parity) {
  emulator::machine().wait_barrier(barrier, parity);
}
struct BarrierPhase {
  std::uint32_t barrier;
  int parity;
};
inline bool is_over(const BarrierPhase& phase) {
  return emulator::machine().is_over(phase.barrier, phase.parity);
}
inline void wait_for_any(const BarrierPhase& a, const BarrierPhase& b, const BarrierPhase& c) {
  emulator::machine().wait_until("any of three barriers",
                                 [=] { return is_over(a) || is_over(b) || is_over(c); });
}
// After others may have gone on.
inline bool is_over_within(const BarrierPhase& phase, int) {
  int left = 3;
  emulator::machine().wait_until("a barrier, for a while",
                                 [=]() mutable { return is_over(phase) || left-- <= 0; });
  return is_over(phase);
}
inline void named_barrier_sync(int id, int threads) {
  emulator::machine().meet(id, threads);
}
inline void named_barrier_arrive(int id, int threads) {
  emulator::machine().pass(id, threads);
}
inline void fence_view_async_shared() {}

inline int atomic_add_one(std::int32_t* number) {
  return (*number)++;
}
inline void add_one(std::int32_t* number) {
  ++*number;
}
inline void wait_for_count(const std::int32_t* count, int least) {
  emulator::machine().wait_until("a count in memory", [=] { return *count >= least; });
}
inline void poll_for_count(const std::int32_t* count, int least) {
  wait_for_count(count, least);
}
inline bool reached(const std::int32_t* count, int least) {
  return *count >= least;
}
inline float4 load_added(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}
template <class Words>
void store_once(void* to, const Words& words) {
  *static_cast<Words*>(to) = words;
}
inline void fence_device_memory() {}
inline void fence_view_async_global() {}
inline void prefetch_tensor_map(const CUtensorMap&) {}
inline void prefetch_line(const void*) {}

// Visits every element of a tile: its place in memory (null outside the tensor) and in shared memory, laid
// out as the real ones: [column group][row][128 bytes], 128-byte swizzle.
struct TileAt {
  int row, group, head, column;
};
template <class Visit>
void for_each_element(const CUtensorMap& map, const TileAt& at, std::uint32_t tile, Visit visit) {
  const auto [row, group, head, first_column] = at;
  if (map.single_groups ? group != 0 : first_column != 0)
    throw std::runtime_error("a tile begins at a column group or at a column, as its map does");
  const DeviceView& view = map.view;
  const int bytes = static_cast<int>(bytes_of(view.dtype)), in_group = 128 / bytes;
  unsigned char* const shared = emulator::machine().shared();
  for (int column = 0; column < (map.columns != 0 ? map.columns : view.width); ++column)
    for (int r = 0; r < map.rows; ++r) {
      unsigned char* element = nullptr;
      const int place = group * in_group + first_column + column;
      if (row + r >= 0 && row + r < view.rows && place < view.width)
        element = static_cast<unsigned char*>(view.data) +
                  ((row + r) * view.row_stride + head * view.head_stride + place) * bytes;
      const auto byte = static_cast<std::uint32_t>(column / in_group * map.rows * 128 + r * 128 +
                                                   column % in_group * bytes) +
                        tile;
      visit(element, shared + (byte ^ (byte >> 7 & 7) << 4));
    }
}

// Zero outside the tensor.
inline void tma_load(std::uint32_t into, const CUtensorMap& map, int row, int head, std::uint32_t barrier,
                     int group = 0, int column = 0) {
  const std::size_t bytes = bytes_of(map.view.dtype);
  const int columns = map.columns != 0 ? map.columns : map.view.width;
  emulator::machine().copy(barrier, map.rows * columns * static_cast<int>(bytes), [=] {
    for_each_element(
        map, {row, group, head, column}, into, [=](const unsigned char* element, unsigned char* shared) {
          const std::uint32_t zero = 0;
          std::memcpy(shared, element != nullptr ? static_cast<const void*>(element) : &zero, bytes);
        });
  });
}

inline void tma_load_once(std::uint32_t into, const CUtensorMap& map, int row, int head,
                          std::uint32_t barrier, int group = 0, int column = 0) {
  tma_load(into, map, row, head, barrier, group, column);
}

// Four heads of each row, zero outside the tensor.
inline void tma_load_heads(std::uint32_t into, const CUtensorMap& map, int row, int head,
                           std::uint32_t barrier) {
  constexpr int heads = 4;
  const DeviceView& view = map.view;
  if (into % 128 != 0) throw std::runtime_error("TMA writes to multiples of 128 bytes");
  if (reinterpret_cast<std::uintptr_t>(view.data) % 16 != 0 || (view.heads > 1 && view.head_stride != 1) ||
      (view.rows > 1 && view.row_stride % 4 != 0))
    throw std::runtime_error("a view that has no tensor map");
  emulator::machine().copy(barrier, map.rows * heads * 4, [=] {
    auto* tile = reinterpret_cast<float*>(emulator::machine().shared() + into);
    for (int r = row; r < row + map.rows; ++r)
      for (int h = head; h < head + heads; ++h)
        *tile++ = r >= 0 && r < view.rows && h >= 0 && h < view.heads
                      ? static_cast<const float*>(view.data)[r * view.row_stride + h]
                      : 0;
  });
}

// Reads a tile of Elements; what it returns gives write(element in memory, value) those inside the tensor.
template <class Element, class Write>
std::function<void()> read_tile(const CUtensorMap& map, const TileAt& at, std::uint32_t from, Write write) {
  std::vector<std::pair<unsigned char*, Element>> tile;
  for_each_element(map, at, from, [&](unsigned char* element, const unsigned char* shared) {
    if (element == nullptr) return;
    tile.push_back({element, {}});
    std::memcpy(&tile.back().second, shared, sizeof(Element));
  });
  return [tile = std::move(tile), write] {
    for (const auto& [element, value] : tile) write(element, value);
  };
}

inline void tma_store(const CUtensorMap& map, int row, int head, std::uint32_t from, int group = 0,
                      int column = 0) {
  const TileAt at{row, group, head, column};
  const auto write = [](unsigned char* element, const auto& value) {
    std::memcpy(element, &value, sizeof(value));
  };
  emulator::machine().store([=] {
    return bytes_of(map.view.dtype) == 2 ? read_tile<std::uint16_t>(map, at, from, write)
                                         : read_tile<float>(map, at, from, write);
  });
}

inline void tma_store_once(const CUtensorMap& map, int row, int head, std::uint32_t from, int column = 0) {
  tma_store(map, row, head, from, 0, column);
}

inline void tma_reduce_add(const CUtensorMap& map, int row, int group, int head, std::uint32_t from,
                           int column = 0) {
  emulator::machine().store([=] {
    return read_tile<float>(map, {row, group, head, column}, from, [](unsigned char* element, float value) {
      float sum = 0;
      std::memcpy(&sum, element, sizeof(sum));
      sum += value;
      std::memcpy(element, &sum, sizeof(sum));
    });
  });
}

inline void tma_store_wait() {
  emulator::machine().tma_store_wait();
}
inline void tma_store_wait_but_one() {
  emulator::machine().tma_store_wait(1);
}
inline void tma_store_wait_until_written() {
  emulator::machine().tma_store_wait_until_written();
}

// Batches of copies of a thread take place when it waits for them.
using FloatBatches = std::vector<std::vector<std::function<void()>>>;
inline FloatBatches& queued_floats() {
  static std::map<std::pair<const emulator::Machine*, int>, FloatBatches> all;
  return all[{&emulator::machine(), threadIdx.x}];
}

inline void cp_async_float(std::uint32_t into, const float* from, bool inside) {
  auto& batches = queued_floats();
  if (batches.empty()) batches.emplace_back();
  batches.back().push_back([=] {
    const float value = inside ? *from : 0;
    std::memcpy(emulator::machine().shared() + into, &value, sizeof(value));
  });
}
inline void cp_async_commit_group() {
  auto& batches = queued_floats();
  if (batches.empty()) batches.emplace_back();
  batches.emplace_back();
}
template <int pending>
void cp_async_wait_group() {
  auto& batches = queued_floats();  // the last one is not committed
  while (static_cast<int>(batches.size()) - 1 > pending) {
    for (const auto& copy : batches.front()) copy();
    batches.erase(batches.begin());
  }
}

inline void stmatrix(std::uint32_t to, const std::uint32_t (&values)[4]) {
  const std::uint64_t* const addresses = emulator::machine().exchange(to);
  const int lane = threadIdx.x % 32;
  for (int matrix = 0; matrix < 4; ++matrix) {
    const std::uint64_t row = addresses[8 * matrix + lane / 4];
    std::memcpy(emulator::machine().shared() + row + lane % 4 * 4, &values[matrix], 4);
  }
}

inline void ldmatrix_transposed(std::uint32_t (&into)[4], std::uint32_t from) {
  const std::uint64_t* const addresses = emulator::machine().exchange(from);
  const int lane = threadIdx.x % 32;
  for (int matrix = 0; matrix < 4; ++matrix) {
    std::uint16_t pair[2];
    for (int e = 0; e < 2; ++e) {
      const std::uint64_t row = addresses[8 * matrix + lane % 4 * 2 + e];
      std::memcpy(&pair[e], emulator::machine().shared() + row + lane / 4 * 2, 2);
    }
    into[matrix] = pair[0] | std::uint32_t{pair[1]} << 16;
  }
}

inline void red_add_v4(float* to, float x, float y, float z, float w) {
  to[0] += x;
  to[1] += y;
  to[2] += z;
  to[3] += w;
}

template <int registers>
inline void warpgroup_reg_alloc() {}
template <int registers>
inline void warpgroup_reg_dealloc() {}

inline int opaque(int value) {
  return value;
}

inline int warpgroup_index() {
  return threadIdx.x / warpgroup_threads;
}

}  // namespace cplab::kernels::cuda::hopper
