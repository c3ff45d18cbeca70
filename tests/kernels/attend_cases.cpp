// The cases of attention on a device (tile_cases.hpp): shapes, masks, layouts and dtypes.
#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "tests/kernels/random_tile.hpp"
#include "tests/kernels/tile_case.hpp"
#include "tests/kernels/tile_cases.hpp"

namespace cplab::testing {
namespace {

Segment square(std::int64_t nq, std::int64_t nk, std::int64_t left, std::int64_t right) {
  return {
      .q_begin = 0, .q_count = nq, .k_begin = 0, .k_count = nk, .offset = 0, .left = left, .right = right};
}

// Three of five have a width that tensor-core kernels are made for, with rows aligned to 16 bytes.
TileCase random_widths(std::mt19937& generator, const TileRunner& runner) {
  TileCase tile{.kind = "", .sizes = {}, .segments = {}, .nominal = DType::bf16, .out = DType::bf16};
  const std::int64_t which = draw(generator, 0, runner.tensor_cores_only ? 3 : 4);
  const std::vector<DType>& nominals = runner.tensor_core_dtypes;
  tile.nominal = which == 4 ? DType::fp32 : nominals[static_cast<std::size_t>(which) % nominals.size()];
  tile.out = draw(generator, 0, 1) == 0 ? tile.nominal : DType::fp32;
  tile.sizes.G = draw(generator, 1, 2);
  tile.sizes.H = tile.sizes.G * draw(generator, 1, runner.most_group);
  if (runner.tensor_cores_only || draw(generator, 0, 4) < 3) {
    const auto last = static_cast<std::int64_t>(runner.tensor_core_sizes.size()) - 1;
    const HeadPair& pair = runner.tensor_core_sizes[static_cast<std::size_t>(draw(generator, 0, last))];
    tile.sizes.D = pair.keys;
    tile.sizes.E = pair.values;
    tile.layouts.gap_unit = 8;
    tile.layouts.one_run = draw(generator, 0, 3) > 0;
  } else {
    tile.sizes.D = draw(generator, 1, 150);
    tile.sizes.E = draw(generator, 1, 150);
    tile.shift = draw(generator, 0, 7);
    if (runner.has_fp64 && draw(generator, 0, 2) == 0) tile.nominal = tile.out = DType::fp64;
  }
  return tile;
}

// Sequences of 1 to 3 rows, causal, each its own segment.
std::vector<Segment> tiny_sequences(std::int64_t count, std::int64_t& rows) {
  std::vector<Segment> segments;
  rows = 0;
  for (std::int64_t s = 0; s < count; ++s) {
    const std::int64_t length = 1 + s * 7 % 3;
    segments.push_back({.q_begin = rows, .q_count = length, .k_begin = rows, .k_count = length, .right = 0});
    rows += length;
  }
  return segments;
}

void run_tile(Report& report, const TileRunner& runner, TileCase tile, const CaseName& name,
              std::mt19937& generator) {
  tile.seed = name.seed;
  tile.number = name.number;
  // Half of what copy engines could read lies in lists of runs.
  if (tile.layouts.one_run && tile.layouts.q_runs.empty() && draw(generator, 0, 1) == 0) {
    if (draw(generator, 0, 3) > 0) tile.layouts.q_runs = random_runs(tile.sizes.nq, generator, 100);
    if (draw(generator, 0, 3) > 0) tile.layouts.k_runs = random_runs(tile.sizes.nk, generator, 100);
  }
  check_tile(report, runner, tile, generator);
}

}  // namespace

void attend_case(Report& report, const CaseName& name, const TileRunner& runner) {
  std::mt19937 generator(
      static_cast<unsigned>(name.seed * 1000003 + static_cast<std::uint64_t>(name.number)));
  TileCase tile = random_widths(generator, runner);
  Sizes& sizes = tile.sizes;
  const std::int64_t largest = name.number % 16 == 3 ? 400 : runner.most_rows;
  sizes.nq = draw(generator, 1, std::min(largest, runner.most_queries));
  sizes.nk = draw(generator, 1, largest);
  if (name.number == 7) {  // once: brute force over so many rows takes its time
    tile.kind = "4096 tiny sequences";
    tile.nominal = DType::bf16;
    sizes.H = sizes.G = 1;
    tile.segments = tiny_sequences(4096, sizes.nq);
    sizes.nk = sizes.nq;
    return run_tile(report, runner, tile, name, generator);
  }
  if (name.number % 32 == 15) {  // whole tiles of queries and of keys that nobody sees
    tile.kind = "tiles of nobody";
    sizes.nq = sizes.nk = 390;
    tile.out = DType::fp32;
    tile.layouts.one_run = true;
    tile.segments = {{.q_begin = 3, .q_count = 90, .k_begin = 133, .k_count = 100, .offset = 10, .right = 0}};
    return run_tile(report, runner, tile, name, generator);
  }
  if (name.number % 32 == 31) {  // blocks of keys that some rows of a tile see, then others, then these again
    tile.kind = "rows taking turns";
    sizes = {.nq = 400, .nk = 640, .H = sizes.G, .G = sizes.G, .D = sizes.D, .E = sizes.E};
    tile.layouts.one_run = true;
    const std::int64_t border = draw(generator, 60, 200), offset = draw(generator, 0, 150);
    for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 256}, {256, 640}}) {
      tile.segments.push_back({.q_begin = 0, .q_count = border, .k_begin = begin, .k_count = end - begin});
      tile.segments.push_back({.q_begin = border,
                               .q_count = sizes.nq - border,
                               .k_begin = begin,
                               .k_count = end - begin,
                               .offset = offset,
                               .right = draw(generator, -1, 0)});
    }
    return run_tile(report, runner, tile, name, generator);
  }
  if (name.number % 16 == 11) {
    tile.kind = "rising scores";
    sizes.nq = std::min<std::int64_t>(sizes.nq, 150);
    sizes.nk = 640;
    tile.rising = true;
    tile.segments = {square(sizes.nq, sizes.nk, -1, draw(generator, -1, 0))};
    tile.segments.front().offset = draw(generator, 0, sizes.nk);
    return run_tile(report, runner, tile, name, generator);
  }
  if (name.number % 64 == 39) {
    for (const DType nominal : {DType::bf16, DType::fp16}) {
      std::mt19937 alike = generator;
      run_tile(report, runner, uneven_warpgroups(tile, nominal), name, alike);
    }
    return;
  }
  if (name.number % 64 == 7) return run_tile(report, runner, whole_blocks(tile, generator), name, generator);
  if (name.number % 64 == 35) {
    for (const DType nominal : {DType::bf16, DType::fp16})
      for (const std::int64_t width : {64, 128})
        run_tile(report, runner, full_sequences(tile, nominal, width, generator), name, generator);
    return;
  }
  if (name.number % 64 == 55)
    return run_tile(report, runner, misleading_end(tile, generator), name, generator);
  if (name.number % 32 == 23)
    return run_tile(report, runner, half_sequences(tile, generator), name, generator);
  switch (name.number % 8) {
    case 0:
      tile.kind = "one row, one key";
      if (draw(generator, 0, 1) == 0) sizes.nq = 1;
      if (sizes.nq > 1 || draw(generator, 0, 1) == 0) sizes.nk = 1;
      tile.segments = {square(sizes.nq, sizes.nk, -1, draw(generator, -1, 0))};
      break;
    case 1: {
      tile.kind = "window";
      const std::int64_t left = draw(generator, 0, 1) == 0 ? 0 : draw(generator, 0, 90);
      tile.segments = {
          square(sizes.nq, sizes.nk, left, draw(generator, 0, 1) == 0 ? 0 : draw(generator, 0, 90))};
      tile.segments.front().offset = draw(generator, -20, 20);
      break;
    }
    case 2:
      tile.kind = "tails";
      for (std::int64_t n = 0; n < 5; ++n) {  // 26 such cases see every length 1 .. 130
        const std::int64_t length = 1 + (name.number / 8 * 5 + n) % 130;
        sizes.nq = length;
        sizes.nk = draw(generator, 0, 1) == 0 ? length : draw(generator, 1, 130);
        tile.segments = {square(sizes.nq, sizes.nk, -1, draw(generator, -1, 0))};
        run_tile(report, runner, tile, name, generator);
      }
      return;
    case 3:
      tile.kind = "packed";
      tile.segments = tiny_sequences(40, sizes.nq);
      sizes.nk = sizes.nq;
      break;
    default: tile.kind = "random segments"; tile.segments = random_segments(generator, sizes.nq, sizes.nk);
  }
  run_tile(report, runner, tile, name, generator);
}

}  // namespace cplab::testing
