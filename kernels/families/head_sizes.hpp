// Sizes of the heads of keys and of values, which may differ.
#pragma once

#include <array>
#include <cstddef>

#include "kernels/kernels.hpp"

namespace cplab::kernels::cuda {

struct HeadSizes {
  int key = 0, value = 0;
  constexpr bool operator==(const HeadSizes&) const = default;
};

// Of the numbers that kernels/CMakeLists.txt defines: sizes of keys and of values by turns.
template <int... numbers>
consteval auto head_pairs() {
  constexpr int flat[] = {numbers...};
  std::array<HeadSizes, sizeof...(numbers) / 2> pairs;
  for (std::size_t n = 0; n < pairs.size(); ++n) pairs[n] = {flat[2 * n], flat[2 * n + 1]};
  return pairs;
}

inline HeadSizes head_sizes(const View& q, const View& v) {
  return {static_cast<int>(q.width), static_cast<int>(v.width)};
}

// What kernels are made for that pad keys and values with zeros. Those of Hopper do; its backward has the
// first two.
inline constexpr HeadSizes padded_sizes[] = {{64, 64}, {128, 128}, {192, 128}, {256, 256}};

// The sizes to which heads are padded: of the smallest kernel that has room for both keys and values, if
// their rows are whole 16-byte chunks. Else their own.
constexpr HeadSizes padded(const HeadSizes& heads) {
  if (heads.key <= 0 || heads.value <= 0 || heads.key % 8 != 0 || heads.value % 8 != 0) return heads;
  for (const HeadSizes& sizes : padded_sizes)
    if (heads.key <= sizes.key && heads.value <= sizes.value) return sizes;
  return heads;
}
constexpr bool are_padded_to(const HeadSizes& kernel, const HeadSizes& heads) {
  return padded(heads) == kernel;
}

// FLOPs of a live pair and query head: both products of the forward, all five of the backward.
constexpr double forward_flops(const HeadSizes& sizes) {
  return 2.0 * (sizes.key + sizes.value);
}
constexpr double backward_flops(const HeadSizes& sizes) {
  return 2.0 * (3 * sizes.key + 2 * sizes.value);
}

}  // namespace cplab::kernels::cuda
