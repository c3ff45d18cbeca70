// What the CUDA kernels that change logits take beside the parameters of attention: where bias and keep mask
// lie, positions, and which blocks of pairs hold one that is kept. Plain host code.
#pragma once

#include <cstdint>

#include "kernels/tiles/params.hpp"
#include "kernels/tiles/score_params.hpp"

namespace cplab::kernels::cuda {

// Pairs are skipped in cells of so many queries and as many keys, on a fixed grid of compact rows.
constexpr std::int32_t cell_rows = 64;
constexpr std::int32_t cells_per_word = 32;

constexpr std::int32_t cells_of(std::int32_t rows) {
  return (rows + cell_rows - 1) / cell_rows;
}
constexpr std::int32_t words_of(std::int32_t cells) {
  return (cells + cells_per_word - 1) / cells_per_word;
}

// Bits of all cells of one head of the keep mask, head after head: bit c % 32 of word c / 32 of row r says
// that a pair of row cell r and column cell c is kept. Null: there is no keep mask, every cell is.
struct CellBits {
  std::uint32_t* words = nullptr;
  std::int32_t rows = 0;       // cells
  std::int32_t row_words = 0;  // of a row
};

// The keys that the segments show to the queries of a cell: [begin, end), both 0 where there are none.
struct KeyReach {
  std::int32_t begin, end;
};

struct DevicePairMask {
  DeviceView bias, keep;  // without data: absent
  bool full = false;      // [nq, heads, columns], else [nk, heads, 1]
  // full: the column of each row of k; null: first_column + row
  const std::int32_t* columns = nullptr;
  std::int32_t first_column = 0;
  double softcap = 0;
  // A bias of positions: those of the rows of k, then of q; null: none. Then slopes of alibi, by query head,
  // or the table, the bucket of each distance up to the last one's first, and by how many columns later keys'
  // buckets are further on; 0: later keys are as far as the query itself.
  const std::int32_t* positions = nullptr;
  const double* slopes = nullptr;
  DeviceView table;
  const std::int32_t* bucket_of = nullptr;
  std::int32_t last_distance = 0;
  std::int32_t later_buckets = 0;
  // Written by the scan, before the kernels that compute; by_k is by_q transposed, for the backward alone.
  CellBits by_q, by_k;
  const KeyReach* reach = nullptr;  // of each query cell
  std::int32_t q_rows = 0, k_rows = 0;
};

struct MaskedParams {
  AttendParams tile;
  DevicePairMask mask;
  ScoreParams scores = {};  // of Hopper's own kernels, which do not look at the mask
};

struct MaskedBackwardParams {
  AttendBackwardParams tile;
  DevicePairMask mask;
  DeviceView dbias;  // without data: absent. Where it is full and stored it has been filled with 0
  Write write_dbias = Write::store;
  DeviceView dtable;  // without data: absent; added to
  ScoreParams scores = {};
};

// Of a selection of keys (SelectKeys of masked.hpp).
struct SelectParams {
  DeviceView bias, keep;
  bool full = false, relu = false;
  std::int32_t keys = 0, top_k = 0, block = 0;
  std::int32_t digits = 0;  // of 8 bits, from the top, in which biases in their order can differ
};

}  // namespace cplab::kernels::cuda
