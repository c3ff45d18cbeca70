// A View with its row map resolved: rows of one head are loaded into, and stored from, contiguous float or
// double. All memory access of the CPU tiles goes through here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/convert.hpp"
#include "kernels/kernels.hpp"

namespace cplab::kernels {

inline bool is_fp64(const View& view) {
  return view.dtype == DType::fp64;
}

class ViewRows {
 public:
  // Of the view, which must have passed check_view(), it refers only to the memory afterwards.
  explicit ViewRows(const View& view);

  const View& view() const { return view_; }
  std::int64_t width() const { return view_.width; }

  std::byte* address(std::int64_t row, std::int64_t head) const {
    return static_cast<std::byte*>(view_.data) +
           (physical_row(row) * view_.row_stride + head * view_.head_stride) * element_bytes_;
  }

  // One row of one head, width() elements.
  template <class T>
  void load(std::int64_t row, std::int64_t head, T* into) const {
    load_elements(address(row, head), view_.dtype, view_.width, into);
  }
  template <class T>
  void store(std::int64_t row, std::int64_t head, const T* from) const {
    store_elements(from, view_.width, view_.dtype, address(row, head));
  }

  // First element of a row, for views of width 1.
  template <class T>
  T load_first(std::int64_t row, std::int64_t head) const {
    T value = 0;
    load_elements(address(row, head), view_.dtype, 1, &value);
    return value;
  }
  template <class T>
  void store_first(std::int64_t row, std::int64_t head, T value) const {
    store_elements(&value, 1, view_.dtype, address(row, head));
  }

  // Rows first .. first + count of one head as a dense count x width() block, row by row.
  template <class T>
  void gather(std::int64_t first, std::int64_t count, std::int64_t head, T* into) const {
    for (std::int64_t row = 0; row < count; ++row) load(first + row, head, into + row * view_.width);
  }

 private:
  std::int64_t physical_row(std::int64_t row) const {
    return physical_.empty() ? begin_ + row * step_ : physical_[static_cast<std::size_t>(row)];
  }

  View view_;
  std::int64_t element_bytes_;
  std::int64_t begin_ = 0;  // no run or one run: begin_ + row * step_
  std::int64_t step_ = 1;
  std::vector<std::int64_t> physical_;  // several runs: the physical row of each row
};

}  // namespace cplab::kernels
