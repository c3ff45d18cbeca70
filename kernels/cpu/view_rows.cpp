// Resolves the row map of a View; see view_rows.hpp.
#include "kernels/cpu/view_rows.hpp"

namespace cplab::kernels {

ViewRows::ViewRows(const View& view)
    : view_(view), element_bytes_(static_cast<std::int64_t>(bytes_of(view.dtype))) {
  if (view.runs.empty()) return;
  if (view.runs.size() == 1) {
    begin_ = view.runs.front().begin;
    step_ = view.runs.front().step;
    return;
  }
  physical_.reserve(static_cast<std::size_t>(view.rows));
  for (const RowRun& run : view.runs) {
    for (std::int64_t row = 0; row < run.count; ++row) physical_.push_back(run.begin + row * run.step);
  }
}

}  // namespace cplab::kernels
