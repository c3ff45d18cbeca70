// Convolutions before Q, K and V: every linear algorithm is right with them, for every transition, dtype,
// placement and number of ranks, with pieces shorter than the convolution, and with errors that were not
// there it is not.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "check/check.hpp"
#include "derive/edges.hpp"
#include "derive/edits.hpp"
#include "tests/exec/linear_spec.hpp"

namespace cplab {
namespace {

LinearScenarioSpec convolved(const std::string& algorithm, std::int64_t ranks, std::int64_t W = 4) {
  LinearScenarioSpec spec;
  spec.algorithm = algorithm;
  spec.ranks = ranks;
  spec.heads = ranks == 3 ? 3 : 4;
  spec.convolution = W;
  return spec;
}

TEST_CASE("convolutions: every linear algorithm and transition is within tolerance, and proved") {
  std::vector<GatedTransition> all{{Transition::decay}};
  all.insert(all.end(), std::begin(gated_transitions), std::end(gated_transitions));
  for (const GatedTransition& kind : all)
    for (const std::string& algorithm : linear_algorithms(kind.transition)) {
      CAPTURE(algorithm);
      CAPTURE(name(kind.transition));
      LinearScenarioSpec spec = convolved(algorithm, 4);
      spec.transition = kind.transition, spec.gate = kind.gate;
      CHECK(verify_linear(spec).findings.empty());
      spec.options = {{"between", std::string("layers")}};
      spec.replicas = 2;
      spec.lengths = {23, 0, 1, 41};
      spec.padded_lengths = {25, 3, 1, 44};
      CHECK(verify_linear(spec).findings.empty());
    }
}

TEST_CASE("convolutions: every dtype and width, forward alone, one rank") {
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16})
    for (const Transition transition : {Transition::decay, Transition::column, Transition::matrix})
      for (const std::int64_t W : {2, 4, 8}) {
        CAPTURE(name(dtype));
        CAPTURE(name(transition));
        CAPTURE(W);
        const std::string scan = transition == Transition::decay ? "lasp_blelloch" : "affine_blelloch";
        LinearScenarioSpec spec = convolved(scan, 3, W);
        spec.transition = transition, spec.dtype = dtype;
        // One rounding of a convolved key reaches all later tokens: of a few columns it may be most of an
        // error.
        spec.head_size = 32, spec.value_size = 24;
        CHECK(verify_linear(spec).findings.empty());
        spec.algorithm = "all_to_all", spec.placement = "zigzag";
        CHECK(verify_linear(spec).findings.empty());
        spec.ranks = 1, spec.backward = false;
        CHECK(verify_linear(spec).findings.empty());
      }
}

// A piece of one token takes rows of several ranks; ranks without a token, and sequences without one.
TEST_CASE("convolutions: pieces shorter than the convolution take rows of several ranks") {
  for (const char* algorithm : {"lasp_all_gather", "affine_all_gather", "all_to_all", "hierarchical"})
    for (const char* placement : {"contiguous", "stream", "zigzag"})
      for (const std::int64_t tokens : {1, 3, 5, 9, 18}) {
        const bool gated = std::string(algorithm).starts_with("affine");
        const bool trades = std::string(algorithm) == "all_to_all";
        if ((std::string(placement) == "zigzag" && !trades) ||
            (std::string(placement) == "stream" && std::string(algorithm) == "hierarchical"))
          continue;
        CAPTURE(algorithm);
        CAPTURE(placement);
        CAPTURE(tokens);
        LinearScenarioSpec spec = convolved(algorithm, 8, 6);
        spec.heads = 8;
        spec.placement = placement;
        if (gated) spec.transition = Transition::column;
        spec.lengths = {tokens, 0, 2 * tokens, 1};
        CHECK(verify_linear(spec).findings.empty());
      }
}

TEST_CASE("convolutions: any order that the plan allows gives the same bits") {
  for (const char* algorithm : {"lasp_zeco", "hierarchical", "all_to_all"}) {
    LinearScenarioSpec spec = convolved(algorithm, 4);
    for (const std::uint64_t seed : {1, 2, 3, 4}) {
      CpuOptions options;
      options.order.random = true, options.order.seed = seed;
      CHECK(verify_linear(spec, options).findings.empty());
    }
  }
}

// The tolerance is no cover for a factor that is off, or for a row of the halo that is.
TEST_CASE("convolutions: a neighbour's rows left out are seen by checker and comparison") {
  for (const bool reverse : {false, true}) {
    CAPTURE(reverse);
    LinearScenarioSpec spec = convolved("lasp_blelloch", 4);
    spec.dtype = DType::bf16;
    Plan plan = build_plan(linear_scenario(spec));
    RankPlan& rank = plan.ranks[1];
    for (Operation& op : rank.operations) {
      if (op.kind != OpKind::convolve || op.reverse != reverse) continue;
      std::vector<Chunk> list(rank.chunks_of(op).begin(), rank.chunks_of(op).end());
      for (Chunk& c : list) c.left_exponent = c.right_exponent = 0;
      op.chunks = add_chunks(rank, list);
      break;
    }
    CHECK_FALSE(check(plan).ok());
    const VerifyResult result = verify(plan, random_inputs(plan.scenario.problem, 1), {});
    CHECK(std::ranges::any_of(result.tensors, [](const TensorFigures& t) { return !t.ok; }));
  }
}

}  // namespace
}  // namespace cplab
