// See max_logit.hpp.
#include "algorithms/max_logit.hpp"

#include <limits>

namespace cplab {
namespace {

Lane compute(std::int64_t index) {
  return {LaneKind::compute, static_cast<std::uint8_t>(index)};
}

}  // namespace

MaxLogit::MaxLogit(Builder& b, std::int64_t lanes) : b_(b), lanes_(lanes) {
  const Problem& p = b.problem();
  if (!p.max_logit) return;
  output_ = b.buffer({"max_logit", Role::wide, Category::output, 1, 1, p.heads});
  if (lanes > 1)
    others_ = b.buffer({"max_logit_lanes", Role::wide, Category::working, 1, lanes - 1, p.heads});
  for (std::int64_t i = 0; i < lanes; ++i)
    b.fill(compute(i), of_lane(i), -std::numeric_limits<double>::infinity());
}

Box MaxLogit::of_lane(std::int64_t index) const {
  return index == 0 ? output_ : others_.rows_at(index - 1, 1);
}

Box MaxLogit::heads(Lane lane, std::int64_t begin, std::int64_t end) const {
  return output_.absent() ? Box{} : of_lane(lane.index).heads(begin, end);
}

void MaxLogit::finish(Lane lane, Transport transport, const Team& team) {
  if (output_.absent()) return;
  for (std::int64_t i = 1; i < lanes_; ++i) b_.maximum(compute(0), of_lane(i), output_);
  if (team.size() > 1) b_.all_reduce(lane, transport, team, Reduction::max, output_, output_);
}

}  // namespace cplab
