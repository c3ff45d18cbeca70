// See max_logit.hpp.
#include "algorithms/softmax/max_logit.hpp"

#include <limits>
#include <string>

namespace cplab {
namespace {

constexpr Lane first_lane{LaneKind::compute, 0};
constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

}  // namespace

MaxLogit::MaxLogit(Builder& b) : b_(b) {
  if (!b.problem().max_logit) return;
  output_ = b.buffer({"max_logit", Role::wide, Category::output, 1, 1, b.problem().heads});
  b.fill(first_lane, output_, minus_infinity);
}

Box MaxLogit::of(Lane lane) {
  if (!output_.given() || lane == first_lane) return output_;
  Box& row = others_[lane.index];
  if (!row.given()) {
    const std::string name = "max_logit_lane" + std::to_string(lane.index);
    row = b_.buffer({name, Role::wide, Category::working, 1, 1, b_.problem().heads});
    b_.fill(lane, row, minus_infinity);
  }
  return row;
}

void MaxLogit::finish(Lane lane, TransportChoice transport, const Team& team) {
  if (!output_.given()) return;
  for (const auto& [index, row] : others_) b_.maximum(first_lane, row, output_);
  if (team.size() > 1) b_.all_reduce(lane, transport, team, Reduction::max, output_, output_);
}

}  // namespace cplab
