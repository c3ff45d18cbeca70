// [rates] of hardware files: what `simulate` chooses kernels by is what `run` has compiled in for such a GPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "algorithms/core/build.hpp"
#include "calls/converter.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/files/toml_table.hpp"
#include "kernels/choice/choose.hpp"
#include "sim/attention_variant.hpp"

namespace cplab::testing {
namespace {

using namespace kernels::cuda;

std::string hardware_path(const std::string& name) {
  return std::string(CPLAB_TEST_SCENARIOS) + "/hardware/" + name + ".toml";
}

std::vector<std::string> shipped() {
  std::vector<std::string> names;
  for (const std::string& each : scenario_names("hardware")) names.push_back(each.substr(each.find('/') + 1));
  for (std::string& name : names) name = name.substr(0, name.find(".toml"));
  return names;
}

// How `run` chooses on a GPU of that name.
VariantOptions as_run(const Hardware& hardware, const KernelBuild& build) {
  const GpuSpec& gpu = hardware.gpu;
  return {.sm_major = gpu.sm_major,
          .sms = gpu.sms,
          .build = build,
          .sm_minor = gpu.sm_minor,
          .rates = &shipped_rates(gpu.name, gpu.sms, gpu.sm_major, gpu.sm_minor)};
}

// The attention calls of rank 0 that `simulate` and `run` give to other kernels; `checked` counts all.
int chosen_apart(const Scenario& scenario, const Hardware& hardware, const KernelBuild& build, int& checked) {
  const Plan plan = build_plan(scenario);
  const CallConverter calls(plan.ranks.front(), scenario.problem.dtype);
  AttentionVariants simulated(hardware);
  int apart = 0;
  for (const Operation& op : plan.ranks.front().operations) {
    if (op.kind != OpKind::attend && op.kind != OpKind::attend_backward) continue;
    const std::string_view name = simulated.of(calls, op, 0).name;
    std::visit(
        [&](const auto& call) {
          if constexpr (requires {
                          choose_variant(call, VariantOptions{}).variant->rank;
                          call.segments;
                        })
            apart += choose_variant(call, as_run(hardware, build)).variant->name != name;
        },
        calls.calls(op).front().call);
    ++checked;
  }
  return apart;
}

}  // namespace

TEST_CASE("rates: a shipped hardware file has those that are compiled in for its GPU") {
  REQUIRE(shipped().size() >= 10);
  for (const std::string& name : shipped()) {
    CAPTURE(name);
    const Hardware hardware = read_hardware(hardware_path(name));
    CHECK(std::all_of(hardware.rates.values.begin(), hardware.rates.values.end(),
                      [](double value) { return value > 0; }));
    const GpuSpec& gpu = hardware.gpu;
    CHECK(hardware.rates.values == shipped_rates(gpu.name, gpu.sms, gpu.sm_major, gpu.sm_minor).values);
  }
}

TEST_CASE("rates: on every shipped machine simulate and run choose the same kernels") {
  for (const std::string& name : shipped()) {
    CAPTURE(name);
    const Hardware hardware = read_hardware(hardware_path(name));
    // Files whose attention tables are all of portable kernels are of a build without Hopper's.
    const std::set<std::string> of_older_builds = {"h100-2026-11-21", "h100-measured", "h200x4-2026-11-21",
                                                   "h200x4-measured"};
    const KernelBuild build{.hopper = !of_older_builds.contains(name)};
    int checked = 0;
    for (const char* const algorithm : {"ring", "all_gather"})
      for (const char* const lengths : {"512", "4096", "[300, 2048, 1100, 648]"})
        for (const char* const head_size : {"64", "128"}) {
          CAPTURE(algorithm);
          CAPTURE(lengths);
          const bool packed = *lengths == '[';
          const ScenarioFile file = read_scenario(
              packed ? "packed" : "ring",
              {std::string("parallel.algorithm=") + algorithm, "parallel.ranks=2",
               std::string(packed ? "problem.lengths=" : "problem.sequence=") + lengths, "problem.heads=8",
               "problem.kv_heads=2", std::string("problem.head_size=") + head_size});
          CHECK(chosen_apart(file.scenario, hardware, build, checked) == 0);
        }
    CHECK(checked > 40);
  }
}

TEST_CASE("rates: GPUs of no shipped file have those of their compute capability") {
  CHECK(shipped_rates("NVIDIA H200", 132, 9, 0).source == "h200x4.toml");
  CHECK(shipped_rates("NVIDIA GH200", 132, 9, 0).source == "h200x4.toml");
  CHECK(shipped_rates("NVIDIA H100 80GB HBM3", 132, 9, 0)[Rate::memory_bytes_s] == 3.35e12);
  const Rates& a100 = shipped_rates("NVIDIA A100-SXM4-80GB", 108, 8, 0);
  CHECK(a100[Rate::memory_bytes_s] == 2.04e12);
  CHECK(a100[Rate::mma_forward_d64_us] == shipped_rates(9, 0)[Rate::mma_forward_d64_us]);
  CHECK(a100.source == "h200x4.toml, with the memory of compute capability 8.0");
}

TEST_CASE("rates: a file may set some of them, and what is wrong is said with its line") {
  const std::string path = hardware_path("h100x8");
  const Hardware changed =
      read_hardware(path, {{"rates.hopper_forward.d64_rows64_us", "0.5"}, {"rates.launch_us", "4"}});
  CHECK(changed.rates[Rate::hopper_forward_d64_rows64_us] == 0.5);
  CHECK(changed.rates[Rate::launch_us] == 4);
  CHECK(changed.rates[Rate::memory_bytes_s] == 3.35e12);
  CHECK_THROWS_WITH_AS(
      read_hardware(path, {{"rates.tile.beyond_keys", "0"}}),
      "--set rates.tile.beyond_keys: must be above 0: blocks of 128 keys that a tile takes beside its own: "
      "first product, epilogue",
      InputError);
  CHECK_THROWS_AS(read_hardware(path, {{"rates.tile.beyond_key", "1"}}), InputError);
}

}  // namespace cplab::testing
