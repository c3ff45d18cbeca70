// Tensors in poisoned memory; see tensor.hpp.
#include "tests/kernels/tensor.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace cplab::testing {
namespace {

constexpr std::byte poison_byte{0xff};
constexpr std::int64_t guard_elements = 16;  // elements in front of and behind everything

}  // namespace

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::fp64: return "fp64";
    case DType::fp32: return "fp32";
    case DType::bf16: return "bf16";
    case DType::fp16: return "fp16";
  }
  return "?";
}

DType wide(DType dtype) {
  return dtype == DType::fp64 ? DType::fp64 : DType::fp32;
}

View tiny_view(void* data, DType dtype, std::int64_t rows, std::int64_t heads, std::int64_t width) {
  return {.data = data,
          .dtype = dtype,
          .rows = rows,
          .heads = heads,
          .width = width,
          .row_stride = 3,
          .head_stride = 3,
          .runs = {}};
}

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::fp64: return 0x1p-53;
    case DType::fp32: return 0x1p-24;
    case DType::bf16: return 0x1p-8;
    case DType::fp16: return 0x1p-11;
  }
  return 0;
}

double rounded(double value, DType dtype) {
  double stored = 0;
  kernels::store_element(&stored, dtype, 0, value);
  return kernels::load_element(&stored, dtype, 0);
}

Layout random_layout(std::int64_t rows, std::mt19937& generator, std::int64_t gap_unit, bool one_run) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator);
  };
  Layout layout;
  layout.heads_outside = draw(0, 1) == 1;
  layout.width_gap = draw(0, 3) * gap_unit;
  const std::int64_t kind = draw(0, one_run ? 1 : 2);
  if (kind == 1) {  // one run, strided
    const std::int64_t step = draw(1, 3);
    const std::int64_t begin = draw(0, 4);
    layout.runs = {{.begin = begin, .count = rows, .step = step}};
    layout.physical_rows = begin + rows * step + 2;
  } else if (kind == 2) {  // several runs, their places in memory shuffled
    std::vector<std::int64_t> counts;
    for (std::int64_t left = rows; left > 0;) {
      counts.push_back(draw(1, std::max<std::int64_t>(1, std::min<std::int64_t>(left, 20))));
      left -= counts.back();
    }
    counts.push_back(0);  // an empty run is legal
    std::vector<std::size_t> order(counts.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), generator);
    layout.runs.resize(counts.size());
    std::int64_t place = draw(0, 3);
    for (const std::size_t run : order) {
      const std::int64_t count = counts[run];
      const std::int64_t steps[] = {1, 2, -1};
      const std::int64_t step = steps[draw(0, 2)];
      layout.runs[run] = {.begin = step < 0 ? place + count - 1 : place, .count = count, .step = step};
      place += count * std::max<std::int64_t>(step, 1) + draw(0, 2);
    }
    layout.physical_rows = place;
  }
  return layout;
}

std::vector<RowRun> random_runs(std::int64_t rows, std::mt19937& generator, std::int64_t longest) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator);
  };
  const std::int64_t step = std::max<std::int64_t>(draw(-1, 3), 1);
  const bool any_count = draw(0, 1) == 0;
  std::vector<RowRun> runs;
  for (std::int64_t left = rows; left > 0; left -= runs.back().count)
    runs.push_back(
        {.count = std::min(any_count || draw(0, 3) == 0 ? draw(1, longest) : longest, left), .step = step});
  std::vector<std::size_t> order(runs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (draw(0, 1) == 0) std::shuffle(order.begin(), order.end(), generator);
  std::int64_t place = draw(0, 5);
  for (const std::size_t run : order) {
    runs[run].begin = place;
    place += (runs[run].count + (draw(0, 3) == 0 ? 0 : draw(0, longest))) * step;
  }
  return runs;
}

Layout list_layout(const std::vector<RowRun>& runs, std::mt19937& generator, std::int64_t gap_unit) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator);
  };
  Layout layout;
  layout.heads_outside = draw(0, 1) == 1;
  layout.width_gap = draw(0, 3) * gap_unit;
  layout.runs = runs;
  const std::int64_t shift = draw(0, 4), behind = draw(0, 3);
  for (RowRun& run : layout.runs) {
    run.begin += shift;
    layout.physical_rows = std::max(layout.physical_rows, run.begin + (run.count - 1) * run.step + 1);
  }
  layout.physical_rows += behind;
  return layout;
}

Tensor::Tensor(DType dtype, std::int64_t rows, std::int64_t heads, std::int64_t width, Layout layout)
    : dtype_(dtype), rows_(rows), heads_(heads), width_(width), runs_(std::move(layout.runs)) {
  const std::int64_t physical_rows = runs_.empty() ? rows : layout.physical_rows;
  const std::int64_t padded = width + layout.width_gap;
  const std::int64_t beside = layout.heads_outside ? 0 : layout.before_heads + layout.behind_heads;
  first_ = guard_elements + (layout.heads_outside ? 0 : layout.before_heads);
  row_stride_ = layout.heads_outside ? padded : heads * padded + beside;
  head_stride_ = layout.heads_outside ? physical_rows * padded : padded;
  if (runs_.empty()) {
    for (std::int64_t row = 0; row < rows; ++row) physical_.push_back(row);
  } else {
    for (const RowRun& run : runs_)
      for (std::int64_t row = 0; row < run.count; ++row) physical_.push_back(run.begin + row * run.step);
  }
  const std::int64_t elements = physical_rows * (heads * padded + beside) + 2 * guard_elements;
  memory_.assign(static_cast<std::size_t>(elements) * kernels::bytes_of(dtype), poison_byte);
}

View Tensor::view() {
  return {.data = memory_.data() + first_ * static_cast<std::int64_t>(kernels::bytes_of(dtype_)),
          .dtype = dtype_,
          .rows = rows_,
          .heads = heads_,
          .width = width_,
          .row_stride = row_stride_,
          .head_stride = head_stride_,
          .runs = runs_};
}

View Tensor::view_of_heads(std::int64_t first, std::int64_t count) {
  View window = view();
  window.data =
      memory_.data() + (first_ + first * head_stride_) * static_cast<std::int64_t>(kernels::bytes_of(dtype_));
  window.heads = count;
  return window;
}

std::int64_t Tensor::element(std::int64_t row, std::int64_t head, std::int64_t x) const {
  return first_ + physical_[static_cast<std::size_t>(row)] * row_stride_ + head * head_stride_ + x;
}

double Tensor::at(std::int64_t row, std::int64_t head, std::int64_t x) const {
  return kernels::load_element(memory_.data(), dtype_, element(row, head, x));
}

void Tensor::set(std::int64_t row, std::int64_t head, std::int64_t x, double value) {
  kernels::store_element(memory_.data(), dtype_, element(row, head, x), value);
}

void Tensor::fill_row(std::int64_t row, double value) {
  for (std::int64_t head = 0; head < heads_; ++head)
    for (std::int64_t x = 0; x < width_; ++x) set(row, head, x, value);
}

std::vector<double> Tensor::values() const {
  std::vector<double> values;
  for (std::int64_t row = 0; row < rows_; ++row)
    for (std::int64_t head = 0; head < heads_; ++head)
      for (std::int64_t x = 0; x < width_; ++x) values.push_back(at(row, head, x));
  return values;
}

void Tensor::assign(const std::vector<double>& values) {
  auto value = values.begin();
  for (std::int64_t row = 0; row < rows_; ++row)
    for (std::int64_t head = 0; head < heads_; ++head)
      for (std::int64_t x = 0; x < width_; ++x) set(row, head, x, *value++);
}

std::vector<std::byte> Tensor::bits(std::int64_t row, std::int64_t head) const {
  const auto bytes = static_cast<std::int64_t>(kernels::bytes_of(dtype_));
  const auto begin = memory_.begin() + element(row, head, 0) * bytes;
  return {begin, begin + width_ * bytes};
}

void Tensor::set_memory(const std::vector<std::byte>& memory) {
  std::copy_n(memory.begin(), memory_.size(), memory_.begin());  // in place: views stay valid
}

std::string Tensor::touched_gap() const {
  std::vector<std::byte> rest = memory_;
  const auto bytes = static_cast<std::int64_t>(kernels::bytes_of(dtype_));
  for (std::int64_t row = 0; row < rows_; ++row)
    for (std::int64_t head = 0; head < heads_; ++head)
      std::fill_n(rest.begin() + element(row, head, 0) * bytes, width_ * bytes, poison_byte);
  const auto touched = [](std::byte byte) { return byte != poison_byte; };
  const auto first = std::find_if(rest.begin(), rest.end(), touched);
  if (first == rest.end()) return "";
  const auto last = std::find_if(rest.rbegin(), rest.rend(), touched).base() - 1;
  const std::int64_t start = element(0, 0, 0) * bytes;
  return "bytes " + std::to_string(first - rest.begin() - start) + " to " +
         std::to_string(last - rest.begin() - start) + " from the first row on, " +
         std::to_string(std::count_if(rest.begin(), rest.end(), touched)) + " in all; rows " +
         std::to_string(row_stride_ * bytes * (rows_ > 1 ? physical_[1] - physical_[0] : 1)) +
         " bytes apart, heads " + std::to_string(head_stride_ * bytes);
}

}  // namespace cplab::testing
