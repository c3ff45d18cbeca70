// Verification of ring attention: its schedules pass, and the faults that its merges and its running sums can
// have are found.
#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/verify/roundings.hpp"
#include "tests/exec/verify_spec.hpp"

namespace cplab {
namespace {

ScenarioSpec ring() {
  ScenarioSpec spec;
  spec.algorithm = "ring";
  return spec;
}

TEST_CASE("windows, packed sequences, replicas, head groups and schedules pass") {
  for (const DType dtype : {DType::fp64, DType::bf16}) {
    ScenarioSpec base = ring();
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

// What two long ranks do by default, and what longer rings may: kernels add to the sums that come, in parts,
// and gradients are rounded on the way.
TEST_CASE("gradients that kernels add to what has come, and rows in parts, pass") {
  for (const DType dtype : {DType::fp64, DType::bf16})
    for (const std::int64_t ranks : {2, 3, 5})
      for (const char* rotation : {"whole", "needed"})
        for (const char* wire : {"fp32", "nominal"})
          for (const std::int64_t parts : {1, 3}) {
            ScenarioSpec spec = ring();
            spec.dtype = dtype;
            spec.ranks = ranks;
            spec.lengths = {0, 1, 7, 40, 9, 21, 64};
            spec.options = {{"gradient_sum", word("fused")},
                            {"gradient_wire_dtype", word(wire)},
                            {"own_kv", word(ranks == 2 ? "keep" : "receive")},
                            {"rotation", word(rotation)},
                            {"merge", word("fused")},
                            {"out_accumulator", word(ranks == 2 ? "nominal" : "fp32")},
                            {"parts", count(parts)}};
            check_clean(spec);
            spec.window = {12, 0};
            spec.placement = "striped";
            check_clean(spec);
          }
}

// 20 random orders give the bits that the order of the program gives.
TEST_CASE("results do not depend on the order of execution") {
  for (const DType dtype : {DType::bf16, DType::fp64}) {
    for (const char* merge : {"incremental", "fused"}) {
      ScenarioSpec spec = ring();
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
    ScenarioSpec spec = ring();
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
  ScenarioSpec spec = ring();
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

TEST_CASE("roundings are counted from the plan") {
  ScenarioSpec spec = ring();
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

}  // namespace
}  // namespace cplab
