// Tiles whose runs of rows are part of the case; see tile_case.hpp.
#include "tests/kernels/tile_case.hpp"

namespace cplab::testing {

TileCase half_sequences(TileCase tile, std::mt19937& generator) {
  tile.kind = "halves of sequences";
  tile.layouts = {.gap_unit = 8, .one_run = true};
  tile.sizes.D = tile.sizes.E = tile.sizes.D == 64 ? 64 : 128;
  tile.sizes.nq = tile.sizes.nk = 0;
  const bool half_q = draw(generator, 0, 2) > 0, half_k = !half_q || draw(generator, 0, 2) == 0;
  std::int64_t row = 0;
  for (const std::int64_t half : {draw(generator, 1, 40), draw(generator, 130, 200), std::int64_t{1},
                                  draw(generator, 1, 130), std::int64_t{128}}) {
    const std::int64_t nq = half_q ? half : 2 * half, nk = half_k ? half : 2 * half;
    tile.segments.push_back(
        {.q_begin = tile.sizes.nq, .q_count = nq, .k_begin = tile.sizes.nk, .k_count = nk});
    if (draw(generator, 0, 3) == 0) tile.segments.back().right = draw(generator, 0, 50);
    tile.sizes.nq += nq;
    tile.sizes.nk += nk;
    if (half_q) tile.layouts.q_runs.push_back({.begin = row + half, .count = half});
    if (half_k) tile.layouts.k_runs.push_back({.begin = row, .count = half});
    row += 2 * half;
  }
  return tile;
}

TileCase misleading_end(TileCase tile, std::mt19937& generator) {
  tile.kind = "a run that ends where out does";
  tile.layouts = {.gap_unit = 8, .one_run = true, .q_runs = {{0, 100, 1}, {200, 50, 1}, {260, 100, 1}}};
  tile.sizes.D = tile.sizes.E = tile.sizes.D == 64 ? 64 : 128;
  tile.sizes.nq = 250;
  tile.sizes.nk = draw(generator, 1, 150);
  tile.out = tile.nominal;
  tile.segments = {{.q_begin = 0, .q_count = 250, .k_begin = 0, .k_count = tile.sizes.nk}};
  return tile;
}

TileCase uneven_warpgroups(TileCase tile, DType nominal) {
  tile.kind = "causal sequences of 250 rows";
  tile.layouts = {.gap_unit = 8, .one_run = true, .q_runs = {{0, 1000, 1}}, .k_runs = {{0, 1000, 1}}};
  tile.shift = 0;
  tile.positive = true;
  tile.nominal = tile.out = nominal;
  tile.sizes = {.nq = 1000, .nk = 1000, .H = 8, .G = 2, .D = 64, .E = 64};
  for (std::int64_t begin = 0; begin < 1000; begin += 250)
    tile.segments.push_back({.q_begin = begin, .q_count = 250, .k_begin = begin, .k_count = 250, .right = 0});
  return tile;
}

TileCase whole_blocks(TileCase tile, std::mt19937& generator) {
  tile.kind = "sequences of whole blocks";
  tile.positive = tile.apart = true;
  tile.out = tile.nominal;
  tile.shift = 0;
  const bool padded =
      tile.sizes.D % 8 == 0 && tile.sizes.E % 8 == 0 && tile.sizes.D < 64 && tile.sizes.E <= 64;
  if (!padded) tile.sizes.D = tile.sizes.E = 64;
  std::int64_t rows = 0;
  for (int n = 0; n < 4; ++n) {
    const std::int64_t length = 128 * draw(generator, 1, 3);
    tile.segments.push_back({.q_begin = rows,
                             .q_count = length,
                             .k_begin = rows,
                             .k_count = length,
                             .right = draw(generator, -1, 0)});
    rows += length;
  }
  tile.sizes.nq = tile.sizes.nk = rows;
  tile.layouts = {.gap_unit = 8,
                  .one_run = true,
                  .q_runs = {{0, rows, 1}},
                  .k_runs = {{0, rows, 1}},
                  .results_alike = true};
  return tile;
}

TileCase full_sequences(TileCase tile, DType nominal, std::int64_t width, std::mt19937& generator) {
  tile.kind = "full sequences";
  tile.positive = tile.apart = true;
  tile.nominal = tile.out = nominal;
  tile.shift = 0;
  tile.sizes.D = tile.sizes.E = width;
  // Two blocks of queries for each tile of keys, at head size 64 with twice as many queries.
  const std::int64_t tiles = draw(generator, 2, 4), queries_a_key = 128 / tile.sizes.D;
  std::int64_t rows = 0, keys = 0;
  for (int n = 0; n < 2; ++n) {
    const std::int64_t length = n == 0 ? 128 * tiles : 128 * tiles - draw(generator, 0, 50);
    tile.segments.push_back(
        {.q_begin = rows, .q_count = length * queries_a_key, .k_begin = keys, .k_count = length});
    rows += length * queries_a_key;
    keys += length;
  }
  tile.sizes.nq = rows;
  tile.sizes.nk = keys;
  tile.layouts = {.gap_unit = 8,
                  .one_run = true,
                  .q_runs = {{0, rows, 1}},
                  .k_runs = {{0, keys, 1}},
                  .results_alike = true};
  return tile;
}

}  // namespace cplab::testing
