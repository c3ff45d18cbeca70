// See attention_traffic.hpp.
#include "sim/attention_traffic.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plan/live_pairs.hpp"

namespace cplab {
namespace {

// Rows that are in some visible pair.
double rows_named(std::span<const Segment> segments, std::int64_t Segment::*begin,
                  std::int64_t Segment::*count) {
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;
  for (const Segment& segment : segments) {
    const Segment live = live_part(segment);
    runs.emplace_back(live.*begin, live.*begin + live.*count);
  }
  std::sort(runs.begin(), runs.end());
  std::int64_t rows = 0, end = 0;
  for (const auto& [first, last] : runs) {
    rows += std::max<std::int64_t>(0, last - std::max(first, end));
    end = std::max(end, last);
  }
  return static_cast<double>(rows);
}

}  // namespace

double attention_bytes(const Plan& plan, const RankPlan& rank, const Operation& op, const Moves& moves,
                       bool out_of_backward) {
  const auto heads = [&](Operand operand) {
    const View& view = rank.view_of(op, operand);
    return static_cast<double>(view.head_end - view.head_begin);
  };
  const auto width = [&](Operand operand) {
    const View& view = rank.view_of(op, operand);
    return static_cast<double>(view.width_end - view.width_begin);
  };
  const bool forward = op.kind == OpKind::attend;
  const double D = width(Operand::k), E = width(Operand::v), read = moves.read, written = moves.written;
  const double of_query =
      heads(Operand::q) *
      (forward ? read * D + written * E : read * (D + (out_of_backward ? 2 : 1) * E) + written * D);
  const double of_key = heads(Operand::k) * (D + E) * (forward ? read : read + written);
  return static_cast<double>(element_bytes(plan.scenario.problem.dtype)) *
         (rows_named(rank.segments_of(op), &Segment::q_begin, &Segment::q_count) * of_query +
          rows_named(rank.segments_of(op), &Segment::k_begin, &Segment::k_count) * of_key);
}

double attention_bytes(const Plan& plan, const RankPlan& rank, const Operation& op) {
  return attention_bytes(plan, rank, op, {}, false);
}

}  // namespace cplab
