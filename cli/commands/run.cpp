// cplab run SCENARIO | --plan FILE: execute and measure.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/choosing.hpp"
#include "cli/commands/command.hpp"
#include "cli/execution.hpp"
#include "cli/files/scenario_dynamic_mask.hpp"
#include "cli/memory_need.hpp"
#include "cli/outputs.hpp"
#include "cli/prediction.hpp"
#include "cli/progress.hpp"
#include "cli/result_text.hpp"
#include "cli/session.hpp"
#include "cli/verify/selection.hpp"
#include "cli/verify/verify.hpp"
#include "report/html/pages.hpp"
#include "report/json.hpp"

namespace cplab {

namespace {

struct Measured {
  ExecutionResult result;
  std::optional<GpuRun> gpu;
  std::int64_t capacity_bytes = 0, fixed_bytes = 0;  // a rank's share
  std::string where;
};

void set_repetitions(const Arguments& arguments, int default_warmup, int default_iterations, int& warmup,
                     int& iterations) {
  constexpr std::int64_t most = 1000000;
  warmup = static_cast<int>(arguments.integer("warmup", default_warmup, 0, most));
  iterations = static_cast<int>(arguments.integer("iterations", default_iterations, 1, most));
}

ExecutionResult execute(const Arguments& arguments, const Plan& plan, Executor& executor, bool speaks) {
  // What they cannot see is verify's to say.
  const Inputs inputs = inputs_of(arguments, plan.scenario.problem, [](const std::string&) {});
  scatter(plan, inputs, executor);
  if (auto* const gpu = dynamic_cast<GpuExecutor*>(&executor); gpu != nullptr)
    select_keys_on_gpus(plan, &inputs, 0, *gpu);
  ExecutionResult result = executor.run();
  if (arguments.has("save") && speaks) {
    const std::string directory = arguments.text("save", "");
    const Outputs outputs = gather(plan, executor);
    std::vector<SavedTensors> all{{directory, Category::output, outputs}};
    if (!saves_into_inputs(arguments)) all.push_back({directory, Category::input, inputs});
    save_tensors(plan.scenario.problem, all);
  }
  return result;
}

Measured run_on_cpu(const Arguments& arguments, const Plan& plan, Progress& progress) {
  CpuOptions options = cpu_options(arguments);
  options.progress = progress.counter();
  set_repetitions(arguments, 1, 3, options.warmup, options.iterations);
  options.keep_log = false;
  const int iterations = options.warmup + options.iterations;
  progress.stage(fmt::format("{} iterations, {} of them measured", iterations, options.iterations),
                 iterations * operation_count(plan), "operations");
  options.timeout_s = time_limit(arguments, plan, false, iterations);
  Measured measured;
  CpuExecutor executor(plan, options);
  measured.result = execute(arguments, plan, executor, true);
  // All ranks share this machine's memory: a rank's capacity is an equal share.
  const double share = physical_memory_bytes() / static_cast<double>(plan.ranks.size());
  measured.capacity_bytes = static_cast<std::int64_t>(share);
  measured.where = "the CPU, all ranks in one thread";
  return measured;
}

Measured run_on_gpu(const Arguments& arguments, const Participation& with, const Plan& plan,
                    const KernelChoosing& choosing) {
  GpuOptions options = gpu_options(arguments, with);
  choosing.apply(options);
  set_repetitions(arguments, 5, 20, options.warmup, options.iterations);
  // A GPU that was idle runs faster at first than in training. Who names a number of iterations gets so many.
  if (!arguments.has("warmup")) options.settle_s = clocks_settle_s;
  options.instrumented = 5;
  options.timeout_s =
      time_limit(arguments, plan, true, options.warmup + options.iterations + options.instrumented);
  options.cuda_graph = arguments.has("graph");
  if (options.cuda_graph && plan.scenario.problem.direction == Direction::backward)
    throw InputError(
        "--graph: one graph is timed as a whole; with problem.direction=\"backward\" leave it out");
  Measured measured;
  GpuExecutor executor(plan, options);
  if (arguments.has("inputs") || arguments.has("save")) {
    measured.result = execute(arguments, plan, executor, with.speaks());
  } else {  // results are not read: random values made on the GPU will do, in no global order
    const auto seed = static_cast<std::uint64_t>(arguments.integer("seed", 1, 0, INT64_MAX));
    measured.result = run_with_random_inputs(plan, seed, executor);
  }
  measured.gpu = executor.facts();
  measured.capacity_bytes = executor.capacity_bytes();
  for (const RankMemory& memory : measured.gpu->memory) {
    measured.fixed_bytes = std::max(measured.fixed_bytes, memory.context_bytes + memory.communicator_bytes);
  }
  measured.where = measured.gpu->environment.front().second;
  if (options.ranks_per_gpu > 1) {
    measured.where +=
        fmt::format(", {} ranks a GPU (for correctness: its times say little)", options.ranks_per_gpu);
  }
  if (options.cuda_graph) measured.where += ", one CUDA graph";
  return measured;
}

MeasuredOn measured_on(const std::optional<GpuRun>& gpu, const Plan& plan) {
  if (!gpu) return {.processor = ChainResource::cpu};
  return {ChainResource::gpu, between_layers(plan.scenario.schedule), gpu->clock_residual_s};
}

int report_run(const Arguments& arguments, Console& console) {
  const bool gpu = on_gpu(arguments, "gpu");
  ScenarioFile file =
      scenario_of(arguments, "run", {.plan = true, .executes = true, .rates = gpu, .form = true});
  if (gpu) require_gpu_kernels(file.scenario.problem);
  const Participation with = gpu ? participate(timeout_of(arguments)) : Participation();
  note_unused_of_execution(arguments, gpu, file);
  if (gpu && !file.plan) take_islands(arguments, with, file);
  note_selection(file.scenario.problem, file.notes);
  if (with.speaks()) say_notes(console, file);
  Progress progress(console, "building the plan", with.speaks());
  const Plan plan = plan_of(file, PlanUse::simulate);
  progress.stage("measuring");
  if (!gpu || arguments.has("inputs") || arguments.has("save")) {
    require_execution_memory(file, plan, gpu, false);
  }
  const Say say = [&](const std::string& text) { console.say(text); };
  const KernelChoosing choosing = gpu ? choose_kernels(arguments, file, with, plan, say) : KernelChoosing();
  const Measured measured =
      gpu ? run_on_gpu(arguments, with, plan, choosing) : run_on_cpu(arguments, plan, progress);
  progress.end();
  if (!with.speaks()) return exit_fine;
  const ExecutionResult& result = measured.result;
  const std::vector<MemoryPlan> memory = memory_of(plan);

  for (const std::string& note : fall_back_notes(plan, result.timeline)) {
    file.notes.push_back(note);
    console.say("note: " + note);
  }

  RunReport report;
  report.placement_padding_tokens = plan.placement_padding_tokens;
  report.header = header_of(file);
  report.device = gpu ? "gpu" : "cpu";
  report.time_s = result.time_s;
  report.times_s = result.times_s;
  report.undisturbed_phases = result.phases;
  report.gpu = measured.gpu;
  report.figures = derive_figures(plan, result.timeline, memory);
  const Fit fitted = fit(report.figures, measured.capacity_bytes, measured.fixed_bytes);
  report.fit = fitted;
  report.path = measured_path(plan, result.timeline, measured_on(measured.gpu, plan));
  report.variants = variant_figures(plan, result.timeline);
  if (arguments.has("operations")) report.operations = OperationTimes{&plan, &result.timeline};

  std::ostream& out = console.text();
  const auto line = [&](const std::string& text) { write_folded(out, text, console.style().width, "  "); };
  line(describe(file.scenario));
  line(fmt::format("on {}: {}, median of {}", measured.where, time_text(result.time_s),
                   result.times_s.size()));
  line(fit_text(fitted));
  line("critical path (back from the end): " + describe(report.path.by_use.shares()) +
       (gpu ? "" : "; host: turns of operations that it does not wait for"));
  if (gpu) line("of it " + chain_text(report.path.parts, report.path.time_s()));
  if (report.path.undecided > 0)
    line(fmt::format("of its {} communications the clocks ({} apart) do not say for {} which end came last",
                     report.path.communications, time_text(2 * measured.gpu->clock_residual_s),
                     report.path.undecided));
  write_variants(out, report.variants, console.style());
  write_figures(out, report.figures, fitted, console.style(), arguments.has("ranks"));
  write_page_output(arguments, console, [&](std::ostream& stream) {
    PageTitle title = page_title(file.scenario);
    title.lead += ", on " + measured.where;
    write_page(stream, title, report, {plan, result.timeline, memory, report.figures});
  });
  console.write_json_to_option([&](std::ostream& stream) { write_json(stream, report); });
  console.write_csv_to_option([&](std::ostream& stream) {
    rank_table_for_files(report.figures, {result.time_s, std::nullopt, fitted}).write_csv(stream);
  });
  write_timeline_outputs(arguments, console, {plan, result.timeline, memory, report.figures});
  for (const int rank : result.overrun_ranks) {
    console.say(fmt::format("rank {}: bytes beyond its arena were written", rank));
  }
  return result.overrun_ranks.empty() ? exit_fine : exit_wrong;
}

}  // namespace

int command_run(const Arguments& arguments, Console& console) {
  try {
    return report_run(arguments, console);
  } catch (const ExecutionHang& hang) {
    throw EnvironmentError(one_sentence(hang) + (hang.timed_out ? " (--timeout SECONDS gives it more)" : ""));
  } catch (const NotEnoughMemory& error) {
    throw EnvironmentError(error.what());
  } catch (const GpuError& error) {
    throw EnvironmentError(error.what());
  }
}

}  // namespace cplab
