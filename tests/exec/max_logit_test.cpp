// max_logit from the plan to the file: closed forms, brute force over every pair that the mask allows, and
// what stands in for TransformerEngine's mistakes with it (spec: S3-5, S3-6).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "algorithms/core/list.hpp"
#include "plan/operands.hpp"
#include "tests/exec/verify_spec.hpp"

namespace cplab {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

ScenarioSpec asking() {
  ScenarioSpec spec;
  spec.max_logit = true;
  return spec;
}

std::vector<ScenarioSpec> of_all_algorithms(const ScenarioSpec& spec) {
  std::vector<ScenarioSpec> all;
  for (const Algorithm& algorithm : testing::algorithms_for(Attention::softmax)) {
    all.push_back(spec);
    all.back().algorithm = algorithm.name;
  }
  return all;
}

// Straight from the definition, over the tokens of the files.
std::vector<double> by_brute_force(const Problem& p, const Inputs& inputs) {
  std::vector<double> most(static_cast<std::size_t>(p.heads), -infinity);
  const std::vector<double>&q = inputs["q"].values, &k = inputs["k"].values;
  const Window visible = p.band();
  std::int64_t first = 0;
  for (std::size_t b = 0; b < p.lengths.size(); first += p.padded_lengths[b++]) {
    for (std::int64_t i = 0; i < p.lengths[b]; ++i) {
      for (std::int64_t j = 0; j < p.lengths[b]; ++j) {
        if ((visible.left >= 0 && i - j > visible.left) || (visible.right >= 0 && j - i > visible.right))
          continue;
        for (std::int64_t h = 0; h < p.heads; ++h) {
          double sum = 0;
          const std::int64_t g = h / (p.heads / p.kv_heads);
          for (std::int64_t d = 0; d < p.head_size; ++d)
            sum += q[static_cast<std::size_t>(((first + i) * p.heads + h) * p.head_size + d)] *
                   k[static_cast<std::size_t>(((first + j) * p.kv_heads + g) * p.head_size + d)];
          double& held = most[static_cast<std::size_t>(h)];
          held = std::max(held, p.scale * sum);
        }
      }
    }
  }
  return most;
}

// Sums of at most 16 products of numbers of size 1, scaled: within 1e-5 in fp32, 1e-13 in fp64.
void compare(const ScenarioSpec& spec) {
  const Plan plan = build_plan(scenario(spec));
  const Problem& p = plan.scenario.problem;
  CAPTURE(plan.scenario.algorithm);
  CAPTURE(p.heads);
  CAPTURE(spec.ranks);
  const Inputs inputs = random_inputs(p, 3);
  const VerifyResult result = verify(plan, inputs, {});
  for (const Finding& finding : result.findings) FAIL_CHECK(finding.message);
  REQUIRE(result.outputs.has_value());
  const std::vector<double> right = by_brute_force(p, inputs);
  const std::vector<double>& given = (*result.outputs)["max_logit"].values;
  REQUIRE(given.size() == right.size());
  for (std::size_t h = 0; h < right.size(); ++h) {
    CAPTURE(h);
    if (right[h] == -infinity)
      CHECK(given[h] == right[h]);
    else
      CHECK(std::abs(given[h] - right[h]) <=
            (p.dtype == DType::fp64 ? 1e-13 : 1e-5) * (1 + std::abs(right[h])));
  }
  CHECK(std::ranges::count(result.tensors, "max_logit", &TensorFigures::tensor) == std::ssize(plan.ranks));
}

// Query i of head h is e_h; key j is c_j e_(j mod D): the logit is scale c_j where j mod D = h, else 0. Under
// the full mask max_logit of h is scale times the largest c_j of those, without a rounding, or 0. Head 2 has
// negative c_j alone: 0. With D = 1 there is no other key: then the maximum itself is negative.
TEST_CASE("max_logit: one-hot queries and keys give one number without a rounding") {
  for (const std::int64_t D : {8, 1}) {
    for (const std::int64_t P : {1, 2, 3, 4}) {
      ScenarioSpec base = asking();
      base.ranks = P;
      base.sequence = 8 * P;
      base.causal = false;
      base.heads = base.kv_heads = D == 1 ? 1 : 4;
      base.head_size = D;
      base.scale = 0.5;
      for (const ScenarioSpec& spec : of_all_algorithms(base)) {
        const Plan plan = build_plan(scenario(spec));
        const Problem& p = plan.scenario.problem;
        Inputs inputs = random_inputs(p, 1);
        for (const char* name : {"q", "k"}) std::ranges::fill(inputs[name].values, 0.0);
        std::vector<double> most(static_cast<std::size_t>(p.heads), D == 1 ? -infinity : 0);
        for (std::int64_t i = 0; i < p.sequence; ++i) {
          for (std::int64_t h = 0; h < p.heads; ++h) {
            const double c = D == 1   ? -1.0 - static_cast<double>(i)
                             : h == 2 ? -3.0
                                      : static_cast<double>(1 + i * 7 % p.sequence);
            const std::int64_t axis = h % D;
            inputs["q"].values[static_cast<std::size_t>((i * p.heads + h) * D + axis)] = 1;
            inputs["k"].values[static_cast<std::size_t>((i * p.kv_heads + h) * D + i % D)] = c;
            double& held = most[static_cast<std::size_t>(h)];
            if (i % D == axis) held = std::max(held, p.scale * c);
          }
        }
        const VerifyResult result = verify(plan, inputs, {});
        CHECK(result.ok());
        REQUIRE(result.outputs.has_value());
        CHECK((*result.outputs)["max_logit"].values == most);
      }
    }
  }
}

TEST_CASE(
    "max_logit equals brute force: ranks, masks, grouped heads, dtypes, replicas, packed with padding") {
  std::vector<ScenarioSpec> specs;
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16})
    for (const std::int64_t P : {1, 2, 3, 4}) {
      specs.push_back(asking());
      specs.back().dtype = dtype;
      specs.back().ranks = P;
      specs.back().backward = P % 2 == 0;
      for (const Window window : {Window{3, 0}, Window{2, 2}, Window{0, 0}, Window{-1, 4}}) {
        specs.push_back(specs.back());
        specs.back().causal = false;
        specs.back().window = window;
      }
      specs.push_back(asking());  // padding rows are NaN (scatter), and some ranks have padding alone
      specs.back().dtype = dtype;
      specs.back().ranks = P;
      specs.back().heads = 6;
      specs.back().kv_heads = 2;
      specs.back().lengths = {3, 0, 11, 20};
      specs.back().padded_lengths = {32, 4, 16, 20};
      specs.push_back(specs.back());
      specs.back().replicas = 2;
    }
  specs.push_back(asking());  // the second replica has no sequence: its ranks hold -inf
  specs.back().replicas = 2;
  for (const ScenarioSpec& base : specs)
    for (const ScenarioSpec& spec : of_all_algorithms(base)) compare(spec);
}

TEST_CASE("max_logit of nothing is -inf") {
  ScenarioSpec base = asking();
  base.lengths = {0, 0};
  base.padded_lengths = {8, 0};
  for (const ScenarioSpec& spec : of_all_algorithms(base)) {
    const VerifyResult result = verify_spec(spec);
    CHECK(result.ok());
    REQUIRE(result.outputs.has_value());
    for (const double value : (*result.outputs)["max_logit"].values) CHECK(value == -infinity);
  }
}

// S3-5: the source read offsets on the host, twice for each sequence. Here masks are segments: no host waits.
TEST_CASE("S3-5: max_logit adds no host_sync, whatever the number of sequences") {
  for (const std::size_t sequences : {1u, 7u}) {
    ScenarioSpec base = asking();
    base.lengths.assign(sequences, 5);
    for (const ScenarioSpec& spec : of_all_algorithms(base)) {
      const Plan plan = build_plan(scenario(spec));
      ScenarioSpec without = spec;
      without.max_logit = false;
      const Plan plain = build_plan(scenario(without));
      const auto waits = [](const Plan& of) {
        std::int64_t count = 0;
        for (const RankPlan& rank : of.ranks)
          count += std::ranges::count(rank.operations, OpKind::host_sync, &Operation::kind);
        return count;
      };
      CHECK(waits(plan) == waits(plain));
    }
  }
}

// S3-6: rank 1 has padding alone of the first sequence, so the rows that count begin at an offset. Only
// max_logit is wrong then.
TEST_CASE("S3-6: rows counted from 0 instead of from their offset are found") {
  ScenarioSpec spec = asking();
  spec.algorithm = "ring";
  spec.dtype = DType::fp32;
  spec.ranks = 2;
  spec.heads = 16;
  spec.kv_heads = 4;
  spec.lengths = {2, 30};
  spec.padded_lengths = {16, 32};
  spec.backward = false;
  check_clean(spec);
  CpuOptions faulty;
  faulty.tiles = kernels::faulty_cpu_tiles("maxlogit-zero-offset");
  REQUIRE(faulty.tiles != nullptr);
  const VerifyResult wrong = verify_spec(spec, 1, faulty);
  REQUIRE_FALSE(wrong.findings.empty());
  for (const Finding& f : wrong.findings) {
    CHECK(f.kind == FindingKind::numerics);
    CHECK(f.buffer == "max_logit");
  }
  for (const TensorFigures& t : wrong.tensors)
    if (t.tensor != "max_logit") CHECK(t.ok);
}

// The tolerance comes from (D + 2) u max ||q|| ||k||: a hundredth of a percent off is found in fp32.
TEST_CASE("max_logit: an error of 1e-4 of it is found on the rank that has it") {
  ScenarioSpec spec = asking();
  spec.dtype = DType::fp32;
  const kernels::Tiles& right = kernels::cpu_tiles();
  static kernels::Tiles tiles;
  tiles = right;
  tiles.attend = [](const kernels::Attend& call) {
    kernels::cpu_tiles().attend(call);
    if (!call.max_logit) return;
    auto* number = static_cast<float*>(call.max_logit->data);  // head 0
    *number *= 1.0001F;
  };
  CpuOptions options;
  options.tiles = &tiles;
  const VerifyResult result = verify_spec(spec, 1, options);
  REQUIRE_FALSE(result.findings.empty());
  CHECK(result.findings[0].message.find("max_logit: 1 of 4 elements") != std::string::npos);
  CHECK(result.findings[0].message.find("head 0 is") != std::string::npos);
}

}  // namespace
}  // namespace cplab
