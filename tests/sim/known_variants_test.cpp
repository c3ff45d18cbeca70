// What was found about kernels once says the same as what is found anew, and nothing about another machine.
#include <doctest/doctest.h>

#include <string>

#include "algorithms/core/build.hpp"
#include "algorithms/core/resolve.hpp"
#include "cli/files/hardware_file.hpp"
#include "sim/attention_variant.hpp"
#include "sim/kernel_variants.hpp"
#include "sim/simulate.hpp"

namespace cplab {
namespace {

// A ring over packed sequences: calls that differ from rank to rank, and calls that are repeated.
Plan packed_ring() {
  Scenario scenario;
  Problem& problem = scenario.problem;
  problem.format = Format::thd;
  problem.packed = true;
  problem.lengths = problem.padded_lengths = {4096, 300, 1700, 64};
  problem.heads = 16;
  problem.kv_heads = 4;
  problem.head_size = problem.value_size = 128;
  problem.scale = 0.09;
  problem.causal = true;
  problem.dtype = DType::bf16;
  scenario.parallel.ranks = 4;
  scenario.parallel.groups = {{0, 1, 2, 3}};
  scenario.algorithm = "ring";
  return build_plan(resolve(scenario));
}

Timeline named(const Plan& plan, const Hardware& hardware) {
  Timeline timeline;
  name_kernel_variants(plan, hardware, timeline);
  return timeline;
}

void check_same(const Plan& plan, const Hardware& known, const Hardware& fresh) {
  const Timeline by_known = named(plan, known), anew = named(plan, fresh);
  CHECK(by_known.variants == anew.variants);
  CHECK(by_known.fall_backs == anew.fall_backs);
  CHECK(simulate(plan, known, {}).time_s == simulate(plan, fresh, {}).time_s);
}

}  // namespace

TEST_CASE("known variants: names and times are those found anew, whoever asked first") {
  const Plan plan = packed_ring();
  for (const std::string file : {"h100x8.toml", "h200x4.toml", "h200x4-hopper.toml"}) {
    CAPTURE(file);
    const Hardware fresh = read_hardware(std::string(CPLAB_TEST_SCENARIOS "/hardware/") + file);
    Hardware known = fresh;
    known.known_variants = make_known_variants(known);
    check_same(plan, known, fresh);  // found by name_kernel_variants
    known.known_variants = make_known_variants(known);
    find_kernel_variants(plan, known);
    check_same(plan, known, fresh);
  }
}

TEST_CASE("known variants: of a machine that was changed since they say nothing") {
  const Plan plan = packed_ring();
  Hardware known = read_hardware(CPLAB_TEST_SCENARIOS "/hardware/h200x4.toml");
  known.known_variants = make_known_variants(known);
  find_kernel_variants(plan, known);
  const auto check_changed = [&](auto change) {
    Hardware changed = known;
    change(changed);
    Hardware fresh = changed;
    fresh.known_variants.reset();
    check_same(plan, changed, fresh);
  };
  check_changed([](Hardware& h) { h.gpu.sms = 64; });
  check_changed([](Hardware& h) { h.gpu.sm_major = 8; });
  check_changed([](Hardware& h) { h.choice.hopper = false; });
}

}  // namespace cplab
