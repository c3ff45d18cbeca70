// See kernel_variants.hpp.
#include "sim/kernel_variants.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "report/interned.hpp"
#include "sim/attention_variant.hpp"
#include "sim/linear_work.hpp"

namespace cplab {
namespace {

// "attend cuDNN", where attention of that kind and dtype is a library's; else nothing.
std::string_view library_name(const Plan& plan, const Hardware& hardware, OpKind kind) {
  const bool timed =
      std::any_of(hardware.kernels.begin(), hardware.kernels.end(), [&](const KernelTable& table) {
        return table.kind == kind && table.dtype == plan.scenario.problem.dtype;
      });
  if (!timed || plan.scenario.problem.changes_logits() || !takes_library(hardware, kind)) return {};
  const std::string& library = hardware.kernels_of;
  return interned(std::string(name(kind)) + " " + (library.empty() ? "some library" : library));
}

}  // namespace

void name_kernel_variants(const Plan& plan, const Hardware& hardware, Timeline& timeline) {
  const DType nominal = plan.scenario.problem.dtype;
  const std::int64_t reserved = reserved_sms(plan.scenario.schedule, hardware.gpu.sms);
  AttentionVariants attention(hardware);
  const std::string_view forward = library_name(plan, hardware, OpKind::attend),
                         backward = library_name(plan, hardware, OpKind::attend_backward);
  timeline.variants.clear();
  timeline.fall_backs.clear();
  for (const RankPlan& rank : plan.ranks) {
    const CallConverter calls(rank, nominal, ProblemNumbers(plan.scenario.problem));
    std::vector<std::string_view>& names = timeline.variants.emplace_back(rank.operations.size());
    std::vector<std::string_view>& reasons = timeline.fall_backs.emplace_back();
    for (std::size_t i = 0; i < rank.operations.size(); ++i) {
      const Operation& op = rank.operations[i];
      std::optional<kernels::cuda::FallBack> fall_back;
      if (const std::string_view library = op.kind == OpKind::attend ? forward : backward;
          has_square_points(op.kind) && !library.empty()) {
        names[i] = library;
      } else if (has_square_points(op.kind)) {
        const AttentionVariant& variant = attention.of(calls, op, reserved);
        names[i] = variant.name;
        fall_back = variant.fall_back;
      } else if (is_linear(op.kind) && !is_convolution(op.kind)) {
        const LinearWork work = linear_work(calls, op, nominal, hardware.gpu);
        names[i] = work.variant;
        fall_back = work.fall_back;
        if (nominal == DType::fp64 && !hardware.choice.full)
          if (std::string refused = linear_refusal(calls, op, hardware.gpu); !refused.empty()) {
            if (!fall_back) fall_back.emplace();
            fall_back->refused = std::move(refused);
          }
      }
      if (!fall_back) continue;
      reasons.resize(rank.operations.size());
      reasons[i] = interned(fall_back->text());
    }
  }
}

void find_kernel_variants(const Plan& plan, const Hardware& hardware) try {
  const std::int64_t reserved = reserved_sms(plan.scenario.schedule, hardware.gpu.sms);
  AttentionVariants attention(hardware, true);
  for (const RankPlan& rank : plan.ranks) {
    const CallConverter calls(rank, plan.scenario.problem.dtype, ProblemNumbers(plan.scenario.problem));
    for (const Operation& op : rank.operations)
      if (has_square_points(op.kind)) (void)attention.of(calls, op, reserved);
  }
} catch (const HardwareError&) {  // whoever predicts says so, in its turn
} catch (const ScenarioError&) {
}

}  // namespace cplab
