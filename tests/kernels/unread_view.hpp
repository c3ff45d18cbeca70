// Views for what depends on shapes alone: nothing is read through the pointer, which is on 16 bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/kernels.hpp"

namespace cplab::testing {

// [rows, heads, width] without gaps.
inline kernels::View unread_view(std::int64_t rows, std::int64_t heads, std::int64_t width,
                                 kernels::DType dtype) {
  alignas(16) static std::array<std::byte, 16> memory;
  return kernels::rows_first(memory.data(), dtype, rows, heads, width);
}

}  // namespace cplab::testing
