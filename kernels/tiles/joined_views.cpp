// See joined_views.hpp.
#include "kernels/tiles/joined_views.hpp"

#include <cstdint>

#include "kernels/call_checks.hpp"

namespace cplab::kernels::cuda {

std::optional<View> joined(const View& first, const View& second) {
  const bool alike = same_shape(first, second) && first.dtype == second.dtype &&
                     first.row_stride == second.row_stride && first.head_stride == second.head_stride &&
                     first.runs.empty() && second.runs.empty();
  if (!alike) return {};
  const auto begins_after = [&](std::int64_t elements) {
    const auto bytes = static_cast<std::uintptr_t>(elements) * bytes_of(first.dtype);
    return elements > 0 && reinterpret_cast<std::uintptr_t>(second.data) ==
                               reinterpret_cast<std::uintptr_t>(first.data) + bytes;
  };
  View both = first;
  constexpr std::int64_t most_heads = 65535, most_rows = std::int64_t{1} << 30;  // of a launch
  if (2 * first.heads <= most_heads && begins_after(first.heads * first.head_stride)) {
    both.heads *= 2;
    return both;
  }
  if (2 * first.rows < most_rows && begins_after(first.rows * first.row_stride)) {
    both.rows *= 2;
    return both;
  }
  return {};
}

}  // namespace cplab::kernels::cuda
