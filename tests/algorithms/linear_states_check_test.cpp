// The checker on linear attention with a wrong exponent, direction or token twice: each single mistake is
// found with its rank and operation, and the finding says what would be right.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/algorithms/linear_changes.hpp"

using namespace cplab;
using namespace cplab::hand;

TEST_CASE("check: exponents of states") {
  const Plan plan = chunked(3, {12}, both, "contiguous", 2);  // chunks of tokens 0, 1 | 2, 3 | 4, 5 | ...
  for (const std::int64_t by : {-1, 1, 4}) {
    require_change(
        plan, 1,
        [&](Plan& p) {
          Operation& op = nth(p, 1, OpKind::combine, Phase::forward);
          chunk(p, 1, op).count += by;
          return id(p, 1, op);
        },
        "passes the state of tokens 0..3 of sequence 0 on by " + std::to_string(4 + by) +
            " tokens and adds it to that of tokens 4..7 of sequence 0; exponent 4 would be right");
    if (by < 0) continue;
    require_change(
        plan, 2,
        [&](Plan& p) {
          Operation& op = nth(p, 2, OpKind::local, Phase::forward);
          chunk(p, 2, op, 1).left_exponent += by;
          return id(p, 2, op);
        },
        "with exponent " + std::to_string(2 + by) + "; 2 would be right");
    require_change(
        plan, 0,
        [&](Plan& p) {
          Operation& op = nth(p, 0, OpKind::local_backward, Phase::backward);
          chunk(p, 0, op, 0).right_exponent += by;
          return id(p, 0, op);
        },
        "with exponent " + std::to_string(2 + by) + "; 2 would be right");
    require_change(
        plan, 1,
        [&](Plan& p) {
          Operation& op = nth(p, 1, OpKind::scan, Phase::forward);
          chunk(p, 1, op, 0).right_exponent += by;
          return id(p, 1, op);
        },
        "but they lie before token 8 and before token " + std::to_string(8 + by));
    require_change(
        plan, 1,
        [&](Plan& p) {
          Operation& op = nth(p, 1, OpKind::scan, Phase::backward);
          chunk(p, 1, op, 1).count += by;
          chunk(p, 1, op, 0).count += by;
          return id(p, 1, op);
        },
        "passes the state of tokens 6..7 of sequence 0 on by " + std::to_string(2 + by) +
            " tokens and adds it to that of tokens 4..5 of sequence 0; exponent 2 would be right");
  }
}

TEST_CASE("check: states of the wrong direction, and swapped ones") {
  const Plan plan = chunked(3, {12}, both, "contiguous", 2);
  const std::vector<std::pair<Operand, Operand>> swaps{{Operand::carry, Operand::dcarry},
                                                       {Operand::state, Operand::dstate},
                                                       {Operand::carry, Operand::dstate}};
  for (const auto& [a, b] : swaps) {
    const bool edges_differ = a == Operand::carry && b == Operand::dstate;  // not as many states in them
    require_change(
        plan, 1,
        [&, x = a, y = b](Plan& p) {
          Operation& op = nth(p, 1, OpKind::local_backward, Phase::backward);
          std::swap(operand(p, 1, op, x).view, operand(p, 1, op, y).view);
          return id(p, 1, op);
        },
        edges_differ ? "a chunk whose state is not in its views" : "where it needs a state of keys");
  }
  require_change(
      plan, 1,
      [](Plan& p) {
        Operation& op = nth(p, 1, OpKind::combine, Phase::backward);
        op.reverse = false;
        return id(p, 1, op);
      },
      "reads a state of queries in dcarry rows 0..3 where it needs a state of keys");
  require_change(
      plan, 1,
      [](Plan& p) {
        Operation& op = nth(p, 1, OpKind::scan, Phase::backward);
        op.reverse = false;
        return id(p, 1, op);
      },
      "wrong direction");
}

TEST_CASE("check: tokens that count twice") {
  // The rank's own chunk comes with what enters: an inclusive prefix.
  const Plan whole = chunked(3, {12}, both, "contiguous", 100);
  require_change(
      whole, 1,
      [](Plan& p) {
        Operation& op = nth(p, 1, OpKind::local, Phase::forward);
        const Operation& combine = nth(p, 1, OpKind::combine, Phase::forward);
        operand(p, 1, op, Operand::carry).view = operand(p, 1, combine, Operand::into).view;
        return id(p, 1, op);
      },
      "the state of tokens 0..7 of sequence 0, which lies before token 8");
  const auto repeat = [](Plan& p, int rank, const Operation& op) -> Operation& {
    RankPlan& r = at(p, rank);
    Operation again = op;
    again.ordinal = 100;
    again.after = {};
    again.writes = append(r.accesses, std::vector<Access>(r.writes(op).begin(), r.writes(op).end()));
    r.operations.push_back(again);
    return r.operations.back();
  };
  // The same state once more.
  const Plan plan = chunked(4, {16}, both, "contiguous", 2);
  require_change(
      plan, 2, [&](Plan& p) { return id(p, 2, repeat(p, 2, nth(p, 2, OpKind::combine, Phase::forward))); },
      "adds the state of tokens 0..7 of sequence 0 to that of tokens 0..11 of sequence 0: tokens count "
      "twice");
  // A local that adds to what is there already.
  require_change(
      whole, 0,
      [&](Plan& p) {
        const Operation& again = repeat(p, 0, nth(p, 0, OpKind::local, Phase::forward));
        operand(p, 0, again, Operand::out).mode = add;
        return id(p, 0, again);
      },
      "cover a pair twice");
}
