// How many cells dynamic mask attention is expected to compute, and which bytes it moves.
#include "sim/masked_cost.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace cplab {
namespace {

Problem selecting(BiasForm bias, std::int64_t top_k, std::int64_t block) {
  Problem p;
  p.lengths = p.padded_lengths = {1000};
  p.bias = bias;
  p.keep = Keep::top_k;
  p.top_k = top_k;
  p.block = block;
  return p;
}

}  // namespace

TEST_CASE("masked cost: a cell is computed unless none of its keys is selected") {
  Problem p = selecting(BiasForm::keys, 10, 0);
  // 64 keys, each selected with the chance 0.01.
  CHECK(expected_kept_cells(p) == doctest::Approx(1 - std::pow(0.99, 64)).epsilon(1e-12));
  p.bias = BiasForm::full;
  CHECK(expected_kept_cells(p) == doctest::Approx(1 - std::pow(0.99, 4096)).epsilon(1e-12));
  p.top_k = 1000;
  CHECK(expected_kept_cells(p) == 1);
  p.keep = Keep::none;
  CHECK(expected_kept_cells(p) == 1);
}

TEST_CASE("masked cost: groups of keys are selected where more than half of them are") {
  // Two keys: both, 0.1 x 0.1. 32 groups in a cell.
  CHECK(expected_kept_cells(selecting(BiasForm::keys, 100, 2)) ==
        doctest::Approx(1 - std::pow(0.99, 32)).epsilon(1e-9));
  // Three keys: two or three of them, 3 x 0.01 x 0.9 + 0.001 = 0.028; 64 / 3 groups.
  CHECK(expected_kept_cells(selecting(BiasForm::keys, 100, 3)) ==
        doctest::Approx(1 - std::pow(0.972, 64.0 / 3)).epsilon(1e-9));
  // A group longer than a cell is one choice; an odd one is kept in half of the cases by "relu".
  Problem p = selecting(BiasForm::keys, 0, 65);
  p.keep = Keep::relu;
  CHECK(expected_kept_cells(p) == doctest::Approx(0.5).epsilon(1e-9));
}

// 128 queries and 128 keys, all visible, 2 heads, 16 bits: a scan of 2 x 128 x 128 numbers; half of the pairs
// read bias and keep mask.
TEST_CASE("masked cost: bytes of the scan, and of bias and keep mask in computed cells") {
  const auto view = [](kernels::DType dtype, std::int64_t heads, std::int64_t width) {
    kernels::View v;
    v.dtype = dtype, v.rows = 128, v.heads = heads, v.width = width;
    v.row_stride = heads * width, v.head_stride = width;
    return v;
  };
  const std::vector<kernels::Segment> segments = {
      {.q_begin = 0, .q_count = 128, .k_begin = 0, .k_count = 128}};
  const std::vector<kernels::RowRun> columns = {{0, 128, 1}};
  const kernels::View tile = view(kernels::DType::bf16, 2, 64), pairs = view(kernels::DType::bf16, 2, 128);
  kernels::MaskedAttendBackward call;
  call.tile.q = call.tile.k = call.tile.v = tile;
  call.tile.segments = segments;
  call.mask.bias = call.mask.keep = call.dbias = pairs;
  call.mask.columns = columns;
  const double n = 2 * 128 * 128;
  // Scan 2 n; dbias filled 2 n; of half of the pairs bias and keep twice, 8 bytes, dbias once, 2.
  CHECK(masked_bytes(call, 0.5) == 2 * n + 2 * n + 0.5 * n * 10);
  call.write_dbias = kernels::Write::add;  // read and written, nothing filled
  CHECK(masked_bytes(call, 0.5) == 2 * n + 0.5 * n * 12);
  kernels::MaskedAttend forward;
  forward.tile.q = forward.tile.k = forward.tile.v = tile;
  forward.tile.segments = segments;
  forward.mask = call.mask;
  CHECK(masked_bytes(forward, 0.5) == 2 * n + 0.5 * n * 4);
  forward.mask.bias = forward.mask.keep = view(kernels::DType::bf16, 1, 1);  // of keys
  forward.mask.columns = {};
  CHECK(masked_bytes(forward, 0.5) == 2 * 128);
  CHECK(masked_bytes(kernels::Attend{}, 1) == 0);
}

}  // namespace cplab
