// Calls that no kernel on tensor cores takes whatever their strides, because of a head size or dtype.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "kernels/work/general_time.hpp"
#include "kernels/work/variants.hpp"

namespace cplab::kernels::cuda {

// "has head size 256", "has head sizes 192 and 128", "takes fp32": what no kernel on tensor cores does of a
// call.
std::string missing_size(const View& q, const View& v);
HeadSizes head_sizes(const View& q, const View& v);
// "64, 96, 192/128": in ascending order, each once.
std::string sizes_text(std::vector<HeadSizes> sizes);

// Of a call that a general kernel takes, with the variants on tensor cores for its dtype, or for bf16.
// Nothing without any.
template <class Variant>
std::optional<FallBack> without_tensor_cores(bool forward, const std::vector<const Variant*>& fast,
                                             const View& q, const View& v) {
  if (fast.empty()) return {};
  std::vector<HeadSizes> sizes;
  for (const Variant* variant : fast) sizes.push_back(sizes_of(*variant));
  const auto of_128 = std::find_if(fast.begin(), fast.end(), [](const Variant* variant) {
    return sizes_of(*variant) == HeadSizes{128, 128};
  });
  const Variant& preferred = of_128 == fast.end() ? *fast.front() : **of_128;
  return FallBack{.preferred = preferred.name,
                  .missing = missing_size(q, v),
                  .sizes = sizes_text(sizes),
                  .times_slower = general_flop_us(forward, head_sizes(q, v), q.dtype) / flop_us(preferred)};
}

}  // namespace cplab::kernels::cuda
