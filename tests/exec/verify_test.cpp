// Verification end to end: right plans pass in every dtype, wrong ones are found, and the tolerances lie
// where they should: above what rounding does, below what bugs do.
#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "algorithms/build.hpp"
#include "algorithms/faults.hpp"
#include "cli/verify/roundings.hpp"
#include "cli/verify/tolerance.hpp"
#include "cli/verify/verify.hpp"
#include "tests/exec/scenarios.hpp"

namespace cplab {
namespace {

VerifyResult verify_spec(const ScenarioSpec& spec, std::uint64_t seed = 1, const CpuOptions& options = {}) {
  const Plan plan = build_plan(scenario(spec));
  return verify(plan, random_inputs(plan.scenario.problem, seed), {options});
}

// Everything passes with a margin of 1.25 at least; returns the largest part of a tolerance that was used.
double check_clean(const ScenarioSpec& spec, std::uint64_t seed = 1) {
  const VerifyResult result = verify_spec(spec, seed);
  CHECK(result.ok());
  for (const Finding& finding : result.findings) MESSAGE(finding.message);
  CHECK(result.outputs.has_value());
  CHECK(result.tensors.size() ==
        static_cast<std::size_t>(spec.ranks * spec.replicas * (spec.backward ? 5 : 2)));
  double most = 0;
  for (const TensorFigures& t : result.tensors) {
    CHECK(t.ok);
    CHECK(t.rel_l2 <= t.tolerance);
    if (t.tolerance > 0) most = std::max(most, t.rel_l2 / t.tolerance);
  }
  CHECK(most < 0.8);
  return most;
}

void check_grid(DType dtype) {
  for (const std::int64_t ranks : {1, 2, 3, 4, 5, 8}) {
    for (const char* placement : {"zigzag", "contiguous", "striped"}) {
      for (const bool causal : {true, false}) {
        ScenarioSpec spec;
        spec.ranks = ranks;
        spec.dtype = dtype;
        spec.placement = placement;
        spec.causal = causal;
        spec.sequence = 37;  // a multiple of nothing
        spec.batch = ranks % 2 == 0 ? 1 : 2;
        check_clean(spec);
      }
    }
  }
}

TEST_CASE("ring passes in fp64: every P, placement and mask") {
  check_grid(DType::fp64);
}
TEST_CASE("ring passes in fp32: every P, placement and mask") {
  check_grid(DType::fp32);
}
TEST_CASE("ring passes in bf16: every P, placement and mask") {
  check_grid(DType::bf16);
}
TEST_CASE("ring passes in fp16: every P, placement and mask") {
  check_grid(DType::fp16);
}

TEST_CASE("windows, packed sequences, replicas, head groups and schedules pass") {
  for (const DType dtype : {DType::fp64, DType::bf16}) {
    ScenarioSpec base;
    base.dtype = dtype;
    std::vector<ScenarioSpec> specs;
    for (const Window window : {Window{3, 0}, Window{2, 2}, Window{0, 0}, Window{-1, 4}}) {
      specs.push_back(base);
      specs.back().causal = window.right == 0;
      specs.back().window = window;
    }
    specs.push_back(base);
    specs.back().lengths = {0, 1, 7, 8, 9, 21, 0, 33};
    specs.push_back(base);
    specs.back().lengths = {5, 12, 1, 0};
    specs.back().padded_lengths = {8, 12, 6, 4};
    specs.push_back(base);
    specs.back().ranks = 2;
    specs.back().batch = 3;
    specs.back().replicas = 2;
    for (const std::int64_t kv_heads : {1, 4}) {
      specs.push_back(base);
      specs.back().kv_heads = kv_heads;
      specs.back().value_size = 12;
    }
    specs.push_back(base);
    specs.back().sequence = 1;
    specs.push_back(base);
    specs.back().backward = false;
    using Options = std::vector<std::pair<std::string, OptionValue>>;
    for (const Options& options :
         {Options{{"merge", word("deferred")}}, Options{{"merge", word("fused")}},
          Options{{"merge", word("deferred")}, {"accumulator", word("nominal")}},
          Options{{"accumulator", word("nominal")}, {"gradient_wire_dtype", word("nominal")}},
          Options{{"merge", word("fused")}, {"accumulator", word("nominal")}},
          Options{{"kv_slots", word("all")}, {"tile_inputs", word("copy")}, {"out_slots", count(1)}},
          Options{{"kv_slots", count(3)}, {"transport", word("copy")}}, Options{{"overlap", false}}}) {
      specs.push_back(base);
      specs.back().options = options;
      specs.push_back(specs.back());
      specs.back().causal = false;
      specs.back().placement = "contiguous";
    }
    for (const ScenarioSpec& spec : specs) check_clean(spec);
  }
}

// 20 random orders give the bits that the order of the program gives.
TEST_CASE("results do not depend on the order of execution") {
  for (const DType dtype : {DType::bf16, DType::fp64}) {
    for (const char* merge : {"incremental", "fused"}) {
      ScenarioSpec spec;
      spec.dtype = dtype;
      spec.ranks = 5;
      spec.options = {{"merge", word(merge)}};
      const VerifyResult program = verify_spec(spec);
      REQUIRE(program.ok());
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        CpuOptions options;
        options.order = {true, seed};
        const VerifyResult random = verify_spec(spec, 1, options);
        REQUIRE(random.outputs.has_value());
        CHECK(random.outputs->same_bits(*program.outputs));
      }
    }
  }
}

// A running out that is rounded to bf16 at each of 63 merges, where the plan says fp32.
TEST_CASE("a nominal accumulator is found at 64 ranks, and the right one passes with a margin") {
  for (const bool causal : {false, true}) {
    ScenarioSpec spec;
    spec.ranks = 64;
    spec.dtype = DType::bf16;
    spec.placement = causal ? "zigzag" : "contiguous";
    spec.causal = causal;
    spec.sequence = 1024;
    spec.heads = 2;
    spec.kv_heads = 1;
    spec.head_size = 16;
    spec.value_size = 16;
    spec.backward = false;
    CHECK(check_clean(spec) < 1 / 1.5);

    CpuOptions faulty;
    faulty.tiles = kernels::faulty_cpu_tiles("nominal-accumulator");
    REQUIRE(faulty.tiles != nullptr);
    const VerifyResult wrong = verify_spec(spec, 1, faulty);
    CHECK_FALSE(wrong.ok());
    double most = 0;
    for (const TensorFigures& t : wrong.tensors) {
      if (t.tensor == "out") most = std::max(most, t.rel_l2 / t.tolerance);
      if (t.tensor == "lse") CHECK(t.ok);
    }
    CHECK(most > 1.2);
    for (const Finding& finding : wrong.findings) CHECK(finding.kind == FindingKind::numerics);
  }
}

TEST_CASE("an overflowing merge is found where logits differ by hundreds, and only there") {
  ScenarioSpec spec;
  spec.ranks = 8;
  spec.dtype = DType::bf16;
  spec.placement = "contiguous";
  spec.causal = false;
  spec.sequence = 64;
  spec.head_size = 16;
  spec.scale = 15;
  check_clean(spec);
  CpuOptions faulty;
  faulty.tiles = kernels::faulty_cpu_tiles("naive-merge");
  const VerifyResult wrong = verify_spec(spec, 1, faulty);
  CHECK_FALSE(wrong.ok());
  spec.scale = 0;
  CHECK(verify_spec(spec, 1, faulty).ok());
}

// One element of 65536, off by a tenth of a standard deviation of out, on rank 1 only.
TEST_CASE("a single wrong element cannot hide in a large tensor") {
  static kernels::Tiles tiles = kernels::cpu_tiles();
  static int tile = 0;
  tiles.attend = [](const kernels::Attend& call) {
    kernels::cpu_tiles().attend(call);
    if (++tile != 1) return;
    const double value = kernels::load_element(call.out.data, call.out.dtype, 5);
    kernels::store_element(call.out.data, call.out.dtype, 5, value + 0.05);
  };
  ScenarioSpec spec;
  spec.ranks = 1;
  spec.dtype = DType::bf16;
  spec.sequence = 1024;
  spec.heads = 2;
  spec.kv_heads = 2;
  spec.head_size = 16;
  spec.value_size = 32;
  spec.backward = false;
  CpuOptions options;
  options.tiles = &tiles;
  const VerifyResult result = verify_spec(spec, 1, options);
  REQUIRE(result.tensors.size() == 2);
  CHECK_FALSE(result.tensors[0].ok);
  CHECK(result.tensors[0].rel_l2 <= result.tensors[0].tolerance);  // the norm does not show it
  CHECK(result.tensors[0].max_abs > 0.03);
  CHECK(result.tensors[1].ok);
  REQUIRE(result.findings.size() == 1);
  CHECK(result.findings[0].kind == FindingKind::numerics);
  CHECK(result.findings[0].message.find("1 of 65536") != std::string::npos);
}

TEST_CASE("NaN and a wrong infinity are failures of one element") {
  for (const double bad : {std::nan(""), -std::numeric_limits<double>::infinity()}) {
    static double value = 0;
    value = bad;
    static kernels::Tiles tiles = kernels::cpu_tiles();
    tiles.attend = [](const kernels::Attend& call) {
      kernels::cpu_tiles().attend(call);
      kernels::store_element(call.lse.data, call.lse.dtype, 0, value);
    };
    ScenarioSpec spec;
    spec.ranks = 1;
    spec.backward = false;
    CpuOptions options;
    options.tiles = &tiles;
    const VerifyResult result = verify_spec(spec, 1, options);
    REQUIRE(result.tensors.size() == 2);
    CHECK(result.tensors[0].ok);
    CHECK_FALSE(result.tensors[1].ok);
    CHECK_FALSE(result.tensors[1].max_abs <= 1e300);
  }
}

// Keys with a large common part, as trained models have: the error of delta is then one error for all keys.
TEST_CASE("inputs that are not centred pass as well") {
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    ScenarioSpec spec;
    spec.dtype = dtype;
    spec.sequence = 64;
    const Plan plan = build_plan(scenario(spec));
    Inputs inputs = random_inputs(plan.scenario.problem, 4);
    for (double& v : inputs["k"].values) v = rounded(v + 3, dtype);
    for (double& v : inputs["v"].values) v = rounded(v + 2, dtype);
    for (double& v : inputs["dout"].values) v = rounded(v - 1, dtype);
    const VerifyResult result = verify(plan, inputs, {});
    for (const Finding& finding : result.findings) MESSAGE(finding.message);
    CHECK(result.ok());
  }
}

// Weights of e^-300 and less: results that fp32 cannot hold come out as 0, and that is no error.
TEST_CASE("logits in the thousands pass") {
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    for (const double scale : {5.0, 60.0, 400.0}) {
      ScenarioSpec spec;
      spec.dtype = dtype;
      spec.scale = scale;
      spec.sequence = 24;
      for (const bool causal : {true, false}) {
        spec.causal = causal;
        const VerifyResult result = verify_spec(spec);
        for (const Finding& finding : result.findings) MESSAGE(finding.message);
        CHECK(result.ok());
      }
    }
  }
}

TEST_CASE("a hang and an impossible plan are findings, not errors") {
  Plan plan = build_plan(scenario({}));
  const Inputs inputs = random_inputs(plan.scenario.problem, 1);
  SUBCASE("hang") {
    for (Operation& op : plan.ranks[2].operations) {  // rank 2 sends nothing and receives nothing
      if (op.kind == OpKind::exchange) op.parts.count = 0;
    }
    const VerifyResult result = verify(plan, inputs, {});
    CHECK_FALSE(result.ok());
    CHECK(result.tensors.empty());
    CHECK_FALSE(result.outputs.has_value());
    CHECK(result.findings.back().kind == FindingKind::deadlock);
    CHECK(result.findings.back().operation.find("/forward/") != std::string::npos);
  }
  SUBCASE("view outside its buffer") {
    plan.ranks[1].views[2].width_end = 1000;
    const VerifyResult result = verify(plan, inputs, {});
    CHECK_FALSE(result.ok());
    CHECK(result.findings.back().rank == 1);
  }
}

TEST_CASE("roundings are counted from the plan") {
  ScenarioSpec spec;
  spec.dtype = DType::bf16;
  spec.causal = false;
  const auto counts = [&](std::vector<std::pair<std::string, OptionValue>> options) {
    spec.options = std::move(options);
    return count_roundings(build_plan(scenario(spec)));
  };
  const PlanRoundings wide = counts({});
  CHECK(wide.out.tiles);
  CHECK(wide.out.running == 0);
  CHECK(wide.out.casts == 1);
  CHECK(wide.out.tile_count == 4);
  CHECK(wide.dkv.casts == 1);
  CHECK(wide.dkv.running == 0);
  CHECK_FALSE(wide.dkv.tiles);
  const PlanRoundings nominal =
      counts({{"accumulator", word("nominal")}, {"gradient_wire_dtype", word("nominal")}});
  CHECK(nominal.out.running == 3);
  CHECK(nominal.out.casts == 0);
  CHECK(nominal.dkv.running == 3);
  CHECK(nominal.dkv.tiles);
  CHECK(nominal.dq.running == 3);
  const PlanRoundings fused = counts({{"merge", word("fused")}});
  CHECK_FALSE(fused.out.tiles);
  CHECK(fused.out.casts == 1);
}

// The seeds of the random data are not chosen: over many tiny problems, where samples scatter most, none
// fails.
TEST_CASE("tolerances hold over many seeds of tiny problems") {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (std::uint64_t seed = 100; seed < 140; ++seed) {
      ScenarioSpec spec;
      spec.dtype = dtype;
      spec.ranks = 3;
      spec.sequence = 1 + static_cast<std::int64_t>(seed % 9);
      spec.causal = seed % 2 == 0;
      spec.head_size = 1 + static_cast<std::int64_t>(seed % 5);
      spec.value_size = 1 + static_cast<std::int64_t>(seed % 3);
      CHECK(verify_spec(spec, seed).ok());
    }
  }
}

}  // namespace
}  // namespace cplab
