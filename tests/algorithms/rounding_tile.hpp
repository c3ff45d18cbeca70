// Plans whose backward tiles round gradients, and mistakes in one rank whose last operation is such a tile.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "algorithms/core/build.hpp"
#include "derive/edges.hpp"
#include "derive/edits.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/scenarios/any_scenario.hpp"

namespace cplab::hand {

inline Plan plan_of(const std::string& algorithm, int ranks, DType dtype = DType::bf16) {
  Scenario s = testing::any_scenario(ranks, algorithm);
  s.problem.dtype = dtype;
  return build_plan(s);
}

// The plan with `change(rank, access)` made to each read, or write, of its last operation, which has
// `operand`.
template <class Change>
Plan with_changed(Plan plan, Operand operand, Span Operation::*side, Change change) {
  RankPlan& rank = plan.ranks[0];
  Operation& op = rank.operations.back();
  REQUIRE(rank.find(op, operand) != nullptr);
  const auto begin = rank.accesses.begin() + (op.*side).first;
  std::vector<Access> accesses(begin, begin + (op.*side).count);
  for (Access& access : accesses) change(rank, access);
  op.*side = add_accesses(rank, accesses);
  derive_edges(rank);
  return plan;
}
template <class Change>
Plan with_changed_writes(const Plan& plan, Operand operand, Change change) {
  return with_changed(plan, operand, &Operation::writes, change);
}

// The plan with a cast behind that operation, which reads the sum once more.
inline Plan with_cast_behind(Plan plan, Operand sum, Operand rounded) {
  RankPlan& rank = plan.ranks[0];
  const Operation tile = rank.operations.back();
  REQUIRE(rank.find(tile, rounded) != nullptr);
  Operation cast;
  cast.kind = OpKind::cast;
  cast.phase = tile.phase;
  cast.lane = tile.lane;
  Access from = *rank.find(tile, sum), into = *rank.find(tile, rounded);
  from.operand = Operand::from, into.operand = Operand::into;
  cast.reads = add_accesses(rank, {from});
  cast.writes = add_accesses(rank, {into});
  insert_operation(rank, rank.operations.size(), cast);
  derive_edges(rank);
  return plan;
}

// What the checker says of a tile whose rounded gradient is added to, takes the place of its sum, or has half
// of the heads.
inline void check_malformed(const Plan& plan, Operand sum, Operand rounded, const std::string& added,
                            const std::string& half) {
  require_message(with_changed_writes(plan, rounded,
                                      [&](RankPlan&, Access& a) {
                                        if (a.operand == rounded) a.mode = WriteMode::add;
                                      }),
                  added);
  require_message(with_changed_writes(plan, rounded,
                                      [&](RankPlan& rank, Access& a) {
                                        if (a.operand == sum)
                                          a.view = rank.find(rank.operations.back(), rounded)->view;
                                      }),
                  "has an operand of the wrong dtype role");
  require_message(with_changed_writes(plan, rounded,
                                      [&](RankPlan& rank, Access& a) {
                                        if (a.operand != rounded) return;
                                        View of_half = rank.views[a.view];
                                        of_half.head_end = of_half.head_begin + 1;
                                        a.view = add_view(rank, of_half);
                                      }),
                  half);
}

}  // namespace cplab::hand
