// Device, order and inputs from the command line.
#include "cli/execution.hpp"

#include "cli/console.hpp"
#include "cli/result_text.hpp"
#include "cli/session.hpp"
#include "cli/toml_table.hpp"

namespace cplab {

void require_cpu(const Arguments& arguments, const char* default_device) {
  if (arguments.word("device", default_device, {"cpu", "gpu"}) == "cpu") return;
  throw EnvironmentError(
      "this build has no GPU device (it comes with a later version, and needs a CUDA toolkit and NCCL when "
      "built); --device cpu executes the same plan on the CPU");
}

CpuOptions cpu_options(const Arguments& arguments) {
  CpuOptions options;
  const std::string order = arguments.text("order", "program");
  const auto parsed = parse_order(order);
  if (!parsed) throw InputError("--order " + order + ": not known; legal: program, random:SEED");
  options.order = *parsed;
  constexpr double longest_s = 1e6;
  options.timeout_s = arguments.number("timeout", 300, 1e-3, longest_s);
  return options;
}

void require_memory(const ScenarioFile& file, const Plan& plan) {
  const Problem& problem = plan.scenario.problem;
  double tokens = 0, arenas = 0;
  for (const std::int64_t length : problem.padded_lengths) tokens += static_cast<double>(length);
  for (const RankPlan& rank : plan.ranks) arenas += static_cast<double>(rank.arena_bytes);
  // Inputs and results, each once in global order as double: q, k, v, dout and out, dq, dk, dv.
  const double widths =
      static_cast<double>((problem.heads + problem.kv_heads) * (problem.head_size + problem.value_size));
  const double need = arenas + 2 * tokens * widths * sizeof(double);
  const double there = physical_memory_bytes();
  if (need <= there) return;
  fail_environment(file, problem.packed ? "problem.lengths" : "problem.sequence",
                   std::to_string(static_cast<std::int64_t>(tokens)) +
                       " tokens: executing this on the CPU needs about " + bytes_text(need) +
                       " of memory; this machine has " + bytes_text(there));
}

Inputs inputs_of(const Arguments& arguments, const Problem& problem) {
  if (arguments.has("inputs")) return read_inputs(problem, arguments.text("inputs", ""));
  return random_inputs(problem, static_cast<std::uint64_t>(arguments.integer("seed", 1, 0, INT64_MAX)));
}

}  // namespace cplab
