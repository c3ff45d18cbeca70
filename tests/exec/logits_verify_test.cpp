// Sinks, softcaps and biases from the plan to the file: one-hot values, which make out the weights
// themselves, and sums over replicas.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <vector>

#include "algorithms/core/list.hpp"
#include "tests/exec/verify_spec.hpp"

namespace cplab {
namespace {

// Weight of key j for query i of head h as the definition has it, from the inputs and lse.
double weight(const Problem& p, const Inputs& inputs, double lse, std::int64_t i, std::int64_t h,
              std::int64_t j) {
  double z = 0;
  const std::int64_t g = h / (p.heads / p.kv_heads), D = p.head_size;
  for (std::int64_t d = 0; d < D; ++d)
    z += p.scale * inputs["q"].values[static_cast<std::size_t>((i * p.heads + h) * D + d)] *
         inputs["k"].values[static_cast<std::size_t>((j * p.kv_heads + g) * D + d)];
  if (p.bias == BiasForm::alibi)
    z -= p.slopes[static_cast<std::size_t>(h)] * static_cast<double>(std::abs(i - j));
  if (p.softcap > 0) z = p.softcap * std::tanh(z / p.softcap);
  return std::exp(z - lse);
}

// Value j is e_j: out has the weight of key j in its column j, exactly 0 where the mask hides it, and the row
// adds up to what the sink leaves.
TEST_CASE("one-hot values: weights are the formula's, and add up to 1 but for the sink's share") {
  for (const Algorithm& algorithm : testing::algorithms_for(Attention::softmax)) {
    for (const std::int64_t P : {1, 2, 3}) {
      ScenarioSpec spec;
      spec.algorithm = algorithm.name;
      spec.ranks = P;
      spec.sequence = spec.value_size = 8 * P;
      spec.sink = true, spec.softcap = 1.5, spec.bias = BiasForm::alibi;
      spec.backward = false;
      std::optional<Scenario> resolved;
      try {
        resolved = scenario(spec);
      } catch (const ScenarioError&) {
        continue;  // it takes no sink: tests/algorithms/logits_check_test.cpp
      }
      const Plan plan = build_plan(*resolved);
      const Problem& p = plan.scenario.problem;
      CAPTURE(spec.algorithm);
      CAPTURE(P);
      Inputs inputs = random_inputs(p, 4);
      std::ranges::fill(inputs["v"].values, 0.0);
      for (std::int64_t j = 0; j < p.sequence; ++j)
        for (std::int64_t g = 0; g < p.kv_heads; ++g)
          inputs["v"].values[static_cast<std::size_t>((j * p.kv_heads + g) * p.value_size + j)] = 1;
      const VerifyResult result = verify(plan, inputs, {});
      CHECK(result.ok());
      REQUIRE(result.outputs.has_value());
      const std::vector<double>&out = (*result.outputs)["out"].values, &lse = (*result.outputs)["lse"].values;
      for (std::int64_t i = 0; i < p.sequence; ++i)
        for (std::int64_t h = 0; h < p.heads; ++h) {
          const double of_row = lse[static_cast<std::size_t>(h * p.sequence + i)];
          double sum = 0;
          for (std::int64_t j = 0; j < p.sequence; ++j) {
            const double found = out[static_cast<std::size_t>((i * p.heads + h) * p.value_size + j)];
            if (j > i)
              CHECK(found == 0);
            else
              CHECK(found == doctest::Approx(weight(p, inputs, of_row, i, h, j)).epsilon(1e-12));
            sum += found;
          }
          const double sink = inputs["sink"].values[static_cast<std::size_t>(h)];
          CHECK(sum == doctest::Approx(1 - std::exp(sink - of_row)).epsilon(1e-12));
        }
    }
  }
}

// Gradients of parameters: the sum over a replica's samples on each of its ranks, over all samples in the
// file.
TEST_CASE("dsink and dbias_table of replicas add up to those of one") {
  for (const char* algorithm : {"ring", "all_to_all"}) {
    ScenarioSpec spec;
    spec.algorithm = algorithm;
    spec.ranks = 2, spec.batch = 3, spec.sequence = 12;
    spec.sink = true, spec.bias = BiasForm::buckets;
    const Plan one = build_plan(scenario(spec));
    spec.replicas = 2;
    const Plan two = build_plan(scenario(spec));
    const Inputs inputs = random_inputs(one.scenario.problem, 6);
    const VerifyResult a = verify(one, inputs, {}), b = verify(two, inputs, {});
    CHECK(a.ok());
    CHECK(b.ok());
    for (const char* tensor : {"dsink", "dbias_table"}) {
      CAPTURE(tensor);
      const std::vector<double>&x = (*a.outputs)[tensor].values, &y = (*b.outputs)[tensor].values;
      REQUIRE(x.size() == y.size());
      REQUIRE_FALSE(x.empty());
      for (std::size_t i = 0; i < x.size(); ++i)
        CHECK(x[i] == doctest::Approx(y[i]).epsilon(1e-11).scale(1e-3));
      CHECK(std::ranges::count(b.tensors, tensor, &TensorFigures::tensor) == 4);
    }
  }
}

// Queries that travel take their rows of a full bias along, and shares of its gradient come home.
TEST_CASE("sinks and every bias where queries travel: dense and packed, on 1 to 5 ranks") {
  for (const char* algorithm : {"pass_q", "mesh", "tree", "helix"})
    for (const BiasForm bias : {BiasForm::alibi, BiasForm::buckets, BiasForm::keys, BiasForm::full})
      for (const bool packed : {false, true})
        for (const std::int64_t ranks : {1, 2, 3, 4, 5}) {
          ScenarioSpec spec;
          spec.algorithm = algorithm;
          spec.ranks = ranks;
          spec.bias = bias;
          spec.sink = true;
          if (packed) spec.lengths = {17, 0, 1, 21}, spec.padded_lengths = {20, 3, 1, 23};
          if (ranks == 4) spec.dtype = DType::bf16;
          CAPTURE(spec.algorithm);
          CAPTURE(static_cast<int>(bias));
          CAPTURE(packed);
          CAPTURE(ranks);
          const VerifyResult result = verify_spec(spec);
          for (const Finding& finding : result.findings) FAIL_CHECK(finding.message);
          CHECK(result.ok());
        }
}

}  // namespace
}  // namespace cplab
