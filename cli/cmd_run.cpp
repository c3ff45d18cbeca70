// cplab run SCENARIO: execute and measure.
#include <fmt/format.h>

#include <ostream>

#include "cli/command.hpp"
#include "cli/execution.hpp"
#include "cli/result_text.hpp"
#include "cli/session.hpp"
#include "cli/verify.hpp"
#include "report/trace.hpp"

namespace cplab {

int command_run(const Arguments& arguments, Console& console) {
  const ScenarioFile file = scenario_of(arguments);
  require_cpu(arguments, "gpu");
  CpuOptions options = cpu_options(arguments);
  constexpr std::int64_t most_iterations = 1000000;
  options.warmup = static_cast<int>(arguments.integer("warmup", 1, 0, most_iterations));
  options.iterations = static_cast<int>(arguments.integer("iterations", 3, 1, most_iterations));
  options.keep_log = false;

  const Plan plan = plan_of(file);
  const Problem& problem = file.scenario.problem;
  require_memory(file, plan);
  const Inputs inputs = inputs_of(arguments, problem);
  ExecutionResult result;
  try {
    CpuExecutor executor(plan, options);
    scatter(plan, inputs, executor);
    result = executor.run();
    if (arguments.has("save")) save_outputs(problem, gather(plan, executor), arguments.text("save", ""));
  } catch (const ExecutionHang& hang) {
    throw EnvironmentError(one_sentence(hang));
  } catch (const NotEnoughMemory& error) {
    throw EnvironmentError(error.what());
  }
  const std::vector<MemoryPlan> memory = memory_of(plan);

  RunReport report;
  report.placement_padding_tokens = plan.placement_padding_tokens;
  report.header = header_of(file);
  report.device = "cpu";
  report.time_s = result.time_s;
  report.times_s = result.times_s;
  report.figures = derive_figures(plan, result.timeline, memory);
  // All ranks share this machine's memory: a rank's capacity is an equal share.
  const double share = physical_memory_bytes() / static_cast<double>(plan.ranks.size());
  report.fit = fit(report.figures, static_cast<std::int64_t>(share), 0);
  if (arguments.has("operations")) report.operations = OperationTimes{&plan, &result.timeline};

  std::ostream& out = console.text();
  out << describe(file.scenario) << '\n';
  out << fmt::format("on the CPU, all ranks in one thread: {} ms, median of {}\n", format_ms(result.time_s),
                     result.times_s.size());
  write_figures(out, report.figures, report.fit, console.color());
  console.write_json_to_option([&](std::ostream& stream) { write_json(stream, report); });
  console.write_csv_to_option(
      [&](std::ostream& stream) { rank_table(report.figures, Audience::files).write_csv(stream); });
  if (arguments.has("trace")) {
    const std::string folder = arguments.text("trace", "");
    write_traces(folder, plan, result.timeline, memory);
    console.say(fmt::format("{} traces in {}", plan.ranks.size(), folder));
  }
  for (const int rank : result.overrun_ranks) {
    console.say(fmt::format("rank {}: bytes beyond its arena were written", rank));
  }
  return result.overrun_ranks.empty() ? exit_fine : exit_wrong;
}

}  // namespace cplab
