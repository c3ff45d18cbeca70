// Stride patterns and the rules for their options.
#include "algorithms/softmax/strides.hpp"

#include <string>
#include <string_view>

#include "algorithms/core/options.hpp"
#include "algorithms/softmax/softmax.hpp"

namespace cplab {

std::vector<HeadRange> stride_pattern(std::int64_t kv_heads, std::int64_t stride, std::int64_t first,
                                      std::int64_t last) {
  std::vector<HeadRange> pattern;
  const auto cut = [&](std::int64_t at, std::int64_t part) {
    pattern.push_back({at, at + part});
    pattern.push_back({at + part, at + stride});
  };
  for (std::int64_t at = 0; at < kv_heads; at += stride) {
    if (at == 0 && first > 0)
      cut(at, first);
    else if (at + stride == kv_heads && last > 0)
      cut(at, stride - last);
    else
      pattern.push_back({at, at + stride});
  }
  return pattern;
}

std::vector<OptionInfo> stride_options() {
  return {
      least_option("head_stride", 1, 1, "key heads gathered at a time; divides kv_heads"),
      least_option("forward_first_stride", 0, 0,
                   "key heads of the forward's first gather, below head_stride; 0: no cut"),
      switch_option("pack_first_gather", true,
                    "the first gather of a cut stride takes K and V in one communication"),
      least_option("backward_first_stride", 0, 0, "key heads of the backward's first gather; 0: no cut"),
      least_option("backward_last_stride", 0, 0, "key heads of the last reduce-scatter; 0: no cut"),
      gradient_wire_option(),
      accumulator_option(),
      row_dot_option(),
      word_option(
          "staging", {"drain_first", "stage_first"},
          "before gradients are staged those before are drained (one staging buffer), or after (two)"),
      word_option("buffers", {"per_width", "slab"},
                  "a buffer for every width of a stride, or one memory for all"),
      pack_above_option(),
  };
}

void require_strides(const Scenario& s) {
  require_softmax(s);
  const std::int64_t G = s.problem.kv_heads, h = s.schedule.count("head_stride");
  if (G % h != 0)
    throw ScenarioError("schedule.head_stride", std::to_string(h) + " does not divide kv_heads (" +
                                                    std::to_string(G) + "); legal: its divisors");
  for (const std::string_view key :
       {"forward_first_stride", "backward_first_stride", "backward_last_stride"}) {
    const std::int64_t part = s.schedule.count(key);
    if (part == 0 || part < h) continue;
    throw ScenarioError("schedule." + std::string(key),
                        std::to_string(part) + " is not smaller than head_stride (" + std::to_string(h) +
                            "); legal: " + (h == 1 ? "0" : "0 for none, or 1 to " + std::to_string(h - 1)));
  }
  if (h == G && s.schedule.count("backward_first_stride") > 0 && s.schedule.count("backward_last_stride") > 0)
    throw ScenarioError(
        "schedule.backward_last_stride",
        "head_stride is all of kv_heads (" + std::to_string(G) +
            "), so that there is one stride, which backward_first_stride cuts already; legal: 0, "
            "or a head_stride of at most " +
            std::to_string(G / 2));
}

}  // namespace cplab
