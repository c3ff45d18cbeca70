// Bias and keep mask in the general kernels: lane by lane, of any dtype and form.
#pragma once

#include <cstdint>

#include "kernels/families/general/tile.cuh"
#include "kernels/families/masked/pair_mask.cuh"

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

// What dynamic mask attention does to a pair, of one query head: the members are those of NoMask, which says
// what each means (general/no_mask.cuh).
template <class T>
struct HeadMask {
  using Value = T;
  using Params = MaskedParams;
  using BackwardParams = MaskedBackwardParams;
  static constexpr bool changes_scores = true;
  static constexpr int dq_blocks = 3;

  const DevicePairMask& mask;
  int head = 0, bias_head = 0, keep_head = 0;

  static __host__ __device__ const AttendParams& call(const MaskedParams& params) { return params.tile; }
  static __host__ __device__ const AttendBackwardParams& call(const MaskedBackwardParams& params) {
    return params.tile;
  }

  template <class AnyParams>
  __device__ HeadMask(const AnyParams& params, int head_) : mask(params.mask), head(head_) {
    const int q_heads = params.tile.q.heads;
    if (mask.bias.data != nullptr) bias_head = mask_head(mask.bias, head, q_heads);
    if (mask.keep.data != nullptr) keep_head = mask_head(mask.keep, head, q_heads);
  }

  __device__ bool may_keep_keys(int query, int begin, int end) const {
    return may_be_kept(mask.by_q, keep_head, query, begin, end);
  }
  __device__ bool may_keep_queries(int key, int begin, int end) const {
    return may_be_kept(mask.by_k, keep_head, key, begin, end);
  }
  __device__ bool keeps(int query, int key) const {
    return mask.keep.data == nullptr ||
           load_element_as<T>(mask.keep.data, mask.keep.dtype,
                              pair_offset(mask, mask.keep, keep_head, query, key)) != T(0);
  }
  __device__ T logit(T score, int query, int key, T& slope) const {
    slope = T(1);
    if (mask.bias.data != nullptr)
      score += load_element_as<T>(mask.bias.data, mask.bias.dtype,
                                  pair_offset(mask, mask.bias, bias_head, query, key));
    if (mask.positions != nullptr) score += placed_bias<T>(mask, head, query, key);
    if (mask.softcap == 0) return score;
    const T cap = static_cast<T>(mask.softcap);
    const T t = tanh(score / cap);
    slope = T(1) - t * t;
    return cap * t;
  }
};

}  // namespace cplab::kernels::cuda
