// Contiguous runs of two tensors; see byte_runs.hpp.
#include "exec/byte_runs.hpp"

#include <cstdint>

namespace cplab {

namespace {

// Physical rows of a view in the order of its compact rows.
class RowWalker {
 public:
  explicit RowWalker(const kernels::View& view) : view_(view) { skip_empty(); }

  std::byte* next() {
    std::int64_t row = at_++;
    if (!view_.runs.empty()) {
      row = view_.runs[run_].begin + row * view_.runs[run_].step;
      skip_empty();
    }
    return static_cast<std::byte*>(view_.data) +
           row * view_.row_stride * static_cast<std::int64_t>(kernels::bytes_of(view_.dtype));
  }

 private:
  void skip_empty() {
    while (run_ < view_.runs.size() && at_ >= view_.runs[run_].count) {
      ++run_;
      at_ = 0;
    }
  }

  const kernels::View& view_;
  std::size_t run_ = 0;
  std::int64_t at_ = 0;
};

}  // namespace

std::vector<ByteRun> contiguous_byte_runs(const kernels::View& from, const kernels::View& into) {
  std::vector<ByteRun> runs;
  if (from.width == 0 || from.heads == 0) return runs;
  const auto element = static_cast<std::int64_t>(kernels::bytes_of(from.dtype));
  const auto append = [&](const std::byte* source, std::byte* target, std::size_t bytes) {
    if (!runs.empty() && runs.back().from + runs.back().bytes == source &&
        runs.back().into + runs.back().bytes == target) {
      runs.back().bytes += bytes;
    } else {
      runs.push_back({source, target, bytes});
    }
  };
  const auto bytes = static_cast<std::size_t>(from.width * element);
  if (from.head_stride > from.row_stride && into.head_stride > into.row_stride) {
    for (std::int64_t head = 0; head < from.heads; ++head) {
      RowWalker source(from), target(into);
      for (std::int64_t row = 0; row < from.rows; ++row) {
        const std::byte* source_row = source.next();
        std::byte* target_row = target.next();
        append(source_row + head * from.head_stride * element, target_row + head * into.head_stride * element,
               bytes);
      }
    }
    return runs;
  }
  RowWalker source(from), target(into);
  for (std::int64_t row = 0; row < from.rows; ++row) {
    const std::byte* source_row = source.next();
    std::byte* target_row = target.next();
    for (std::int64_t head = 0; head < from.heads; ++head) {
      append(source_row + head * from.head_stride * element, target_row + head * into.head_stride * element,
             bytes);
    }
  }
  return runs;
}

}  // namespace cplab
