// What the linear attention kernels for Hopper share: chunks as device code reads them, the order in which
// thread blocks take them, and decay factors.
#pragma once

#include <cstdint>

#include "kernels/families/parts/hopper/instructions.cuh"
#include "kernels/families/parts/hopper/tile_scheduler.cuh"
#include "kernels/families/parts/primitives.cuh"
#include "kernels/tiles/linear_params.hpp"

namespace cplab::kernels::cuda::hopper {

enum class Direction { forward, reverse };

// A chunk as a walk in one direction sees it: the edge where it begins, if something passes there, and the
// tokens between.
struct WalkChunk {
  std::int32_t row, count;
  std::int32_t state, edge;  // -1: none
  float exponent;
};

// Every (chunk, head) is an item; thread block b takes items b, b + blocks, ... The heads of a chunk are
// neighbours, because their rows are neighbours in memory.
struct WalkItems {
  const DeviceChunk* chunks = nullptr;
  const double* slopes = nullptr;
  int count = 0;  // chunks times heads
  int blocks = 0;
  FastDivmod heads;
};

struct WalkItem {
  WalkChunk chunk;
  int head;
  float rate;  // log2 of the head's decay factor, <= 0
};

template <Direction direction>
__device__ __forceinline__ WalkItem item_of(const WalkItems& items, int number) {
  const int index = items.heads.quotient(number);
  const int head = items.heads.remainder(number, index);
  const DeviceChunk& chunk = items.chunks[index];
  constexpr bool forward = direction == Direction::forward;
  return {.chunk = {.row = chunk.row,
                    .count = chunk.count,
                    .state = chunk.state,
                    .edge = forward ? chunk.left : chunk.right,
                    .exponent = static_cast<float>(forward ? chunk.left_exponent : chunk.right_exponent)},
          .head = head,
          .rate = static_cast<float>(-items.slopes[head] * 1.44269504088896340736)};
}

// A walk goes over a chunk in tiles of 64 rows that begin at the chunk's first row; the last may be short.
constexpr int walk_rows = 64;

// The number of the first row of the index-th tile on the way, counted from the chunk's first row.
template <Direction direction>
__device__ __forceinline__ int tile_begin(int index, int tiles) {
  return walk_rows * (direction == Direction::forward ? index : tiles - 1 - index);
}
__device__ __forceinline__ int tiles_of(const WalkChunk& chunk) {
  return (chunk.count + walk_rows - 1) / walk_rows;
}

// lambda^n for n >= 0.
__device__ __forceinline__ float decay(float rate, int n) {
  return exp2_approx(rate * static_cast<float>(n));
}

}  // namespace cplab::kernels::cuda::hopper
