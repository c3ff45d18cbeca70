// See joined_views.hpp.
#include "kernels/work/joined_views.hpp"

#include <cstddef>
#include <cstdint>

#include "kernels/call_checks.hpp"

namespace cplab::kernels::cuda {

std::optional<View> joined(const View& first, const View& second) {
  const bool alike = same_shape(first, second) && first.dtype == second.dtype &&
                     first.row_stride == second.row_stride && first.head_stride == second.head_stride &&
                     first.runs.empty() && second.runs.empty();
  if (!alike) return {};
  const auto begins_after = [&](std::int64_t elements) {
    const std::int64_t bytes = elements * static_cast<std::int64_t>(bytes_of(first.dtype));
    return elements > 0 && second.data == static_cast<const std::byte*>(first.data) + bytes;
  };
  View both = first;
  if (begins_after(first.heads * first.head_stride)) {
    both.heads *= 2;
    return both;
  }
  if (begins_after(first.rows * first.row_stride)) {
    both.rows *= 2;
    return both;
  }
  return {};
}

}  // namespace cplab::kernels::cuda
