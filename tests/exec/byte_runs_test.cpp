// Runs of bytes that are contiguous in two tensors at once.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "exec/byte_runs.hpp"

namespace cplab {
namespace {

kernels::View tensor(void* data, std::int64_t rows, std::int64_t heads, std::int64_t width) {
  kernels::View view;
  view.data = data;
  view.dtype = kernels::DType::bf16;
  view.rows = rows;
  view.heads = heads;
  view.width = width;
  view.row_stride = heads * width;
  view.head_stride = width;
  return view;
}

TEST_CASE("two dense tensors are one run") {
  std::vector<std::uint16_t> a(2 * 3 * 4), b(2 * 3 * 4);
  const auto runs = contiguous_byte_runs(tensor(a.data(), 2, 3, 4), tensor(b.data(), 2, 3, 4));
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].bytes == 48);
}

TEST_CASE("a layout that differs cuts at every head, a row map at every run") {
  std::vector<std::uint16_t> a(6 * 2 * 4), b(6 * 2 * 4);
  std::iota(a.begin(), a.end(), std::uint16_t{0});
  kernels::View from = tensor(a.data(), 6, 2, 4);
  kernels::View heads_first = tensor(b.data(), 6, 2, 4);
  heads_first.row_stride = 4;
  heads_first.head_stride = 6 * 4;
  CHECK(contiguous_byte_runs(from, heads_first).size() == 12);
  CHECK(contiguous_byte_runs(heads_first, heads_first).size() == 1);
  kernels::View some_rows = heads_first;
  some_rows.rows = 3;
  CHECK(contiguous_byte_runs(some_rows, some_rows).size() == 2);

  // Rows 4, 5, 1, 3 of `from`: one run for 4 and 5, one each for 1 and 3.
  const std::vector<kernels::RowRun> row_runs{{4, 2, 1}, {0, 0, 1}, {1, 2, 2}};
  from.rows = 4;
  from.runs = row_runs;
  const kernels::View into = tensor(b.data(), 4, 2, 4);
  const auto pieces = contiguous_byte_runs(from, into);
  REQUIRE(pieces.size() == 3);
  for (const ByteRun& run : pieces) std::copy_n(run.from, run.bytes, run.into);
  const std::vector<int> rows{4, 5, 1, 3};
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t x = 0; x < 8; ++x) CHECK(b[row * 8 + x] == rows[row] * 8 + static_cast<int>(x));
  }
}

TEST_CASE("empty tensors have no runs") {
  CHECK(contiguous_byte_runs(tensor(nullptr, 0, 3, 4), tensor(nullptr, 0, 3, 4)).empty());
  CHECK(contiguous_byte_runs(tensor(nullptr, 3, 0, 4), tensor(nullptr, 3, 0, 4)).empty());
}

}  // namespace
}  // namespace cplab
