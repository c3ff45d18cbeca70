// Fuzz target: a hardware file. A machine that the reader accepts is asked for the times of a small plan.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/files/toml_table.hpp"
#include "sim/kernel_cost.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

const cplab::Plan& small_plan() {
  static const cplab::Plan plan = cplab::build_plan(
      cplab::parse_scenario("[problem]\nbatch = 2\nsequence = 300\nheads = 4\nkv_heads = 2\nhead_size = 64\n"
                            "dtype = \"bf16\"\nmask = \"causal\"\n[parallel]\nranks = 4\nalgorithm = \"" +
                                std::string(cplab::algorithms().front().name) + "\"\n",
                            "plan.toml", {})
          .scenario);
  return plan;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const cplab::Plan& plan = small_plan();
  // Where files of data sheets find what they leave out.
  setenv("CPLAB_SCENARIOS", CPLAB_TEST_SCENARIOS, 0);
  try {
    const cplab::Hardware hardware = cplab::parse_hardware(text, "hardware.toml");
    const cplab::KernelCostFunction cost = cplab::standard_kernel_cost(hardware);
    cplab::require_ranks(hardware, plan.scenario.parallel.world());
    const cplab::CallConverter calls(plan.ranks.front(), plan.scenario.problem.dtype);
    for (const cplab::Operation& op : plan.ranks.front().operations)
      if (!cplab::is_communication(op.kind) && op.kind != cplab::OpKind::host_sync)
        (void)cost(plan, calls, op);
    (void)cplab::find_flow(hardware, {.group = 4, .bytes = 4096});
  } catch (const cplab::InputError&) {
  } catch (const cplab::HardwareError&) {
  }
  return 0;
}
