// Linear attention between two trades of heads for tokens: right for every transition and placement, with the
// bytes that a trade moves and no state on its way; what it refuses, and what the checker finds in it.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/core/resolve.hpp"
#include "check/check.hpp"
#include "tests/exec/linear_spec.hpp"

namespace cplab {
namespace {

struct Kind {
  Transition transition;
  Gate gate = Gate::column;
};
constexpr Kind kinds[] = {{Transition::decay},
                          {Transition::head},
                          {Transition::column},
                          {Transition::matrix},
                          {Transition::matrix, Gate::head}};

LinearScenarioSpec traded(const Kind& kind, std::int64_t ranks) {
  LinearScenarioSpec spec;
  spec.algorithm = "all_to_all";
  spec.transition = kind.transition;
  spec.gate = kind.gate;
  spec.ranks = ranks;
  spec.heads = 2 * ranks;
  return spec;
}

// What is legal, as the message says it; empty: nothing is refused.
std::string refusal(const LinearScenarioSpec& spec) {
  try {
    Scenario s = linear_scenario(spec);
    return {};
  } catch (const ScenarioError& error) {
    return error.key + ": " + error.what();
  }
}

std::int64_t count(const Plan& plan, OpKind kind) {
  std::int64_t n = 0;
  for (const RankPlan& rank : plan.ranks) n += std::ranges::count(rank.operations, kind, &Operation::kind);
  return n;
}

TEST_CASE("linear attention traded: every transition, placement and kind of lengths is within tolerance") {
  for (const Kind& kind : kinds) {
    for (const char* placement : {"contiguous", "zigzag", "stream"}) {
      LinearScenarioSpec spec = traded(kind, 3);
      spec.placement = placement;
      CAPTURE(name(kind.transition));
      CAPTURE(placement);
      CHECK(verify_linear(spec).findings.empty());
      spec.lengths = {23, 0, 1, 41};
      spec.padded_lengths = {25, 3, 1, 44};
      spec.options = {{"between", std::string("layers")}};
      spec.replicas = 2;
      CHECK(verify_linear(spec).findings.empty());
    }
  }
}

TEST_CASE("linear attention traded: every dtype, one rank and one head a rank") {
  for (const Kind& kind : kinds) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
      for (const std::int64_t ranks : {1, 4}) {
        LinearScenarioSpec spec = traded(kind, ranks);
        spec.heads = 4;
        spec.dtype = dtype;
        spec.placement = "zigzag";
        CAPTURE(name(kind.transition));
        CAPTURE(name(dtype));
        CAPTURE(ranks);
        (void)verify_linear(spec);
      }
    }
  }
}

TEST_CASE("linear attention traded: chunks of any size, chunk states kept or computed again") {
  for (const std::int64_t chunk : {1, 7, 16, 1000}) {
    for (const char* states : {"keep", "again"}) {
      LinearScenarioSpec spec = traded({Transition::decay}, 2);
      spec.options = {{"chunk", chunk}, {"backward_states", std::string(states)}};
      CAPTURE(chunk);
      CAPTURE(states);
      (void)verify_linear(spec);
    }
  }
}

// Of n rows and H heads a rank keeps what its own share of the heads has: (P - 1) / P of q, K, V and out go
// away, and back as gradients; beside them gates and strengths, in fp32, with one number a head or D.
TEST_CASE(
    "linear attention traded: a rank sends its rows of the others' heads, and gates as they are stored") {
  for (const Kind& kind : kinds) {
    for (const std::int64_t P : {1, 2, 4}) {
      LinearScenarioSpec spec = traded(kind, P);
      spec.dtype = DType::bf16;
      spec.sequence = 16 * P;
      CAPTURE(name(kind.transition));
      CAPTURE(P);
      const Plan plan = build_plan(linear_scenario(spec));
      const CheckResult result = check(plan);
      REQUIRE(result.ok());
      const double rows = 2 * 16, D = 8, E = 5;  // two sequences
      const double gates = kind.transition == Transition::decay                             ? 0
                           : kind.transition == Transition::head || kind.gate == Gate::head ? 1
                                                                                            : D;
      const double strengths = kind.transition == Transition::matrix ? 1 : 0;
      const double of_others =
          rows * static_cast<double>(spec.heads) * static_cast<double>(P - 1) / static_cast<double>(P);
      // Forward q, K, V, out; backward dout, dQ, dK, dV.
      const double bytes = of_others * (2 * 2 * (2 * D + 2 * E) + 2 * 4 * (gates + strengths));
      for (const std::int64_t sent : result.sent_bytes) CHECK(static_cast<double>(sent) == bytes);
      CHECK(result.rounds == (P == 1 ? 0 : 6));  // q; K, V and gates; out; dout; dQ; the rest
      for (const OpKind states : {OpKind::combine, OpKind::exchange}) CHECK(count(plan, states) == 0);
      for (const RankPlan& rank : plan.ranks)
        for (const Buffer& buffer : rank.buffers) CHECK(buffer.name != "carry");
    }
  }
}

LinearScenarioSpec two_level(const Kind& kind, std::int64_t ranks, std::int64_t inner) {
  LinearScenarioSpec spec = traded(kind, ranks);
  spec.algorithm = "hierarchical";
  spec.options = {{"inner_ranks", inner}};
  return spec;
}

TEST_CASE("linear attention on two levels: every split of the ranks is within tolerance") {
  for (const Kind& kind : kinds) {
    for (const std::int64_t inner : {1, 2, 3, 6}) {
      LinearScenarioSpec spec = two_level(kind, 6, inner);
      spec.sequence = 44;
      CAPTURE(name(kind.transition));
      CAPTURE(inner);
      (void)verify_linear(spec);
      spec.options.push_back({"between", std::string("layers")});
      spec.lengths = {23, 0, 1, 41};
      spec.padded_lengths = {25, 3, 1, 44};
      (void)verify_linear(spec);
    }
  }
}

// Of R teams across the inner ones a state goes from each to the next, in both directions; of an A-th of the
// heads, D x E numbers in fp32 for each sequence.
TEST_CASE("linear attention on two levels: trades inside, one state from team to team") {
  for (const Kind& kind : kinds) {
    LinearScenarioSpec spec = two_level(kind, 6, 2);
    spec.dtype = DType::bf16;
    spec.sequence = 24;
    CAPTURE(name(kind.transition));
    const Plan plan = build_plan(linear_scenario(spec));
    const CheckResult result = check(plan);
    REQUIRE(result.ok());
    double states = 0;
    for (const RankPlan& rank : plan.ranks)
      for (const Operation& op : rank.operations)
        for (const Part& part : rank.parts_of(op))
          if (op.kind == OpKind::exchange && part.send)
            states += static_cast<double>(view_bytes(rank, rank.views[part.view], DType::bf16));
    // 2 sequences, 6 of 12 heads, 2 hops each way, in each of the 2 teams across.
    CHECK(states == 2.0 * 6 * 8 * 5 * 4 * 2 * 2 * 2);
    CHECK(result.rounds == 2 * (2 + 2 + 1));  // q, then K and V; two hops; out. Gradients: dout, hops, two
  }
}

TEST_CASE("linear attention on two levels: what it cannot do is refused with what is legal") {
  LinearScenarioSpec spec = two_level({Transition::head}, 4, 2);
  spec.placement = "zigzag";
  CHECK(refusal(spec).find("for hierarchical and linear attention; legal: contiguous") != std::string::npos);
  spec.placement = "contiguous";
  spec.options = {{"inner_ranks", std::int64_t{3}}};
  CHECK(refusal(spec).starts_with("schedule.inner_ranks: 3 does not divide"));
  spec.options = {{"kv_slots", std::int64_t{2}}};
  CHECK(refusal(spec).starts_with("schedule.kv_slots: is an option of softmax attention alone"));
}

TEST_CASE("linear attention traded: what it cannot do is refused with what is legal") {
  LinearScenarioSpec spec = traded({Transition::column}, 3);
  spec.options = {{"chunk", std::int64_t{64}}};
  CHECK(refusal(spec).starts_with("schedule.chunk: is an option of linear attention with slopes alone"));
  spec.options = {{"accumulator", std::string("nominal")}};
  CHECK(refusal(spec).starts_with("schedule.accumulator: is an option of softmax attention alone"));
  spec.options = {};
  spec.placement = "striped";
  CHECK(refusal(spec).find("for all_to_all and linear attention; legal: zigzag, contiguous, stream") !=
        std::string::npos);
  spec.placement = "contiguous";
  CHECK(refusal(spec).empty());
  Scenario uneven = linear_scenario(spec);
  uneven.problem.heads = uneven.problem.kv_heads = 4;
  CHECK_THROWS_WITH_AS((void)resolve(uneven), doctest::Contains("parallel.ranks (3) must divide heads (4)"),
                       ScenarioError);
  uneven.problem.heads = uneven.problem.kv_heads = 6;
  uneven.algorithm = "ring";
  uneven.schedule = {};
  CHECK_THROWS_WITH_AS((void)resolve(uneven), doctest::Contains("all_to_all"), ScenarioError);
}

// What the pieces of a trade carry is followed: gates of other heads or of other tokens are found.
TEST_CASE("check: a trade that brings gates of other heads or tokens") {
  for (const Kind& kind : {Kind{Transition::head}, Kind{Transition::matrix}}) {
    LinearScenarioSpec spec = traded(kind, 2);
    spec.options = {{"pack_above", std::int64_t{0}}};  // every message is packed
    Plan plan = build_plan(linear_scenario(spec));
    REQUIRE(check(plan).ok());
    RankPlan& rank = plan.ranks[1];
    const auto packs = [&](const Operation& op) {
      return op.kind == OpKind::copy && op.phase == Phase::forward && op.writes.count == 1 &&
             rank.buffers[rank.views[rank.writes(op).front().view].buffer].name == "log_decay_packed";
    };
    const auto at = std::ranges::find_if(rank.operations, packs);
    REQUIRE(at != rank.operations.end());
    View moved = rank.views[rank.reads(*at).front().view];
    std::swap(moved.head_begin, moved.head_end);
    moved.head_begin = 0, moved.head_end = static_cast<std::int32_t>(spec.heads / 2);
    rank.views.push_back(moved);
    rank.accesses[at->reads.first].view = static_cast<std::uint32_t>(rank.views.size() - 1);
    CHECK_FALSE(check(plan).ok());
  }
}

}  // namespace
}  // namespace cplab
