// Which calls the kernels on tensor cores take. Plain host code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/families/head_sizes.hpp"
#include "kernels/kernels.hpp"
#include "kernels/linear.hpp"
#include "kernels/tiles/params.hpp"
#include "kernels/tiles/row_space.hpp"

namespace cplab::kernels::cuda {

// A condition of a kernel that a call does not meet.
struct Misfit {
  const char* view = "";       // "k"; empty: of the whole call
  const char* condition = "";  // "has rows in # runs": # stands for `number`
  std::int64_t number = 0;

  std::string text() const;  // "k has rows in 4 runs"
};
// The first condition that is not met, in words for people; nothing: the kernel takes the call. What
// fits_...() says is whether unmet_...() has nothing to say, so that a choice and its reason cannot disagree.
using Unmet = std::optional<Misfit>;

// What the mma kernels need of a call: q, k, v (and dout) of one 16-bit dtype and their widths, v and dout
// of value_width, in rows of whole 16-byte chunks; fp32 lse and delta; results in bf16, fp16 or fp32. The
// forward also needs a positive scale, because it takes row maxima of unscaled scores.
Unmet unmet_forward_mma(const Attend& call, DType dtype, std::int64_t width, std::int64_t value_width);
Unmet unmet_backward_mma(const AttendBackward& call, DType dtype, std::int64_t width,
                         std::int64_t value_width);

namespace hopper {

// Besides, whether q, k, v (and dout) can be read by TMA in the row spaces of the call. The kernels take
// heads that are_padded_to() their sizes.
Unmet unmet_forward_hopper(const Attend& call, DType dtype, const HeadSizes& sizes);
Unmet unmet_backward_deterministic_hopper(const AttendBackward& call, DType dtype, const HeadSizes& sizes);
inline bool fits_forward_hopper(const Attend& call, DType dtype, const HeadSizes& sizes) {
  return !unmet_forward_hopper(call, dtype, sizes);
}
inline bool fits_backward_deterministic_hopper(const AttendBackward& call, DType dtype,
                                               const HeadSizes& sizes) {
  return !unmet_backward_deterministic_hopper(call, dtype, sizes);
}

// Whether TMA can store out, and load it if it is merged: in the dtype of q. If out has a map, the first row
// of a box goes through it.
bool writes_out_by_tma(const AttendParams& call);

// The fused kernel, which adds to dq by TMA or by vector atomics, also needs dq in fp32, at multiples of 16
// bytes.
Unmet unmet_backward_fused_hopper(const AttendBackward& call, DType dtype, std::int64_t width);
inline bool fits_backward_fused_hopper(const AttendBackward& call, DType dtype, std::int64_t width) {
  return !unmet_backward_fused_hopper(call, dtype, width);
}

// The fused kernel by chains stores dq and then adds to it, by TMA, and rounds it itself.
Unmet unmet_backward_chains_hopper(const AttendBackward& call, DType dtype, std::int64_t width);
inline bool fits_backward_chains_hopper(const AttendBackward& call, DType dtype, std::int64_t width) {
  return !unmet_backward_chains_hopper(call, dtype, width);
}

// Whether TMA can load lse and delta, whose heads lie side by side: rows at multiples of 16 bytes, four heads
// at a time. Whether it can add to dq; whether it can store dk and dv, or add to them.
bool loads_lse_delta_by_tma(const AttendBackwardParams& call);
bool adds_dq_by_tma(const AttendBackwardParams& call);
// Whether a block's dq may be added by TMA though it has rows without a gradient, or ends within its box: to
// the other rows -0 is added, which leaves normal numbers, 0 and infinity as they are. All rows are the
// call's then. And none is stored, because a stored box would overwrite rows of others.
bool adds_every_row(const AttendBackwardParams& call);
// Whether tiles that take turns store the first piece of each cell of dq, which then need not be 0 before:
// only by TMA, so that one place decides for nearly all blocks.
bool stores_first_dq(const AttendBackwardParams& call);
// Whether dk and dv lie so that TMA can write them; consumers that store them 16 bytes at a time ask no more.
bool writes_dkv_by_tma(const AttendBackwardParams& call);
// Of the deterministic backward: whether TMA stores dq, in the dtype of q, or in fp32 at head size 128; dk
// and dv, in that of k.
bool stores_dq_tiles(const AttendBackwardParams& call);
bool stores_dkv_tiles(const AttendBackwardParams& call);

// Linear attention in bf16 or fp16 with states in fp32: every view that is read has a tensor map, the work is
// blocked, and there is no final_state.
Unmet unmet_linear_hopper(const LinearLocal& call, DType dtype, std::int64_t D, std::int64_t E);
Unmet unmet_linear_hopper(const LinearLocalBackward& call, DType dtype, std::int64_t D, std::int64_t E);
Unmet unmet_linear_hopper(const LinearState& call, DType dtype, std::int64_t D, std::int64_t E);

// Whether the query heads of a key head go to different thread blocks, each of which adds its part to dk and
// dv: then fewer rows of q and dq are in use at once and stay in the L2 cache, and there are more tiles.
// Adding wants dk and dv zeroed first where the call stores them, and so do keys that are in no tile with a
// segment.
bool splits_query_heads(const AttendBackwardParams& call);
bool needs_zeroed_dkv(const AttendBackwardParams& call);

// The scale for exp2, which kernels use instead of exp.
float scale_log2(double scale);

}  // namespace hopper
}  // namespace cplab::kernels::cuda
