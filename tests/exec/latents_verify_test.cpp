// Latent keys and values from the plan to the result: every algorithm, what travels, roundings, and problems
// whose answer ordinary attention knows.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/core/list.hpp"
#include "tests/exec/verify_spec.hpp"

namespace cplab {
namespace {

constexpr const char* outputs[] = {"out",          "lse",           "dq", "dlatent", "drope_key",
                                   "dkey_weights", "dvalue_weights"};

ScenarioSpec latent_spec(const std::string& algorithm, std::int64_t ranks) {
  ScenarioSpec spec;
  spec.algorithm = algorithm;
  spec.ranks = ranks;
  spec.sequence = 40;
  spec.kv_heads = spec.heads;
  spec.kv_latent = 6, spec.rope_size = 2;
  return spec;
}

// "", "kv" and "latent", where the algorithm says so.
std::vector<std::string> travels_of(const Algorithm& algorithm) {
  if (find_option(algorithm, "travels") == nullptr) return {""};
  return {"kv", "latent"};
}

void require_same(const Outputs& a, const Outputs& b, double tolerance) {
  for (const char* name : outputs) {
    CAPTURE(name);
    REQUIRE(a[name].values.size() == b[name].values.size());
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < a[name].values.size(); ++i) {
      const double x = a[name].values[i], y = b[name].values[i];
      if (x == y) continue;
      error += (x - y) * (x - y), norm += y * y;
    }
    CHECK(error <= tolerance * tolerance * std::max(norm, 1e-30));
  }
}

TEST_CASE("latents, fp64: every algorithm equals the reference and the others, whatever travels") {
  for (const bool packed : {false, true})
    for (const std::int64_t ranks : {1, 2, 3, 4}) {
      std::optional<Outputs> first;
      for (const Algorithm& algorithm : testing::algorithms_for(Attention::softmax))
        for (const std::string& travels : travels_of(algorithm)) {
          ScenarioSpec spec = latent_spec(std::string(algorithm.name), ranks);
          spec.heads = spec.kv_heads = 12;  // which 1 to 4 ranks divide
          if (packed) spec.lengths = {17, 0, 1, 21}, spec.padded_lengths = {20, 3, 1, 23};
          if (ranks == 4 && !packed) spec.sequence = 3;  // some ranks have no token
          if (!travels.empty()) spec.options = {{"travels", travels}};
          CAPTURE(spec.algorithm);
          CAPTURE(travels);
          CAPTURE(ranks);
          const VerifyResult result = verify_spec(spec);
          for (const Finding& finding : result.findings) FAIL_CHECK(finding.message);
          REQUIRE(result.outputs.has_value());
          CHECK(result.tensors.size() == static_cast<std::size_t>(ranks) * std::size(outputs));
          if (!first) first = result.outputs;
          require_same(*result.outputs, *first, 1e-12);
        }
    }
}

// Tolerances that are neither exceeded nor idle.
TEST_CASE("latents: roundings of 16-bit and 32-bit dtypes stay within what is expected of them") {
  double most = 0;
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16})
    for (const char* algorithm : {"ring", "all_gather", "all_to_all"})
      for (const std::string& travels : travels_of(*find_algorithm(algorithm)))
        for (const bool nominal : {false, true}) {
          ScenarioSpec spec = latent_spec(algorithm, 4);
          spec.dtype = dtype;
          spec.batch = 2, spec.sequence = 96;
          spec.head_size = 24, spec.value_size = 16, spec.kv_latent = 32, spec.rope_size = 8;
          if (!travels.empty()) spec.options = {{"travels", travels}};
          if (nominal && travels.empty()) continue;
          if (nominal) spec.options.push_back({"gradient_wire_dtype", word("nominal")});
          CAPTURE(static_cast<int>(dtype));
          CAPTURE(spec.algorithm);
          CAPTURE(travels);
          CAPTURE(nominal);
          const VerifyResult result = verify_spec(spec);
          for (const Finding& finding : result.findings) FAIL_CHECK(finding.message);
          for (const char* name : outputs) {
            double used = 0;
            for (const TensorFigures& t : result.tensors)
              if (t.tensor == name) used = std::max(used, t.rel_l2 / t.tolerance);
            CAPTURE(name);
            CHECK(used < 0.8);
            CHECK(used >
                  (dtype == DType::fp32 ? 0.02 : 0.1));  // of lse fp32's are wide: N/3 and D/2 roundings
            most = std::max(most, used);
          }
        }
  CHECK(most > 0.3);
}

// Latents that are unit vectors, one for each token: a row of a head's weights is a token's K and V, so the
// problem is one of ordinary attention, whose dk and dv are the gradients of the weights.
TEST_CASE("latents that are unit vectors: weights are keys and values, and so are their gradients") {
  const std::int64_t S = 16, H = 4, X = 6, R = 2, E = 4;
  for (const char* algorithm : {"ring", "all_gather", "usp"})
    for (const std::string& travels : travels_of(*find_algorithm(algorithm))) {
      ScenarioSpec spec = latent_spec(algorithm, 2);
      spec.sequence = spec.kv_latent = S;
      if (!travels.empty()) spec.options = {{"travels", travels}};
      CAPTURE(algorithm);
      CAPTURE(travels);
      const Plan plan = build_plan(scenario(spec));
      Inputs inputs = random_inputs(plan.scenario.problem, 3);
      std::vector<double>& latent = inputs["latent"].values;
      for (std::int64_t i = 0; i < S * S; ++i) latent[static_cast<std::size_t>(i)] = i % (S + 1) == 0;
      const VerifyResult result = verify(plan, inputs, {});
      CHECK(result.ok());

      ScenarioSpec ordinary = spec;
      ordinary.kv_latent = ordinary.rope_size = 0, ordinary.options.clear();
      const Plan other = build_plan(scenario(ordinary));
      Inputs expanded = random_inputs(other.scenario.problem, 3);
      expanded["q"] = inputs["q"], expanded["dout"] = inputs["dout"];
      const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
      for (std::int64_t i = 0; i < S; ++i)
        for (std::int64_t h = 0; h < H; ++h) {
          for (std::int64_t x = 0; x < X + R; ++x)
            expanded["k"].values[at((i * H + h) * (X + R) + x)] =
                x < X ? inputs["key_weights"].values[at((h * S + i) * X + x)]
                      : inputs["rope_key"].values[at(i * R + x - X)];
          for (std::int64_t x = 0; x < E; ++x)
            expanded["v"].values[at((i * H + h) * E + x)] =
                inputs["value_weights"].values[at((h * S + i) * E + x)];
        }
      const VerifyResult right = verify(other, expanded, {});
      REQUIRE(right.outputs.has_value());
      REQUIRE(result.outputs.has_value());
      const Outputs &a = *result.outputs, &b = *right.outputs;
      for (std::size_t i = 0; i < b["out"].values.size(); ++i)
        CHECK(a["out"].values[i] == doctest::Approx(b["out"].values[i]).epsilon(1e-12).scale(1));
      for (std::int64_t i = 0; i < S; ++i)
        for (std::int64_t h = 0; h < H; ++h) {
          for (std::int64_t x = 0; x < X; ++x)
            CHECK(a["dkey_weights"].values[at((h * S + i) * X + x)] ==
                  doctest::Approx(b["dk"].values[at((i * H + h) * (X + R) + x)]).epsilon(1e-11).scale(1));
          for (std::int64_t x = 0; x < E; ++x)
            CHECK(a["dvalue_weights"].values[at((h * S + i) * E + x)] ==
                  doctest::Approx(b["dv"].values[at((i * H + h) * E + x)]).epsilon(1e-11).scale(1));
        }
    }
}

TEST_CASE("latents: any order of execution gives the same bits, and replicas sum what weights have") {
  for (const char* algorithm : {"ring", "all_gather"}) {
    ScenarioSpec spec = latent_spec(algorithm, 2);
    spec.batch = 3, spec.replicas = 2;
    spec.sink = true, spec.softcap = 2, spec.bias = BiasForm::buckets;
    spec.options = {{"travels", word("latent")}};
    const VerifyResult program = verify_spec(spec);
    for (const Finding& finding : program.findings) FAIL_CHECK(finding.message);
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CpuOptions options;
      options.order = {true, seed};
      CHECK(verify_spec(spec, 1, options).outputs->same_bits(*program.outputs));
    }
  }
}

}  // namespace
}  // namespace cplab
