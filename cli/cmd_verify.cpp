// cplab verify SCENARIO | --plan FILE: check the plan, execute it, compare with the dense reference; with
// --inject FAULT, after putting a known bug into the plan or the tiles. Neither checker nor comparison learns
// of it.
#include <fmt/format.h>

#include <ostream>

#include "cli/choosing.hpp"
#include "cli/command.hpp"
#include "cli/execution.hpp"
#include "cli/injection.hpp"
#include "cli/memory_need.hpp"
#include "cli/session.hpp"
#include "cli/verify/verify.hpp"
#include "report/json.hpp"

namespace cplab {

namespace {

TextTable tensor_table(const std::vector<TensorFigures>& tensors) {
  TextTable table({{"rank", ""},
                   {"tensor", "", Align::left},
                   {"relative error", ""},
                   {"tolerance", ""},
                   {"largest error", ""},
                   {"ok", "", Align::left}});
  for (const TensorFigures& tensor : tensors) {
    table.add_row({std::to_string(tensor.rank), tensor.tensor, fmt::format("{:.3e}", tensor.rel_l2),
                   fmt::format("{:.3e}", tensor.tolerance), fmt::format("{:.3e}", tensor.max_abs),
                   tensor.ok ? "yes" : "NO"});
  }
  return table;
}

// For people: of each tensor the rank that uses most of its tolerance.
TextTable worst_table(const std::vector<TensorFigures>& tensors) {
  std::vector<TensorFigures> worst;
  // A NaN counts as worst of all.
  const auto use = [](const TensorFigures& t) {
    return !t.ok ? 1e300 : t.tolerance > 0 ? t.rel_l2 / t.tolerance : 0;
  };
  for (const TensorFigures& tensor : tensors) {
    bool known = false;
    for (TensorFigures& other : worst) {
      if (other.tensor != tensor.tensor) continue;
      known = true;
      if (use(tensor) > use(other)) other = tensor;
    }
    if (!known) worst.push_back(tensor);
  }
  return tensor_table(worst);
}

}  // namespace

int command_verify(const Arguments& arguments, Console& console) {
  ScenarioFile file = scenario_of(arguments, "verify", {.plan = true});
  const std::string injected = arguments.text("inject", "");
  const Fault* fault = fault_of(arguments);
  const bool gpu = on_gpu(arguments, "cpu");
  const Participation with = gpu ? participate(timeout_of(arguments)) : Participation();
  VerifyOptions options;
  options.execution = cpu_options(arguments);
  if (gpu) {
    options.gpu = gpu_options(arguments, with);
    options.gpu->poison = true;
    options.gpu->instrumented = 0;
  }
  note_unused_of_execution(arguments, gpu, file);
  if (gpu && !file.plan) take_islands(arguments, with, file);
  if (with.speaks()) say_notes(console, file);
  Progress progress(console, "building the plan", with.speaks());
  options.progress = &progress;
  Plan plan = plan_of(file, PlanUse::check);
  progress.stage("making the inputs");
  require_execution_memory(file, plan, gpu, true);
  const Inputs inputs = inputs_of(arguments, file.scenario.problem, [&](const std::string& note) {
    file.notes.push_back(note);
    if (with.speaks()) console.say("note: " + note);
  });
  if (fault) {
    if (gpu && fault->form == FaultForm::substitute) {
      throw InputError("--inject " + injected + ": a tile of the CPU, not for --device gpu");
    }
    inject(*fault, file, plan, options.execution);
  }

  options.execution.timeout_s = time_limit(arguments, plan, gpu, 1);
  if (gpu) options.gpu->timeout_s = options.execution.timeout_s;

  const Say say = [&](const std::string& text) { console.say(text); };
  const KernelChoosing choosing = gpu ? choose_kernels(arguments, with, plan, say) : KernelChoosing();
  if (gpu) choosing.apply(*options.gpu);
  VerifyResult result;
  try {
    result = verify(plan, inputs, options);
  } catch (const NotEnoughMemory& error) {
    throw EnvironmentError(error.what());
  } catch (const GpuError& error) {
    throw EnvironmentError(error.what());
  }
  progress.end();
  const std::string gave_up =
      result.gave_up ? out_of_time(arguments, options.execution.timeout_s, *result.gave_up) : "";
  if (result.gave_up && result.findings.empty()) {
    throw EnvironmentError(gave_up + "; until then nothing was found wrong, and no result was compared");
  }
  if (!with.speaks()) return exit_fine;  // rank 0 has compared all ranks' results
  if (arguments.has("save")) {
    if (result.outputs) {
      save_outputs(file.scenario.problem, *result.outputs, arguments.text("save", ""));
    } else {
      console.say("--save: the execution did not end, nothing is written");
    }
  }

  VerifyReport report;
  report.placement_padding_tokens = plan.placement_padding_tokens;
  report.header = header_of(file);
  report.device = gpu ? "gpu" : "cpu";
  report.injected = injected;
  report.ok = result.ok();
  report.tensors = result.tensors;
  report.findings = result.findings;

  std::ostream& out = console.text();
  out << describe(file.scenario) << '\n';
  if (fault) out << injected_text(*fault) << '\n';
  write_findings(out, result.findings, console.color());
  if (!result.tensors.empty()) {
    worst_table(result.tensors).write(out, console.color());
    out << fmt::format("(of each tensor the worst of {} ranks)\n", plan.ranks.size());
  }
  out << (report.ok
              ? fmt::format("ok: checked, executed, and equal to the {} within tolerance\n",
                            file.scenario.problem.attention == Attention::linear ? "recurrence in double"
                                                                                 : "dense reference")
              : fmt::format("wrong: {} finding{}{}\n", result.findings.size(),
                            result.findings.size() == 1 ? "" : "s",
                            result.gave_up ? "; the execution did not end: " + gave_up : ""));
  console.write_json_to_option([&](std::ostream& stream) { write_json(stream, report); });
  console.write_csv_to_option([&](std::ostream& stream) { tensor_table(result.tensors).write_csv(stream); });
  return report.ok ? exit_fine : exit_wrong;
}

}  // namespace cplab
