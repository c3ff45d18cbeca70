// Bias and keep mask in the general kernels: lane by lane, of any dtype and form.
#pragma once

#include <cstdint>

#include "kernels/cuda/general/tile.cuh"
#include "kernels/cuda/masked/pair_mask.cuh"

namespace cplab::kernels::cuda {

// Whether a pair of the rows of a tile, which lie in one cell, and of the columns [begin, end), which lie in
// two at most, may be kept. The same on all threads.
__device__ inline bool may_be_kept(const CellBits& bits, int head, int row, int begin, int end) {
  if (bits.words == nullptr) return true;
  const std::uint32_t* const words =
      bits.words + (static_cast<std::int64_t>(head) * bits.rows + row / cell_rows) * bits.row_words;
  const auto kept = [&](int cell) {
    return (words[cell / cells_per_word] >> (cell % cells_per_word) & 1U) != 0;
  };
  return kept(begin / cell_rows) || kept((end - 1) / cell_rows);
}

// Of one query head: which pairs are kept, and from scale q.k to x.
template <class T>
struct HeadMask {
  const DevicePairMask& mask;
  int bias_head = 0, keep_head = 0;

  __device__ HeadMask(const DevicePairMask& of, int head, int q_heads) : mask(of) {
    if (of.bias.data != nullptr) bias_head = mask_head(of.bias, head, q_heads);
    if (of.keep.data != nullptr) keep_head = mask_head(of.keep, head, q_heads);
  }

  __device__ bool keeps(int query, int key) const {
    return mask.keep.data == nullptr ||
           load_element_as<T>(mask.keep.data, mask.keep.dtype,
                              pair_offset(mask, mask.keep, keep_head, query, key)) != T(0);
  }
  // `slope` becomes dx/dz.
  __device__ T logit(T score, int query, int key, T& slope) const {
    slope = T(1);
    if (mask.bias.data != nullptr)
      score += load_element_as<T>(mask.bias.data, mask.bias.dtype,
                                  pair_offset(mask, mask.bias, bias_head, query, key));
    if (mask.softcap == 0) return score;
    const T cap = static_cast<T>(mask.softcap);
    const T t = tanh(score / cap);
    slope = T(1) - t * t;
    return cap * t;
  }
};

}  // namespace cplab::kernels::cuda
