// See attention_bytes.hpp.
#include "sim/attention_bytes.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace cplab {
namespace {

// Rows that are in some segment.
double rows_named(std::span<const Segment> segments, std::int64_t Segment::*begin,
                  std::int64_t Segment::*count) {
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;
  for (const Segment& segment : segments) runs.emplace_back(segment.*begin, segment.*begin + segment.*count);
  std::sort(runs.begin(), runs.end());
  std::int64_t rows = 0, end = 0;
  for (const auto& [first, last] : runs) {
    rows += std::max<std::int64_t>(0, last - std::max(first, end));
    end = std::max(end, last);
  }
  return static_cast<double>(rows);
}

}  // namespace

double attention_bytes(const Plan& plan, const RankPlan& rank, const Operation& op) {
  const auto heads = [&](Operand operand) {
    const View& view = rank.view_of(op, operand);
    return static_cast<double>(view.head_end - view.head_begin);
  };
  const auto width = [&](Operand operand) {
    const View& view = rank.view_of(op, operand);
    return static_cast<double>(view.width_end - view.width_begin);
  };
  const bool forward = op.kind == OpKind::attend;
  const double D = width(Operand::k), E = width(Operand::v);
  const double of_query = heads(Operand::q) * (forward ? D + E : 2 * D + E),
               of_key = heads(Operand::k) * (forward ? D + E : 2 * (D + E));
  return static_cast<double>(element_bytes(plan.scenario.problem.dtype)) *
         (rows_named(rank.segments_of(op), &Segment::q_begin, &Segment::q_count) * of_query +
          rows_named(rank.segments_of(op), &Segment::k_begin, &Segment::k_count) * of_key);
}

}  // namespace cplab
