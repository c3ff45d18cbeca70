// Which kernels carried out the operations of a timeline, and which of them were not the preferred ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"
#include "report/timeline.hpp"

namespace cplab {

class JsonWriter;

// All operations of all ranks that one kernel carried out. The shares (0 to 1) are of the time and of the
// FLOPs of everything that computes, kernels that have no name here included.
struct VariantFigures {
  std::string_view variant;
  OpKind kind = OpKind::attend;
  std::int64_t operations = 0;
  double time_share = 0, flops_share = 0;
};
// Those with the most time first. Empty if the timeline names none.
std::vector<VariantFigures> variant_figures(const Plan&, const Timeline&);

// One sentence for every kind of operation and kernel that others fell back to: how many, which share of the
// FLOPs of their kind, and why; of several reasons the one with the most FLOPs, and how many more.
// "2 of 4 attend_backward (50 % of their FLOPs) take attend_backward mma bf16 128, not ...: k has rows in 4
// runs"
std::vector<std::string> fall_back_notes(const Plan&, const Timeline&);

// The member variants: [{variant, kind, operations, time_share, flops_share}].
void write_variants(JsonWriter&, const std::vector<VariantFigures>&);

}  // namespace cplab
