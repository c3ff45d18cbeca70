// What the linear attention kernels for Hopper share: chunks as device code reads them, the order in which
// thread blocks take them, and decay factors.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/parts/instructions.cuh"
#include "kernels/cuda/hopper/parts/tile_scheduler.cuh"
#include "kernels/cuda/parts/primitives.cuh"
#include "kernels/work/params.hpp"

namespace cplab::kernels::cuda::hopper {

// A Chunk as a walk in one direction reads it: `edge` and `exponent` are those of the edge it begins at.
struct WalkChunk {
  std::int32_t row, count;
  std::int32_t state;  // -1: none
  std::int32_t edge;   // -1: none
  float exponent;      // tokens between that edge and the chunk
};

// Every (chunk, head) is an item; thread block b takes items b, b + blocks, ... The heads of a chunk are
// neighbours, because their rows are neighbours in memory.
struct WalkItems {
  const WalkChunk* chunks = nullptr;
  const float* rates = nullptr;  // by head: log2 of the decay factor, <= 0
  int count = 0;                 // chunks times heads
  int blocks = 0;
  FastDivmod heads;
};

struct WalkItem {
  WalkChunk chunk;
  int head;
};

__device__ __forceinline__ WalkItem item_of(const WalkItems& items, int number) {
  const int chunk = items.heads.quotient(number);
  return {items.chunks[chunk], items.heads.remainder(number, chunk)};
}

// A walk goes over a chunk in tiles of 64 rows that begin at the chunk's first row; the last may be short.
constexpr int walk_rows = 64;

enum class Direction { forward, reverse };

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
