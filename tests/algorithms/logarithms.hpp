// Whole logarithms, as formulas of scans over ranks have them.
#pragma once

#include <bit>

namespace cplab::testing {

inline int floor_log2(int n) {  // of n >= 1
  return std::bit_width(static_cast<unsigned>(n)) - 1;
}
inline int ceil_log2(int n) {  // 0 for n < 1
  return n <= 1 ? 0 : floor_log2(n - 1) + 1;
}

}  // namespace cplab::testing
