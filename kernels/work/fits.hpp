// Which calls the attention kernels on tensor cores take. Plain host code.
#pragma once

#include <cstdint>

#include "kernels/kernels.hpp"
#include "kernels/work/params.hpp"

namespace cplab::kernels::cuda {

// What the portable ones (attend_mma.hpp) need of a call: q, k, v (and dout) of one 16-bit dtype and one
// width, in rows of whole 16-byte chunks; fp32 lse and delta; results in bf16, fp16 or fp32. The softmax
// kernel also needs a positive scale, because it looks for maxima before it scales.
bool fits_attend_mma(const Attend& call, DType dtype, std::int64_t width);
bool fits_attend_backward_mma(const AttendBackward& call, DType dtype, std::int64_t width);

namespace hopper {

// Whether a tensor map (tensor_map.cuh) can describe the view: 16 or 32 bits, a width of whole 64 columns,
// rows at one distance, and everything at multiples of 16 bytes.
bool has_tensor_map(const View& view);
bool has_tensor_map(const DeviceView& view);

bool fits_attend_hopper(const Attend& call, DType dtype, std::int64_t width);
bool fits_attend_backward_hopper(const AttendBackward& call, DType dtype, std::int64_t width);

// Whether the copy engine can write out: rows are stored, not merged, in the dtype of q.
bool stores_tiles(const AttendParams& call);

// The kernel that adds to dq by atomics also needs dq in fp32, at multiples of 16 bytes.
bool fits_attend_backward_fused(const AttendBackward& call, DType dtype, std::int64_t width);

// Whether the copy engine can add to dq; whether it can write dk and dv, or add to them.
bool reduces_tiles(const AttendBackwardParams& call);
bool writes_tiles(const AttendBackwardParams& call);

// Whether query heads that share a key head go to different thread blocks, each of which adds its part to dk
// and dv: one by one, queries and dq stay in the L2 cache, and there are more tiles. dk and dv must be 0
// before for a store; so they must be where some keys are in no tile that has a segment.
bool shares_keys(const AttendBackwardParams& call);
bool needs_zeroed_key_gradients(const AttendBackwardParams& call);

// For exp2 instead of exp.
float scale_log2(double scale);

// How many of the `heads` whose tiles are taken side by side: so many that the rows of both tensors they walk
// over (of `walked_heads` heads in all, each like a head of `walked`) stay in the L2 cache.
int heads_per_group(int heads, int walked_heads, const DeviceView& walked);

}  // namespace hopper
}  // namespace cplab::kernels::cuda
