// The checker on linear attention with wrong resets, sequences, rows, transitions, or states that are not
// there: each single mistake is found with its rank and operation.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/algorithms/linear_changes.hpp"

using namespace cplab;
using namespace cplab::hand;

TEST_CASE("check: resets that are missing, and resets too many") {
  // Ranks of 5 rows: 0..4 | 5 6, 0 1 2 | 3..7 | ...; sequence 0 has 7 tokens, sequence 1 has 13.
  const Plan plan = chunked(4, {7, 13}, both, "stream", 2);
  require_change(
      plan, 1,
      [](Plan& p) {
        Operation& op = nth(p, 1, OpKind::combine, Phase::forward);
        CHECK(chunk(p, 1, op).resets);
        chunk(p, 1, op).resets = false;
        return id(p, 1, op);
      },
      "adds the state of tokens 0..4 of sequence 0 to that of tokens 0..2 of sequence 1");
  require_change(
      plan, 2,
      [](Plan& p) {
        Operation& op = nth(p, 2, OpKind::combine, Phase::forward);
        chunk(p, 2, op).resets = true;
        return id(p, 2, op);
      },
      "resets between the state of tokens 0..2 of sequence 1 and that of tokens 3..7 of sequence 1");
  require_change(
      plan, 1,
      [](Plan& p) {
        Operation& op = nth(p, 1, OpKind::scan, Phase::forward);
        CHECK(chunk(p, 1, op, 1).resets);
        chunk(p, 1, op, 1).resets = false;
        return id(p, 1, op);
      },
      "adds the state of tokens 5..6 of sequence 0 to that of tokens 0..1 of sequence 1");
  require_change(
      plan, 1,
      [](Plan& p) {
        Operation& op = nth(p, 1, OpKind::scan, Phase::backward);
        chunk(p, 1, op, 1).resets = false;
        return id(p, 1, op);
      },
      "adds the state of tokens 0..2 of sequence 1 to that of tokens 5..6 of sequence 0");
  require_change(
      plan, 2,
      [](Plan& p) {
        chunk(p, 2, nth(p, 2, OpKind::scan, Phase::forward), 1).resets = true;
        return std::string();
      },
      "lacks 4 live (query, key) pairs of the queries tokens 5..6 of sequence 1");
}

TEST_CASE("check: states of another sequence") {
  const Plan plan = chunked(3, {12, 9}, both, "contiguous", 2);
  require_change(
      plan, 2,
      [](Plan& p) {
        Operation& op = nth(p, 2, OpKind::local, Phase::forward);
        for (std::uint32_t i = 0; i < op.chunks.count; ++i) chunk(p, 2, op, i).left = 0;
        return id(p, 2, op);
      },
      "which is of another sequence");
  const Plan stream = chunked(3, {7, 5}, both, "stream", 100);  // rank 1: tokens 4..6, then 0 of the next
  require_change(
      stream, 1,
      [](Plan& p) {
        Operation& op = nth(p, 1, OpKind::local, Phase::forward);
        chunk(p, 1, op, 1).left = 0;
        return id(p, 1, op);
      },
      "the state of tokens 0..3 of sequence 0 for the chunk of token 0 of sequence 1");
  require_change(
      stream, 1,
      [](Plan& p) {  // one chunk over the border
        Operation& op = nth(p, 1, OpKind::state, Phase::forward);
        chunk(p, 1, op, 0).count = 4;
        chunk(p, 1, op, 1).count = 0;
        return id(p, 1, op);
      },
      "chunk across sequences");
}

TEST_CASE("check: states that nobody has written") {
  const Plan plan = chunked(3, {12}, both, "contiguous", 2);
  require_change(
      plan, 1,
      [](Plan& p) {
        silence(nth(p, 1, OpKind::state, Phase::forward));
        return id(p, 1, nth(p, 1, OpKind::scan, Phase::forward));
      },
      "which nobody has written", FindingKind::uninitialised);
  require_change(
      plan, 1,
      [](Plan& p) {  // what leaves is never computed, and sent all the same
        Operation& op = nth(p, 1, OpKind::scan, Phase::forward);
        op.writes.count = 1;
        return id(p, 1, nth(p, 1, OpKind::combine, Phase::forward));
      },
      "part of which nobody has written", FindingKind::uninitialised);
  require_change(
      plan, 1,
      [](Plan& p) {  // a state that no chunk of the list names
        Operation& op = nth(p, 1, OpKind::state, Phase::forward);
        op.chunks.count = 1;
        return id(p, 1, nth(p, 1, OpKind::scan, Phase::forward));
      },
      "state 1 of state", FindingKind::uninitialised);
}

TEST_CASE("check: D rows of states at other places") {
  const Plan plan = scanned(3, 12, Direction::forward, pipelined_slices(2));
  require_change(
      plan, 1,
      [](Plan& p) {  // the second slice comes first
        Operation* in[2] = {&nth(p, 1, OpKind::exchange, Phase::forward, 0),
                            &nth(p, 1, OpKind::exchange, Phase::forward, 2)};
        RankPlan& r = at(p, 1);
        std::swap(r.parts[in[0]->parts.first].view, r.parts[in[1]->parts.first].view);
        return id(p, 1, nth(p, 1, OpKind::local, Phase::forward));
      },
      "lie at other places");
  require_change(
      plan, 2,
      [](Plan& p) {  // the state enters as one and leaves in part
        Operation& op = nth(p, 1, OpKind::combine, Phase::forward, 1);
        silence(op);
        return id(p, 2, nth(p, 2, OpKind::local, Phase::forward));
      },
      "whose D rows are of different states");
}

TEST_CASE("check: what entered a rank is an output") {
  Plan plan = chunked(3, {12}, both, "contiguous", 100);
  for (Buffer& b : at(plan, 1).buffers)
    if (b.name == "carry") b.category = Category::working;
  require_words(plan, 1, "", "has no output carry", FindingKind::uninitialised);
  Plan other = chunked(3, {12}, Direction::forward, "contiguous", 100);
  for (Buffer& b : at(other, 2).buffers)
    if (b.name == "carry") b.name = "dcarry";
  require_words(other, 2, "", "dcarry is an output that the problem does not have", FindingKind::leak);
}

TEST_CASE("check: rows of chunks") {
  const Plan plan = chunked(2, {16}, both, "contiguous", 4);
  require_change(
      plan, 0,
      [](Plan& p) {
        Operation& op = nth(p, 0, OpKind::local, Phase::forward);
        chunk(p, 0, op, 0).row = 1;
        return id(p, 0, op);
      },
      "has two chunks that share a row");
  require_change(
      plan, 0,
      [](Plan& p) {  // a chunk without its last token, whose row is stored as zero
        chunk(p, 0, nth(p, 0, OpKind::local, Phase::forward), 1).count = 3;
        return std::string();
      },
      "lacks 8 live (query, key) pairs of the queries token 7 of sequence 0");
  require_change(
      plan, 1,
      [](Plan& p) {  // v of other tokens than k
        Operation& op = nth(p, 1, OpKind::state, Phase::forward);
        RankPlan& r = at(p, 1);
        View view = r.views[operand(p, 1, op, Operand::v).view];
        view.ranges = append(r.row_ranges, std::vector<RowRange>{{4, 4, 1}, {0, 4, 1}});
        r.views.push_back(view);
        operand(p, 1, op, Operand::v).view = static_cast<std::uint32_t>(r.views.size() - 1);
        return id(p, 1, op);
      },
      "reads v of tokens 12..15 of sequence 0 beside k of tokens 8..11 of sequence 0");
  require_change(
      plan, 1,
      [](Plan& p) {  // heads that the slopes are not of
        Operation& op = nth(p, 1, OpKind::state, Phase::forward);
        op.head_begin = 1, op.head_end = 3;
        return id(p, 1, op);
      },
      "names heads that the problem does not have");
}

TEST_CASE("check: transitions of other tokens, or none") {
  for (const Transition transition : {Transition::column, Transition::matrix}) {
    const Plan plan = affine(4, 16, transition);
    require_change(
        plan, 3,
        [](Plan& p) {
          Operation& op = nth(p, 3, OpKind::combine, Phase::forward);
          rows(p, 3, op, Operand::transition).begin += 4;
          return id(p, 3, op);
        },
        "passes the state of tokens 0..3 of sequence 0, which lies before token 4, through the transition of "
        "tokens 8..11");
    require_change(
        plan, 0,
        [](Plan& p) {
          Operation& op = nth(p, 0, OpKind::combine, Phase::backward);
          rows(p, 0, op, Operand::transition).begin -= 4;
          return id(p, 0, op);
        },
        "passes the state of tokens 12..15 of sequence 0, which lies before token 12, through the transition "
        "of tokens 4..7");
    require_change(
        plan, 3,
        [](Plan& p) {
          Operation& op = nth(p, 3, OpKind::combine, Phase::forward);
          at(p, 3).accesses[op.reads.first + 1] = at(p, 3).accesses[op.reads.first];
          op.reads.count = 1;
          return id(p, 3, op);
        },
        "decays by a slope, which this problem's transition does not have");
    require_change(
        plan, 2,
        [](Plan& p) {  // the backward is done as if the sequence began with rank 1
          Operation& op = nth(p, 2, OpKind::local_backward, Phase::backward);
          at(p, 2).chunks[op.chunks.first].left = -1;
          return id(p, 2, op);
        },
        "computes gradients of transitions of the chunk of tokens 8..11 of sequence 0 from the state of no "
        "tokens at its left edge, but needs that of tokens 0..7 of sequence 0");
    require_change(
        plan, 2,
        [](Plan& p) {  // log_decay is what makes the factors
          Operation& op = nth(p, 2, OpKind::local, Phase::forward);
          const Access carry = operand(p, 2, op, Operand::carry);
          operand(p, 2, op, Operand::log_decay) = carry;
          --op.reads.count;
          return id(p, 2, op);
        },
        transition == Transition::column ? "lacks the problem's log_decay" : "beta without log_decay");
  }
}
