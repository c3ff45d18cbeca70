// Resolves the row map of a View; see view_rows.hpp.
#include "kernels/cpu/view_rows.hpp"

#include <stdexcept>
#include <string>

namespace cplab::kernels {

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(std::string("cpu tile: ") + what);
}

ViewRows::ViewRows(const View& view)
    : view_(view), element_bytes_(static_cast<std::int64_t>(bytes_of(view.dtype))) {
  require(view.rows >= 0 && view.heads >= 0 && view.width >= 0, "a view has a negative extent");
  require(view.data != nullptr || view.rows * view.heads * view.width == 0, "a view has no memory");
  if (view.runs.empty()) return;
  std::int64_t rows = 0;
  for (const RowRun& run : view.runs) {
    require(run.count >= 0, "a row run has a negative count");
    rows += run.count;
  }
  require(rows == view.rows, "the row runs of a view do not add up to its rows");
  if (view.runs.size() == 1) {
    begin_ = view.runs.front().begin;
    step_ = view.runs.front().step;
    return;
  }
  physical_.reserve(static_cast<std::size_t>(rows));
  for (const RowRun& run : view.runs) {
    for (std::int64_t row = 0; row < run.count; ++row) physical_.push_back(run.begin + row * run.step);
  }
}

bool same_shape(const View& a, const View& b) {
  return a.rows == b.rows && a.heads == b.heads && a.width == b.width;
}

}  // namespace cplab::kernels
