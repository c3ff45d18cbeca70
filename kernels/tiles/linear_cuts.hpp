// How the kernels of linear attention are cut: chunks as kernels read them, parts, shared memory.
// Plain host code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/linear.hpp"
#include "kernels/tiles/linear_params.hpp"

namespace cplab::kernels::cuda {

// Tokens that the general kernels take at a time.
constexpr std::int32_t linear_tokens = 64;
// Their threads, and rows and columns of a tile in registers: 16 elements a thread.
constexpr std::int32_t linear_threads = 256;

// How many of the columns that a product sums over are in shared memory at a time.
constexpr std::int32_t linear_depth(bool fp64) {
  return fp64 ? 16 : 32;
}
// Rows of so many elements begin so far apart in shared memory: reads of four neighbours are aligned, and
// rows do not all begin in one bank.
constexpr std::int32_t padded(std::int32_t elements) {
  return elements + 4;
}
constexpr std::int32_t linear_pitch = padded(linear_tokens);

// Elements of shared memory of the kernel that walks over a chunk (linear/walk.cuh), in this order.
struct WalkElements {
  std::int64_t products;  // a slab of either operand of the scores, later the scores
  std::int64_t values;    // rows that the scores multiply
  std::int64_t staged;    // a slab of the state, rounded
  std::int64_t powers;    // lambda^0 ... lambda^64
  std::int64_t state;     // all rows of the state
  constexpr std::int64_t total() const { return products + values + staged + powers + state; }
};
constexpr WalkElements walk_elements(bool fp64, std::int32_t columns, std::int32_t state_rows) {
  const std::int32_t depth = linear_depth(fp64);
  return {.products = linear_pitch * std::int64_t{2 * depth > linear_tokens ? 2 * depth : linear_tokens},
          .values = std::int64_t{linear_tokens} * columns,
          .staged = std::int64_t{depth} * padded(columns),
          .powers = linear_pitch,
          .state = std::int64_t{(state_rows + depth - 1) / depth * depth} * padded(columns)};
}
// What every GPU from SM 8.0 on gives one thread block.
constexpr std::int64_t linear_shared_limit = 101376;

// Bytes of shared memory of the kernels on tensor cores (linear/walk_mma.cuh), whose states have up to
// `depth` rows.
constexpr std::int64_t mma_walk_bytes(std::int64_t depth, std::int64_t columns) {
  const std::int64_t tokens = linear_tokens;
  const std::int64_t elements =
      2 * tokens * (depth + 8) + tokens * (columns + 8) + tokens * (tokens + 8) + depth * (columns + 8);
  return (elements * 2 + (tokens + 1) * 4 + 15) / 16 * 16;
}
// The cut of these, for a call that fits_mma (linear_variants.hpp).
LinearCut mma_cut_of(const LinearLocal& call);
LinearCut mma_cut_of(const LinearLocalBackward& call);

// Each throws std::invalid_argument if a width is too large for the kernels' shared memory.
LinearCut cut_of(const LinearLocal& call);
LinearCut cut_of(const LinearLocalBackward& call);
LinearCut cut_of(const LinearState& call);
LinearCut cut_of(const LinearScan& call, std::int64_t groups);
LinearCut cut_of(const LinearCombine& call);
LinearCut cut_of(const LinearInter& call, std::int64_t chunks);

// Thread blocks of the kernels for Hopper that a multiprocessor holds: of those that walk for out or dq, by
// the width of that result; of those that sum states, by D. Those for dk and dv: one.
constexpr int hopper_walk_blocks(int width) {
  return width == 64 ? 2 : 1;
}
// Of the kernels for Hopper, which fill so many multiprocessors: every chunk and head is a part.
LinearCut hopper_cut(std::int64_t chunks, std::int64_t heads, int multiprocessors);

// The chunks as kernels read them, one by one; cut after every so many tokens.
std::vector<DeviceChunk> device_chunks(std::span<const Chunk> chunks);
std::vector<DeviceChunk> short_chunks(std::span<const Chunk> chunks, std::int64_t tokens = linear_tokens);

// The chunks of a scan in the order in which threads take them, and where groups that pass nothing to each
// other begin (and at the end the number of chunks).
struct ScanChunks {
  std::vector<DeviceChunk> chunks;
  std::vector<std::int32_t> groups;
};
ScanChunks scan_chunks(std::span<const Chunk> chunks, bool has_final_state, bool reverse);

// Compact rows [0, rows) that are in no chunk, in runs of step 1.
std::vector<RowRun> rows_in_no_chunk(std::span<const Chunk> chunks, std::int64_t rows);

}  // namespace cplab::kernels::cuda
