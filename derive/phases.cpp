// Operations of one phase and the edges between them; see phases.hpp.
#include "derive/phases.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace cplab {

namespace {

class OnePhase {
 public:
  OnePhase(RankPlan& rank, Phase phase) : rank_(rank), place_(rank.operations.size()) {
    for (std::uint32_t i = 0; i < rank.operations.size(); ++i) {
      if (rank.operations[i].phase != phase) continue;
      kept_.push_back(rank.operations[i]);
      place_[i] = static_cast<std::uint32_t>(kept_.size());
    }
  }

  void keep() {
    for (Operation& op : kept_) {
      op.after = edges_of(op.after);
      op.after_started = edges_of(op.after_started);
    }
    rank_.operations = std::move(kept_);
    rank_.edges = std::move(edges_);
  }

 private:
  Span edges_of(Span old) {
    Span span{static_cast<std::uint32_t>(edges_.size()), 0};
    for (const std::uint32_t edge : RankPlan::slice(rank_.edges, old))
      if (place_[edge] > 0) edges_.push_back(place_[edge] - 1);
    span.count = static_cast<std::uint32_t>(edges_.size()) - span.first;
    return span;
  }

  RankPlan& rank_;
  std::vector<std::uint32_t> place_;  // by operation, 1 + its place among those that are kept; 0: it is not
  std::vector<Operation> kept_;
  std::vector<std::uint32_t> edges_;
};

}  // namespace

Plan phase_alone(const Plan& plan, Phase phase) {
  for (const RankPlan& rank : plan.ranks) {
    const auto in_forward = [](const Operation& op) { return op.phase == Phase::forward; };
    const auto forward = std::count_if(rank.operations.begin(), rank.operations.end(), in_forward);
    const bool both = forward > 0 && forward < std::ssize(rank.operations);
    if (rank.between_layers || !both) continue;
    throw std::invalid_argument(
        "the plan holds buffers from forward to backward that nobody saves; "
        "schedule.between=\"layers\" saves them");
  }
  Plan alone = plan;
  for (RankPlan& rank : alone.ranks) OnePhase(rank, phase).keep();
  return alone;
}

}  // namespace cplab
