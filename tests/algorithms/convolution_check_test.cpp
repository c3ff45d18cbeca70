// The checker on convolutions before Q, K and V: plans of every linear algorithm, what their halos send, and
// single mistakes in them.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/core/resolve.hpp"
#include "derive/edges.hpp"
#include "derive/edits.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/scenarios/any_scenario.hpp"

using namespace cplab;
using namespace cplab::hand;

namespace {

Scenario convolved(const std::string& algorithm, int P, std::int64_t W = 4,
                   const std::function<void(Scenario&)>& change = {}) {
  Scenario s = testing::any_scenario(P, algorithm);
  s.schedule = {}, s.placement = {};
  testing::take_attention(s.problem, Attention::linear);
  s.problem.convolution = W;
  if (change) change(s);
  return testing::resolve_with_heads(s);
}

std::vector<std::string> linear_names() {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms())
    if (testing::attention_of(std::string(algorithm.name)) == Attention::linear)
      names.emplace_back(algorithm.name);
  names.insert(names.end(), {"all_to_all", "hierarchical"});
  return names;
}

// The n-th operation of that kind of rank 1, changed; edges follow.
Plan changed(OpKind kind, const std::function<void(RankPlan&, std::size_t)>& by, bool reverse = false,
             int number = 0) {
  Plan plan = build_plan(convolved("lasp_blelloch", 4));
  RankPlan& rank = plan.ranks[1];
  for (std::size_t i = 0; i < rank.operations.size(); ++i)
    if (rank.operations[i].kind == kind && rank.operations[i].reverse == reverse && number-- == 0) {
      by(rank, i);
      derive_edges(rank);
      return plan;
    }
  FAIL("no such operation");
  return plan;
}

void change_chunks(RankPlan& rank, std::size_t i, const std::function<void(Chunk&)>& by) {
  std::vector<Chunk> list(rank.chunks_of(rank.operations[i]).begin(),
                          rank.chunks_of(rank.operations[i]).end());
  for (Chunk& c : list) by(c);
  rank.operations[i].chunks = add_chunks(rank, list);
}

// Reads another buffer's view of the same kind, `of` the operand of another operation.
void read_from(RankPlan& rank, std::size_t i, Operand operand, std::uint32_t view) {
  std::vector<Access> reads(rank.reads(rank.operations[i]).begin(), rank.reads(rank.operations[i]).end());
  for (Access& access : reads)
    if (access.operand == operand) access.view = view;
  rank.operations[i].reads = add_accesses(rank, reads);
}

}  // namespace

TEST_CASE("convolutions: every linear algorithm is right on any number of ranks") {
  for (const std::string& name : linear_names()) {
    CAPTURE(name);
    for (const int P : {1, 2, 3, 4, 5, 8}) {
      CAPTURE(P);
      for (const std::int64_t W : {2, 4, 8}) {
        require_right(build_plan(convolved(name, P, W)));
        require_right(build_plan(
            convolved(name, P, W, [](Scenario& s) { s.schedule.set("between", std::string("layers")); })));
      }
    }
  }
}

TEST_CASE("convolutions: short sequences, ranks without a token, several documents in a stream") {
  for (const std::string& name : linear_names())
    for (const char* placement : {"contiguous", "stream"}) {
      if (name == "hierarchical" && std::string(placement) == "stream") continue;
      CAPTURE(name);
      CAPTURE(placement);
      for (const std::vector<std::int64_t>& lengths :
           {std::vector<std::int64_t>{3}, {1, 2, 1, 9}, {0, 17, 1, 1, 1, 1, 5}}) {
        require_right(build_plan(convolved(name, 8, 6, [&](Scenario& s) {
          s.problem.packed = true, s.problem.format = Format::thd;
          s.problem.batch = s.problem.sequence = 0;
          s.problem.lengths = s.problem.padded_lengths = lengths;
          s.placement = placement;
        })));
      }
    }
}

// Contiguous pieces: all ranks but the last send W - 1 rows of Q, K and V to the next in the forward; all but
// the first send as many of dQ, dK and dV to the one before.
TEST_CASE("convolutions: what is sent more than without them is W - 1 rows of each piece, both ways") {
  for (const std::int64_t W : {2, 4}) {
    const auto bytes = [&](std::int64_t convolution, Phase phase) {
      const Plan plan = build_plan(convolved("lasp_blelloch", 4, convolution));
      std::vector<std::int64_t> sent;
      for (const RankPlan& rank : plan.ranks) {
        sent.push_back(0);
        for (const Operation& op : rank.operations)
          if (op.kind == OpKind::exchange && op.phase == phase) sent.back() += op.bytes;
      }
      return sent;
    };
    const Scenario s = convolved("lasp_blelloch", 4, W);
    const Problem& p = s.problem;
    const std::int64_t row = p.heads * (2 * p.head_size + p.value_size) * element_bytes(p.dtype),
                       pieces = std::ssize(p.lengths);
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      const std::vector<std::int64_t> with = bytes(W, phase), without = bytes(0, phase);
      for (std::size_t r = 0; r < 4; ++r) {
        const bool last = phase == Phase::forward ? r == 3 : r == 0;
        CHECK(with[r] - without[r] == (last ? 0 : pieces * (W - 1) * row));
      }
    }
  }
}

TEST_CASE("convolutions: rows of neighbours that are missing, or others, are a finding") {
  require_message(changed(OpKind::convolve,
                          [](RankPlan& rank, std::size_t i) {
                            change_chunks(rank, i, [](Chunk& c) { c.left_exponent = 2, c.state += 1; });
                          }),
                  "with 2 of the 3 tokens before it");
  require_message(changed(
                      OpKind::convolve,
                      [](RankPlan& rank, std::size_t i) {
                        change_chunks(rank, i, [](Chunk& c) { c.right_exponent = 0; });
                      },
                      true),
                  "with 0 of the 3 tokens behind it");
  // The halo of another sequence.
  require_message(changed(OpKind::convolve,
                          [](RankPlan& rank, std::size_t i) {
                            change_chunks(rank, i, [](Chunk& c) { c.state = c.state == 0 ? 3 : 0; });
                          }),
                  "before the chunk of");
  // Nobody brings it.
  const auto remove = [](RankPlan& rank, std::size_t i) {
    const Operation& op = rank.operations[i];
    for (std::size_t n = i; n-- > 0;)
      if (rank.operations[n].kind == OpKind::exchange && rank.operations[n].phase == op.phase) {
        remove_operation(rank, n);
        return;
      }
  };
  require_anywhere(changed(OpKind::convolve, remove), FindingKind::unmatched);
}

TEST_CASE("convolutions: a convolution left out, or of other factors, is a finding") {
  const auto remove = [](RankPlan& rank, std::size_t i) { remove_operation(rank, i); };
  require_message(changed(OpKind::convolve, remove), "nobody has written");
  require_message(changed(OpKind::convolve, remove, true), "is never written");
  require_message(changed(OpKind::filter_gradient, remove), "nobody has written");
  // K's factors for Q.
  const auto other_filter = [](RankPlan& rank, std::size_t i) {
    for (std::size_t n = i + 1; n < rank.operations.size(); ++n)
      if (rank.operations[n].kind == OpKind::convolve)
        return read_from(rank, i, Operand::filter, rank.find(rank.operations[n], Operand::filter)->view);
  };
  require_message(changed(OpKind::convolve, other_filter), "where it needs k before its convolution");
  // Rows that are not convolved are no Q.
  require_message(changed(OpKind::local,
                          [](RankPlan& rank, std::size_t i) {
                            for (const Operation& op : rank.operations)
                              if (op.kind == OpKind::convolve)
                                return read_from(rank, i, Operand::q, rank.find(op, Operand::from)->view);
                          }),
                  "reads q before its convolution");
  require_message(changed(OpKind::convolve,
                          [](RankPlan& rank, std::size_t i) {
                            rank.operations[i].head_begin += 1, rank.operations[i].head_end += 1;
                          }),
                  "names heads that the problem does not have");
}

TEST_CASE("convolutions: factors' gradients lack what a rank leaves out, and count nothing twice") {
  require_message(changed(OpKind::filter_gradient,
                          [](RankPlan& rank, std::size_t i) {
                            change_chunks(rank, i, [](Chunk& c) { c.count -= 1, c.right_exponent = 3; });
                          }),
                  "behind the chunk of");
  Plan plan = build_plan(convolved("lasp_blelloch", 4));
  for (RankPlan& rank : plan.ranks)
    for (std::size_t i = rank.operations.size(); i-- > 0;)
      if (rank.operations[i].kind == OpKind::all_reduce) {
        remove_operation(rank, i);
        derive_edges(rank);
        break;
      }
  require_message(plan, "lacks contributions of the queries");
}

TEST_CASE("convolutions: what is not legal is refused with its key") {
  const auto refused = [](const char* key, const std::function<void(Scenario&)>& change) {
    CAPTURE(key);
    try {
      (void)convolved("lasp_blelloch", 2, 4, change);
      FAIL_CHECK("not refused");
    } catch (const ScenarioError& error) {
      CHECK(error.key == key);
    }
  };
  refused("problem.convolution", [](Scenario& s) { s.problem.convolution = 1; });
  refused("problem.convolution", [](Scenario& s) { s.problem.convolution = 9; });
  refused("problem.convolution", [](Scenario& s) { s.problem.convolution = -2; });
  refused("problem.convolution", [](Scenario& s) {
    s.algorithm = "ring", s.placement = {};
    testing::take_attention(s.problem, Attention::softmax);
    s.problem.convolution = 4;
  });
}
