// Strides of key heads: how many are gathered at a time. Most strides are equal; the first and the last one
// of a pass may be cut in two (aqlaboratory/ring-flash-attention, llama_fwd_ring_bwd_flash_attn.py).
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/core/algorithm.hpp"
#include "algorithms/core/distribution.hpp"

namespace cplab {

// `stride` key heads at a time; the first stride in (first, stride - first), the last in (stride - last,
// last) where these are not 0.
std::vector<HeadRange> stride_pattern(std::int64_t kv_heads, std::int64_t stride, std::int64_t first,
                                      std::int64_t last);

// head_stride and the three smaller strides; how gathers and gradients of strides are buffered and sent.
std::vector<OptionInfo> stride_options();

// Throws ScenarioError for other attention than softmax, and for strides that such a pattern cannot have:
// head_stride must divide kv_heads, a first or last part must be smaller than it, and both need a stride each
// to cut.
void require_strides(const Scenario&);

}  // namespace cplab
