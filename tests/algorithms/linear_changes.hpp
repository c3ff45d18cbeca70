// Single mistakes in plans of linear attention that are right, for tests that say which finding must follow.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "check/check.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/algorithms/operation_changes.hpp"
#include "tests/hand_plans/linear_plans.hpp"

namespace cplab::hand {

inline constexpr auto both = Direction::forward_backward;

inline RankPlan& at(Plan& plan, int rank) {
  return plan.ranks[static_cast<std::size_t>(rank)];
}
inline Operation& nth(Plan& plan, int rank, OpKind kind, Phase phase, int n = 0) {
  for (Operation& op : at(plan, rank).operations)
    if (op.kind == kind && op.phase == phase && n-- == 0) return op;
  FAIL("the plan has no such operation");
  return at(plan, rank).operations.front();
}
inline Chunk& chunk(Plan& plan, int rank, const Operation& op, std::uint32_t i = 0) {
  return at(plan, rank).chunks[op.chunks.first + i];
}
inline Access& operand(Plan& plan, int rank, const Operation& op, Operand name) {
  for (const Span list : {op.reads, op.writes})
    for (std::uint32_t i = 0; i < list.count; ++i)
      if (Access& a = at(plan, rank).accesses[list.first + i]; a.operand == name) return a;
  FAIL("the operation has no such operand");
  return at(plan, rank).accesses.front();
}
// Of the operation's own view: others may share the rows.
inline RowRange& rows(Plan& plan, int rank, const Operation& op, Operand name) {
  RankPlan& r = at(plan, rank);
  return r.row_ranges[r.views[operand(plan, rank, op, name).view].ranges.first];
}

// A finding of that rank, operation (its kind in the plan, or none) and kind, whose message has `words`.
inline void require_words(const Plan& plan, int rank, const std::string& operation, const std::string& words,
                          FindingKind kind = FindingKind::coverage) {
  const CheckResult result = check(plan);
  INFO("expected rank " << rank << " " << operation << " \"" << words << "\", found:\n" << text(result));
  CHECK(std::ranges::any_of(result.findings, [&](const Finding& f) {
    return f.kind == kind && f.rank == rank && f.operation == operation &&
           f.message.find(words) != std::string::npos;
  }));
}

using Change = std::function<std::string(Plan&)>;  // returns the operation's id
inline void require_change(Plan plan, int rank, const Change& change, const std::string& words,
                           FindingKind kind = FindingKind::coverage) {
  require_right(plan);
  const std::string operation = change(plan);
  require_words(plan, rank, operation, words, kind);
}
inline std::string id(Plan& plan, int rank, const Operation& op) {
  return operation_id(at(plan, rank), op);
}

}  // namespace cplab::hand
