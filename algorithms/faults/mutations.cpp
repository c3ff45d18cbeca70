// What mutations find their place with; see mutations.hpp.
#include "algorithms/faults/mutations.hpp"

#include <algorithm>
#include <string>

#include "algorithms/core/placement.hpp"

namespace cplab::mutations {

void no_place(std::string_view fault, std::string_view needs) {
  throw ScenarioError("parallel", "fault " + std::string(fault) + " has no place in this plan; it needs " +
                                      std::string(needs));
}

RankPlan& rank_at(Plan& plan, std::size_t rank, std::string_view fault) {
  if (plan.ranks.size() <= rank) no_place(fault, "at least " + std::to_string(rank + 1) + " ranks");
  return plan.ranks[rank];
}

bool brings(const RankPlan& rank, const Operation& op, std::uint32_t buffer) {
  return std::ranges::any_of(rank.writes(op),
                             [&](const Access& a) { return rank.views[a.view].buffer == buffer; }) ||
         std::ranges::any_of(rank.parts_of(op),
                             [&](const Part& p) { return !p.send && rank.views[p.view].buffer == buffer; });
}

bool takes(const RankPlan& rank, const Operation& op, std::uint32_t buffer) {
  return std::ranges::any_of(rank.reads(op),
                             [&](const Access& a) { return rank.views[a.view].buffer == buffer; }) ||
         std::ranges::any_of(rank.parts_of(op),
                             [&](const Part& p) { return p.send && rank.views[p.view].buffer == buffer; });
}

std::vector<SequenceRows> gathered_rows(const Scenario& s, const Placement& placement) {
  std::vector<SequenceRows> sequences;
  for (const TokenRun& run : placement.runs(0)) {
    if (sequences.empty() || sequences.back().sequence != run.sequence) {
      const std::int64_t begin = sequences.empty() ? 0 : sequences.back().end;
      sequences.push_back(
          {run.sequence, begin, begin, s.problem.lengths[static_cast<std::size_t>(run.sequence)]});
    }
    sequences.back().end += run.rows * s.parallel.ranks;
  }
  if (sequences.empty()) sequences.emplace_back();  // of no sequence
  return sequences;
}

void append_rows(std::vector<RowRange>& rows, const RowRange& next) {
  if (next.count == 0) return;
  const bool joins = !rows.empty() && rows.back().step == 1 && next.step == 1 &&
                     rows.back().begin + rows.back().count == next.begin;
  if (joins)
    rows.back().count += next.count;
  else
    rows.push_back(next);
}

bool set_rows(RankPlan& rank, View& view, const std::vector<RowRange>& rows) {
  std::vector<RowRange> before;
  for (const RowRange& range : rank.rows_of(view)) append_rows(before, range);
  if (before == rows) return false;
  view.ranges = add_ranges(rank, rows);
  return true;
}

}  // namespace cplab::mutations
