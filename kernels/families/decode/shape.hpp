// The kernels for few queries: their tiles, and their names. Plain host code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/families/architectures.hpp"
#include "kernels/families/head_sizes.hpp"
#include "kernels/tiles/split_tiles.hpp"

namespace cplab::kernels::cuda {

// Rows of a tile: what one instruction multiplies, and as many as the accumulators of values of 512 leave
// registers for.
inline constexpr std::int32_t decode_rows[] = {16, 64};

// Whether tiles of so many rows are compiled for these sizes. With keys of 192 and 256 the memory binds tiles
// of few rows too, so that higher ones are never the faster.
constexpr bool decode_has_rows(const HeadSizes& sizes, int rows) {
  return rows == decode_rows[0] || sizes.key <= 128 || sizes.key > 256;
}

// Blocks of keys in shared memory are small enough for two of them beside 64 rows of queries.
constexpr int decode_keys(const HeadSizes& sizes) {
  return sizes.key > 128 ? 32 : 64;
}
// Each warp has as many columns of the values: 16 or more.
constexpr int decode_warps(const HeadSizes& sizes, int rows) {
  return rows > 16 && sizes.value >= 128 ? 8 : 4;
}

constexpr int decode_state_bytes = 3072;  // of DecodeState (forward.cuh)
constexpr int decode_shared_bytes(const HeadSizes& sizes, int rows, int stages) {
  const int keys = decode_keys(sizes);
  return 2 * (rows * sizes.key + stages * keys * (sizes.key + sizes.value) + rows * keys) +
         decode_state_bytes;
}
// Three blocks of K and V where that costs no thread block of a multiprocessor (of Hopper), else two.
constexpr int decode_blocks_held(const HeadSizes& sizes, int rows, int stages) {
  constexpr std::int64_t most = 4, reserved = 1024, shared = architectures.back().shared_bytes;
  return static_cast<int>(std::min(most, shared / (decode_shared_bytes(sizes, rows, stages) + reserved)));
}
constexpr int decode_stages(const HeadSizes& sizes, int rows) {
  const int held = decode_blocks_held(sizes, rows, 3);
  return held > 0 && held == decode_blocks_held(sizes, rows, 2) ? 3 : 2;
}
constexpr int decode_blocks_together(const HeadSizes& sizes, int rows) {
  return decode_blocks_held(sizes, rows, decode_stages(sizes, rows));
}

constexpr Claim decode_claim(const HeadSizes& sizes, int rows) {
  const int bytes = decode_shared_bytes(sizes, rows, decode_stages(sizes, rows));
  if (bytes <= shared_bytes_of(Claim::all)) return Claim::all;
  return bytes <= shared_bytes_of(Claim::large_shared) ? Claim::large_shared : Claim::hopper;
}

// The launch behind, which merges pieces: four columns a thread.
constexpr int decode_merge_threads = 128;
constexpr int decode_merge_rows(const HeadSizes& sizes) {
  return decode_merge_threads * 4 / sizes.value;
}

std::string decode_name(DType dtype, const HeadSizes& sizes, int rows);  // "attend decode bf16 128, 64 rows"

}  // namespace cplab::kernels::cuda
