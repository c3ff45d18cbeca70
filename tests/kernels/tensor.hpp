// A tensor [rows, heads, width] in poisoned memory, laid out in any way a View can express: every byte that
// is not an element, and every element not yet written, is 0xff, a NaN in each dtype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"

namespace cplab::testing {

using kernels::DType;
using kernels::RowRun;
using kernels::View;

inline constexpr DType all_dtypes[] = {DType::fp64, DType::fp32, DType::bf16, DType::fp16};
inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

const char* name_of(DType dtype);

// fp32, or fp64 for fp64: what tiles compute in.
DType wide(DType dtype);

// 2^-53, 2^-24, 2^-8, 2^-11: the largest relative error of rounding to nearest.
double unit_roundoff(DType dtype);

// `value` as `dtype` holds it.
double rounded(double value, DType dtype);

// A view of a whole tensor [rows, heads, width] with strides of 3 elements: for tensors without rows, or of
// one element, where strides do not matter.
View tiny_view(void* data, DType dtype, std::int64_t rows, std::int64_t heads, std::int64_t width);

struct Layout {
  bool heads_outside = false;  // [heads, rows, width] instead of [rows, heads, width]
  std::int64_t width_gap = 0;  // unused elements behind each row of a head
  // Unused elements in front of the heads of a row and behind them, where these are inside.
  std::int64_t before_heads = 0, behind_heads = 0;
  std::vector<RowRun> runs;        // row map; empty for rows in order
  std::int64_t physical_rows = 0;  // rows of memory; 0 for just enough without runs
};

// Gaps of 0 to 3 times `gap_unit`, either order, and rows in order, strided, or in several runs at shuffled
// places (steps 1, 2, -1).
// With `one_run` all rows are at one distance.
Layout random_layout(std::int64_t rows, std::mt19937& generator, std::int64_t gap_unit = 1,
                     bool one_run = false);

// Runs of one step, 1 to 3, that begin at one remainder of it, in any order and with gaps: a list that has a
// tensor map. Half of the lists have runs of 1 to `longest` rows, the others are mostly of the longest.
std::vector<RowRun> random_runs(std::int64_t rows, std::mt19937& generator, std::int64_t longest);

// These runs, perhaps some rows further on.
Layout list_layout(const std::vector<RowRun>& runs, std::mt19937& generator, std::int64_t gap_unit = 1);

class Tensor {
 public:
  Tensor(DType dtype, std::int64_t rows, std::int64_t heads, std::int64_t width, Layout layout = {});

  // Valid while the tensor lives and is not moved.
  View view();
  // All rows of some of the heads.
  View view_of_heads(std::int64_t first, std::int64_t count);

  std::int64_t rows() const { return rows_; }
  std::int64_t heads() const { return heads_; }
  std::int64_t width() const { return width_; }
  DType dtype() const { return dtype_; }

  double at(std::int64_t row, std::int64_t head, std::int64_t x = 0) const;
  void set(std::int64_t row, std::int64_t head, std::int64_t x, double value);
  void fill_row(std::int64_t row, double value);  // all heads

  // [rows, heads, width], C order.
  std::vector<double> values() const;
  void assign(const std::vector<double>& values);

  // The stored bytes of one row of one head.
  std::vector<std::byte> bits(std::int64_t row, std::int64_t head) const;
  // All memory, gaps included.
  const std::vector<std::byte>& memory() const { return memory_; }
  // What a copy elsewhere has become; of the same size.
  void set_memory(const std::vector<std::byte>& memory);
  // True while no byte outside the elements has changed. touched_gap: empty, or the first and last such byte
  // and the layout.
  bool gaps_intact() const { return touched_gap().empty(); }
  std::string touched_gap() const;

 private:
  std::int64_t element(std::int64_t row, std::int64_t head, std::int64_t x) const;

  DType dtype_;
  std::int64_t rows_, heads_, width_, first_, row_stride_, head_stride_;
  std::vector<RowRun> runs_;
  std::vector<std::int64_t> physical_;  // of each row
  std::vector<std::byte> memory_;
};

}  // namespace cplab::testing
