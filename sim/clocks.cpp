// See clocks.hpp.
#include "sim/clocks.hpp"

#include <algorithm>
#include <utility>

namespace cplab {
namespace {

struct Use {
  double attention_s = 0;  // time in which some attention runs
  std::int64_t head_size = 0;
};

bool is_attention(OpKind kind) {
  return kind == OpKind::attend || kind == OpKind::attend_backward;
}

Use use_of(const RankPlan& rank, const std::vector<OperationTime>& times) {
  Use use;
  std::vector<std::pair<double, double>> spans;
  for (std::size_t i = 0; i < rank.operations.size(); ++i) {
    const Operation& op = rank.operations[i];
    if (!is_attention(op.kind)) continue;
    spans.emplace_back(times[i].start_s, times[i].end_s);
    const View& keys = rank.view_of(op, Operand::k);
    use.head_size = std::max<std::int64_t>(use.head_size, keys.width_end - keys.width_begin);
  }
  std::sort(spans.begin(), spans.end());
  double end = 0;
  for (const auto& [from, to] : spans) {
    use.attention_s += std::max(0.0, to - std::max(from, end));
    end = std::max(end, to);
  }
  return use;
}

// The lift at which attention, faster by it, takes the share of the time that leaves it this lift. The share
// falls as the lift rises and the lift as the share rises, so there is one.
double lift_of(const BurstSpec& burst, const Use& use, double whole_s) {
  double low = 0, high = 1;
  for (int halvings = 0; halvings < 40; ++halvings) {
    const double lift = (low + high) / 2;
    const double attention_s = use.attention_s / attention_speed(burst, use.head_size, lift);
    const double share = attention_s / (attention_s + whole_s - use.attention_s);
    const double left = std::clamp((1 - share) / (1 - burst.share), 0.0, 1.0);
    (left > lift ? low : high) = lift;
  }
  return low;
}

}  // namespace

ClockLift highest_clock(std::size_t ranks) {
  return {std::vector<double>(ranks, 1)};
}

double attention_speed(const BurstSpec& burst, std::int64_t head_size, double lift) {
  constexpr std::int64_t small_head = 64;
  const double highest =
      head_size <= small_head ? std::min(burst.speed, burst.small_heads_speed) : burst.speed;
  return 1 + lift * (highest - 1);
}

ClockLift settled_lift(const Plan& plan, const Hardware& hardware, const Timeline& timeline) {
  const BurstSpec& burst = hardware.burst;
  if (burst.share <= 0) return {};
  ClockLift lift;
  double whole_s = 0, longest_s = 0, gain = 1;
  for (const auto& times : timeline.ranks)
    for (const OperationTime& time : times) whole_s = std::max(whole_s, time.end_s);
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const Use use = use_of(plan.ranks[r], timeline.ranks[r]);
    lift.by_rank.push_back(use.attention_s > 0 ? lift_of(burst, use, whole_s) : 0);
    if (use.attention_s <= longest_s) continue;
    longest_s = use.attention_s;
    gain = attention_speed(burst, use.head_size, lift.by_rank.back());
  }
  constexpr double worth = 1.0005;
  return gain < worth ? ClockLift() : lift;
}

}  // namespace cplab
