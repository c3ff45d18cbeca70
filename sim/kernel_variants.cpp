// See kernel_variants.hpp.
#include "sim/kernel_variants.hpp"

#include <string>
#include <utility>

#include "report/interned.hpp"
#include "sim/attention_variant.hpp"
#include "sim/linear_work.hpp"

namespace cplab {

void name_kernel_variants(const Plan& plan, const Hardware& hardware, Timeline& timeline) {
  const DType nominal = plan.scenario.problem.dtype;
  const std::int64_t reserved = reserved_sms(plan.scenario.schedule, hardware.gpu.sms);
  AttentionVariants attention(hardware);
  timeline.variants.clear();
  timeline.fall_backs.clear();
  for (const RankPlan& rank : plan.ranks) {
    const CallConverter calls(rank, nominal, plan.scenario.problem.slopes);
    std::vector<std::string_view>& names = timeline.variants.emplace_back(rank.operations.size());
    std::vector<std::string_view>& reasons = timeline.fall_backs.emplace_back();
    for (std::size_t i = 0; i < rank.operations.size(); ++i) {
      const Operation& op = rank.operations[i];
      std::optional<kernels::cuda::FallBack> fall_back;
      if (has_square_points(op.kind)) {
        const AttentionVariant& variant = attention.of(calls, op, reserved);
        names[i] = variant.name;
        fall_back = variant.fall_back;
      } else if (is_linear(op.kind)) {
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
    const CallConverter calls(rank, plan.scenario.problem.dtype, plan.scenario.problem.slopes);
    for (const Operation& op : rank.operations)
      if (has_square_points(op.kind)) (void)attention.of(calls, op, reserved);
  }
} catch (const HardwareError&) {  // whoever predicts says so, in its turn
} catch (const ScenarioError&) {
}

}  // namespace cplab
