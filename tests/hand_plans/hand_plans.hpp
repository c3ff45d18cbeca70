// What every plan written by hand begins with: spans in a rank's pools, and ranks in one group. Nothing here
// goes through the builder.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plan/operands.hpp"
#include "plan/plan.hpp"

namespace cplab::hand {

// Puts `items` at the end of a pool (RankPlan::views, parts, edges, ...); returns where they are in it.
template <class T>
Span append(std::vector<T>& pool, const std::vector<T>& items) {
  const Span span{static_cast<std::uint32_t>(pool.size()), static_cast<std::uint32_t>(items.size())};
  pool.insert(pool.end(), items.begin(), items.end());
  return span;
}

// Names the operands of all operations by their order (plan/operands.hpp).
inline void name_operands(RankPlan& plan) {
  for (const Operation& op : plan.operations)
    name_by_position(op.kind, std::span(plan.accesses).subspan(op.reads.first, op.reads.count),
                     std::span(plan.accesses).subspan(op.writes.first, op.writes.count));
}

// `ranks` empty ranks in one group of that name; the problem is the default one.
inline Plan ranks_in_one_group(int ranks, std::string group_name) {
  Plan plan;
  Group group{std::move(group_name), {}};
  for (int r = 0; r < ranks; ++r) {
    group.ranks.push_back(r);
    RankPlan rank;
    rank.rank = rank.position = r;
    plan.ranks.push_back(rank);
  }
  plan.scenario.parallel.ranks = ranks;
  plan.scenario.parallel.groups = {group.ranks};
  plan.groups = {group};
  return plan;
}

}  // namespace cplab::hand
