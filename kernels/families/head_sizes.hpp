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

// Whether a kernel of `head_size` that pads keys and values with zeros takes heads of these sizes: rows of
// 16-byte chunks, and no smaller one of the kernels that pad, for 64 and 128, has room for both.
constexpr bool are_padded_to(int head_size, const HeadSizes& sizes) {
  const int larger = sizes.key > sizes.value ? sizes.key : sizes.value;
  return sizes.key > 0 && sizes.value > 0 && sizes.key % 8 == 0 && sizes.value % 8 == 0 &&
         larger <= head_size && (larger > head_size / 2 || head_size == 64);
}

// FLOPs of a live pair and query head: both products of the forward, all five of the backward.
constexpr double forward_flops(const HeadSizes& sizes) {
  return 2.0 * (sizes.key + sizes.value);
}
constexpr double backward_flops(const HeadSizes& sizes) {
  return 2.0 * (3 * sizes.key + 2 * sizes.value);
}

}  // namespace cplab::kernels::cuda
