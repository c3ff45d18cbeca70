// cplab verify SCENARIO | --plan FILE: check the plan, execute it, compare with the dense reference; with
// --inject FAULT, after putting a known bug into the plan or the tiles. Neither checker nor comparison learns
// of it.
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/choosing.hpp"
#include "cli/commands/command.hpp"
#include "cli/execution.hpp"
#include "cli/injection.hpp"
#include "cli/memory_need.hpp"
#include "cli/session.hpp"
#include "cli/verify/row_sample.hpp"
#include "cli/verify/verify.hpp"
#include "report/json.hpp"

namespace cplab {

namespace {

// More additions of a result than any implementation has, and far from what would make tolerances overflow.
constexpr int most_declared_sums = 1 << 20;

TextTable tensor_table(const std::vector<TensorFigures>& tensors, const char* right, const char* wrong) {
  TextTable table({{"rank", ""},
                   {"tensor", "", Align::left},
                   {"relative error", ""},
                   {"tolerance", ""},
                   {"largest error", ""},
                   {"ok", "", Align::left}});
  for (const TensorFigures& tensor : tensors) {
    table.add_row({std::to_string(tensor.rank), tensor.tensor, fmt::format("{:.3e}", tensor.rel_l2),
                   fmt::format("{:.3e}", tensor.tolerance), fmt::format("{:.3e}", tensor.max_abs),
                   tensor.ok ? right : wrong});
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
  return tensor_table(worst, "yes", "NO");
}

// With --against nothing is executed: what only an execution has is not to be asked for.
void require_alone(const Arguments& arguments) {
  for (const char* option : {"device", "inject", "save", "order", "timeout", "ranks-per-gpu", "allocator",
                             "jitter", "deterministic", "choose", "choices"}) {
    if (arguments.has(option))
      throw InputError(std::string("--") + option +
                       ": not beside --against, which compares the files of a folder and executes nothing");
  }
}

// And without it not what is asked of somebody else's results.
void require_executed(const Arguments& arguments) {
  if (arguments.has("tensors"))
    throw InputError("--tensors: goes with --against; what is executed has all of its outputs");
  if (arguments.has("sums"))
    throw InputError("--sums: goes with --against; of what is executed the plan says what is added");
}

const char* reference_name(const Problem& problem) {
  return problem.attention == Attention::linear ? "recurrence in double" : "dense reference";
}

// `equal`: what has been found, if all is well; `gave_up`: why the execution did not end, if it did not.
void write_verified(Console& console, const ScenarioFile& file, const Plan& plan, const VerifyReport& report,
                    const std::string& injected, const std::string& equal, const std::string& gave_up) {
  std::ostream& out = console.text();
  const TextStyle style = console.style();
  write_folded(out, describe(file.scenario), style.width, "  ");
  if (!injected.empty()) write_folded(out, injected, style.width, "  ");
  write_findings(out, report.findings, style);
  if (!report.tensors.empty()) {
    worst_table(report.tensors).write(out, console.style());
    out << fmt::format("(of each tensor the worst of {} ranks)\n", plan.ranks.size());
  }
  if (report.ok) {
    out << "ok: " << equal << " within tolerance";
    if (report.sampled_rows)
      out << fmt::format(", of {} of {} rows per tensor and head", *report.sampled_rows, report.rows);
    out << '\n';
  } else {
    out << fmt::format("wrong: {} finding{}{}\n", report.findings.size(),
                       report.findings.size() == 1 ? "" : "s",
                       gave_up.empty() ? "" : "; the execution did not end: " + gave_up);
  }
  console.write_json_to_option([&](std::ostream& stream) { write_json(stream, report); });
  console.write_csv_to_option(
      [&](std::ostream& stream) { tensor_table(report.tensors, "true", "false").write_csv(stream); });
}

// The rows that --sample asks for; unset: all.
std::optional<SampledRows> sample_of(const Arguments& arguments, const Plan& plan) {
  if (!arguments.has("sample")) return std::nullopt;
  if (plan.scenario.problem.has_latent())
    throw InputError("--sample: not with problem.kv_latent, whose weights have gradients of all rows");
  const std::int64_t wanted = arguments.integer("sample", 1, 1, INT64_MAX);
  const auto seed = static_cast<std::uint64_t>(arguments.integer("seed", 1, 0, INT64_MAX));
  SampledRows sample = sample_rows(plan, wanted, seed);
  if (sample.count == sample.all) return std::nullopt;
  return sample;
}

void note_sample(const std::optional<SampledRows>& sample, VerifyReport& report) {
  if (!sample) return;
  report.sampled_rows = sample->count;
  report.rows = sample->all;
}

// What was computed, what from, and in DIR/reference what is right. Nothing into the folder that the inputs
// came from but results.
void save_verified(const Arguments& arguments, Console& console, const Problem& p, const Inputs& inputs,
                   const VerifyResult& result) {
  if (!result.outputs) {
    console.say("--save: the execution did not end, nothing is written");
    return;
  }
  const std::filesystem::path directory = arguments.text("save", "");
  std::vector<SavedTensors> all{{directory, Category::output, *result.outputs},
                                {directory / "reference", Category::output, *result.reference}};
  if (!saves_into_inputs(arguments)) all.push_back({directory, Category::input, inputs});
  save_tensors(p, all);
}

// Of --tensors out,dq: the outputs that --against has; all where none are named.
std::vector<std::string> tensors_asked(const Arguments& arguments) {
  std::vector<std::string> names;
  std::istringstream list(arguments.text("tensors", ""));
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  if (arguments.has("tensors") && names.empty())
    throw InputError("--tensors: needs names of outputs, such as out,dq");
  return names;
}

// Of --sums dq=4,dkv=8: what the implementation that --against holds the results of adds in problem.dtype.
DeclaredSums sums_declared(const Arguments& arguments) {
  DeclaredSums sums;
  if (!arguments.has("sums")) return sums;
  std::istringstream list(arguments.text("sums", "") + ",");  // of nothing one pair, which is not legal
  for (std::string pair; std::getline(list, pair, ',');) {
    const std::size_t equals = pair.find('=');
    const std::string name = pair.substr(0, equals);
    double* const of = name == "out"   ? &sums.out
                       : name == "dq"  ? &sums.dq
                       : name == "dkv" ? &sums.dkv
                                       : nullptr;
    const std::string number = equals == std::string::npos ? "" : pair.substr(equals + 1);
    int additions = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), additions);
    if (of == nullptr || error != std::errc() || end != number.data() + number.size() || additions < 1 ||
        additions > most_declared_sums)
      throw InputError(
          fmt::format("--sums: \"{}\" is not legal; legal: out=N, dq=N, dkv=N (dk and dv), with N from 1 "
                      "to {}, such as dq=4,dkv=8",
                      pair, most_declared_sums));
    *of = additions;
  }
  return sums;
}

// The caller's results, DIR/*.npy, against the reference.
int verify_against(const Arguments& arguments, Console& console, ScenarioFile& file, const Plan& plan,
                   Progress& progress) {
  const std::optional<SampledRows> sample = sample_of(arguments, plan);
  const Problem& p = file.scenario.problem;
  const std::string directory = arguments.text("against", "");
  require_execution_memory(file, plan, true, true);
  const Inputs inputs = inputs_of(arguments, p, [&](const std::string& note) {
    file.notes.push_back(note);
    console.say("note: " + note);
  });
  const DeclaredSums sums = sums_declared(arguments);
  if (arguments.has("sums")) {
    const std::string note =
        "tolerances allow for additions in problem.dtype beside the plan's: " + arguments.text("sums", "");
    file.notes.push_back(note);
    console.say("note: " + note);
  }
  const VerifyResult result = verify_given(plan, inputs, read_outputs(p, directory, tensors_asked(arguments)),
                                           &progress, sample ? &*sample : nullptr, sums);
  progress.end();
  VerifyReport report;
  report.placement_padding_tokens = plan.placement_padding_tokens;
  report.header = header_of(file);
  report.device = "none";
  report.against = directory;
  note_sample(sample, report);
  report.ok = result.ok();
  report.tensors = result.tensors;
  report.findings = result.findings;
  write_verified(console, file, plan, report, "", directory + " is equal to the " + reference_name(p), "");
  return report.ok ? exit_fine : exit_wrong;
}

}  // namespace

int command_verify(const Arguments& arguments, Console& console) {
  ScenarioFile file =
      scenario_of(arguments, "verify", {.plan = true, .executes = true, .rates = on_gpu(arguments, "cpu")});
  if (arguments.has("sample") && arguments.has("save"))
    throw InputError("--save: not beside --sample, which does not compute what is right of every row");
  if (!arguments.has("against")) require_executed(arguments);
  if (arguments.has("against")) {
    require_alone(arguments);
    note_unused_of_execution(arguments, true, file);
    say_notes(console, file);
    Progress progress(console, "building the plan");
    const Plan plan = plan_of(file, PlanUse::check);
    return verify_against(arguments, console, file, plan, progress);
  }
  const std::string injected = arguments.text("inject", "");
  const Fault* fault = fault_of(arguments);
  const bool gpu = on_gpu(arguments, "cpu");
  if (gpu) require_gpu_kernels(file.scenario.problem);
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
  options.reference = arguments.has("save");
  Plan plan = plan_of(file, PlanUse::check);
  const std::optional<SampledRows> sample = sample_of(arguments, plan);
  if (sample) options.sample = &*sample;
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
    if (gpu) require_links(*fault, plan, ranks_per_gpu(arguments));
  }

  options.execution.timeout_s = time_limit(arguments, plan, gpu, 1);
  if (gpu) options.gpu->timeout_s = options.execution.timeout_s;

  const Say say = [&](const std::string& text) { console.say(text); };
  const KernelChoosing choosing = gpu ? choose_kernels(arguments, file, with, plan, say) : KernelChoosing();
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
  if (arguments.has("save")) save_verified(arguments, console, file.scenario.problem, inputs, result);

  for (const std::string& note : result.notes) {
    file.notes.push_back(note);
    console.say("note: " + note);
  }
  VerifyReport report;
  report.placement_padding_tokens = plan.placement_padding_tokens;
  report.header = header_of(file);
  report.device = gpu ? "gpu" : "cpu";
  report.injected = injected;
  note_sample(sample, report);
  report.ok = result.ok();
  report.tensors = result.tensors;
  report.findings = result.findings;

  write_verified(console, file, plan, report, fault ? injected_text(*fault) : "",
                 std::string("checked, executed, and equal to the ") + reference_name(file.scenario.problem),
                 gave_up);
  return report.ok ? exit_fine : exit_wrong;
}

}  // namespace cplab
