// How linear attention with transitions of every token is cut on GPUs: blocks of tokens, shared memory and
// scratch memory. Plain host code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/linear.hpp"
#include "kernels/tiles/gated_params.hpp"

namespace cplab::kernels::cuda {

constexpr std::int32_t gated_threads = 256;
// The largest D; E is any.
constexpr std::int32_t gated_most_keys = 128;
// Tokens of a block.
constexpr std::int32_t gated_tokens(bool fp32) {
  return fp32 ? 32 : 64;
}
// Columns of E that kernels over blocks take at a time, and that a walk over states takes.
constexpr std::int32_t gated_values = 64, gated_slice = 32;

// Bytes of a tile and of numbers in shared memory, as the kernels' Arena lays them out.
constexpr std::int64_t gated_tile_bytes(std::int64_t rows, std::int64_t columns, std::int64_t element) {
  return rows * (columns + 16 / element) * element;
}
// Sums of logarithms and the strengths of a block's tokens.
constexpr std::int64_t gated_gate_bytes(std::int64_t tokens, std::int64_t D, bool column) {
  return (column ? tokens * D : tokens) * 4 + 3 * tokens * 4;
}

// Shared memory of the kernels in kernels/families/linear/gated, of elements of so many bytes.
// The kernel over blocks has less where arrays may lie where others were; see there.
constexpr bool gated_prepare_shares(std::int64_t D, bool column) {
  return column && D == 128;
}
constexpr std::int64_t gated_prepare_bytes(std::int64_t D, std::int64_t element, bool column) {
  const std::int64_t C = gated_tokens(element == 4);
  return (column ? 4 : 3) * gated_tile_bytes(C, D, element) + gated_tile_bytes(C, C, element) +
         (gated_prepare_shares(D, column) ? 0 : C * (C + 4) * 4) + gated_gate_bytes(C, D, column);
}
constexpr std::int64_t gated_walk_bytes(std::int64_t D, std::int64_t element, bool reverse) {
  const std::int64_t C = gated_tokens(element == 4);
  const std::int64_t stage = (reverse ? 3 : 2) * gated_tile_bytes(C, D, element) +
                             (reverse ? 2 : 1) * gated_tile_bytes(C, gated_slice, element) + D * 4;
  return 2 * stage + gated_tile_bytes(D, gated_slice, element) + gated_tile_bytes(C, gated_slice, element);
}
constexpr std::int64_t gated_rows_bytes(std::int64_t D, std::int64_t element) {
  const std::int64_t C = gated_tokens(element == 4);
  return gated_tile_bytes(C, D, element) + gated_tile_bytes(C, C, element) +
         gated_tile_bytes(D, gated_values, element) + gated_tile_bytes(C, gated_values, element);
}
constexpr std::int64_t gated_gradients_bytes(std::int64_t D, std::int64_t element, bool column) {
  const std::int64_t C = gated_tokens(element == 4);
  return 2 * gated_tile_bytes(C, D, element) + 4 * gated_tile_bytes(C, gated_values, element) +
         2 * gated_tile_bytes(D, gated_values, element) + 4 * gated_tile_bytes(C, C, element) +
         gated_gate_bytes(C, D, column) + D * 4 + 2 * C * 4;
}

// Of a call whose log_decay is given. Throws std::invalid_argument if D is larger than gated_most_keys.
GatedCut gated_cut_of(const LinearLocal& call);
GatedCut gated_cut_of(const LinearLocalBackward& call);
GatedCut gated_cut_of(const LinearState& call);

// Where the blocks of each chunk begin in short_chunks(chunks, tokens), and how many there are.
std::vector<std::int32_t> gated_first_blocks(std::span<const Chunk> chunks, std::int32_t tokens);

}  // namespace cplab::kernels::cuda
