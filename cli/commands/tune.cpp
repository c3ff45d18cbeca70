// cplab tune: fills, shows and checks the cache of measured choices between attention kernels.
#include <fmt/format.h>

#include <ostream>

#include "cli/choosing.hpp"
#include "cli/commands/command.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/memory_need.hpp"
#include "cli/result_text.hpp"
#include "kernels/tune/gpu_bench.hpp"
#include "report/json_parts.hpp"
#include "report/json_writer.hpp"
#include "report/output_file.hpp"

namespace cplab {
namespace {

using namespace kernels::tune;
using kernels::ChoiceWay;

std::string us_text(double seconds, Audience audience) {
  if (!(seconds > 0)) return "-";
  return audience == Audience::people ? fmt::format("{:.1f}", 1e6 * seconds) : fmt::format("{}", seconds);
}

const Tried* taken_of(const Decision& decision) {
  for (const Tried& each : decision.tried)
    if (each.candidate.variant == decision.variant) return &each;
  return nullptr;
}

// How much slower the kernel of the table is than the one that was taken; 0 where one was not timed.
double gain(const Decision& decision) {
  const Tried* taken = taken_of(decision);
  for (const Tried& each : decision.tried)
    if (each.candidate.of_table && each.median_s() > 0 && taken && taken->median_s() > 0)
      return each.median_s() / taken->median_s() - 1;
  return 0;
}

TextTable decision_table(const std::vector<Decision>& decisions, Audience audience) {
  const char* const unit = audience == Audience::people ? "us" : "s";
  TextTable table({{"call", "", Align::left},
                   {"kernel", "", Align::left},
                   {"by the model", unit},
                   {"measured", unit},
                   {"standing", "", Align::left},
                   {"chosen", "", Align::left}});
  for (const Decision& decision : decisions)
    for (const Tried& tried : decision.tried) {
      std::string standing(name_of(tried.standing));
      if (!tried.reason.empty()) standing += ": " + tried.reason;
      const bool taken = tried.candidate.variant == decision.variant;
      table.add_row({decision.call, std::string(tried.candidate.variant),
                     us_text(tried.candidate.predicted_s, audience), us_text(tried.median_s(), audience),
                     standing,
                     taken                      ? "yes"
                     : tried.candidate.of_table ? "static"
                                                : ""});
    }
  return table;
}

struct Report {
  std::string path;
  Machine machine;
  std::vector<Decision> decisions;
  std::vector<std::string> findings;
};

void write_tune_json(std::ostream& out, const Report& report) {
  JsonWriter json(out);
  begin_result(json, "tune", "tune", versions_of_build());
  json.field("ok", report.findings.empty());
  json.field("file", report.path);
  write_machine(json, report.machine);
  json.list("findings", report.findings);
  json.key("choices").begin_array();
  for (const Decision& decision : report.decisions) {
    json.begin_object();
    json.field("call", decision.call);
    json.field("variant", decision.variant);
    json.field("not_measured", decision.not_measured);
    json.field("gain", gain(decision));
    json.objects("tried", decision.tried, [&](const Tried& tried) {
      json.field("variant", tried.candidate.variant);
      json.field("tile_rows", tried.candidate.tile_rows);
      json.field("standing", name_of(tried.standing));
      json.field("reason", tried.reason);
      json.field("of_table", tried.candidate.of_table);
      json.field("predicted_s", tried.candidate.predicted_s);
      json.field("median_s", tried.median_s());
      json.list("samples", tried.samples);
    });
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

int show(const Report& report, const Arguments& arguments, Console& console) {
  const TextTable table = decision_table(report.decisions, Audience::people);
  std::ostream& out = console.text();
  out << fmt::format("{} of {}: {} classes of calls\n", report.path.empty() ? "no file" : report.path,
                     report.machine.gpu, report.decisions.size());
  table.write(out, console.style());
  for (const std::string& finding : report.findings) out << "wrong: " << finding << '\n';
  if (arguments.has("verify") && report.findings.empty()) out << "ok\n";
  console.write_json_to_option([&](std::ostream& stream) { write_tune_json(stream, report); });
  console.write_csv_to_option(
      [&](std::ostream& stream) { decision_table(report.decisions, Audience::files).write_csv(stream); });
  return report.findings.empty() ? exit_fine : exit_wrong;
}

// --show and --verify: the file alone, and with --verify whether it is of this machine, where there is one.
int inspect(const Arguments& arguments, Console& console) {
  Report report{.path = choices_path(arguments), .machine = {}, .decisions = {}, .findings = {}};
  if (report.path.empty()) throw InputError("--choices: HOME is not set, so the file must be named");
  ChoicesFile file = read_choices(report.path);
  report.machine = file.machine;
  if (arguments.has("verify")) {
    report.findings = contradictions(file);
    try {
      const std::string foreign = difference(file.machine, machine_of_gpu());
      if (!foreign.empty()) report.findings.push_back("measured elsewhere: " + foreign);
    } catch (const std::runtime_error& error) {
      console.say("note: not compared with this machine: " + std::string(error.what()));
    }
  }
  report.decisions = std::move(file.decisions);
  return show(report, arguments, console);
}

int fill(const Arguments& arguments, Console& console) {
  const ScenarioFile scenario = scenario_of(arguments, "tune", {});
  const Plan plan = plan_of(scenario, PlanUse::simulate);
  const std::string path = choices_path(arguments);
  const std::optional<kernels::cuda::Rates> rates = rates_of(arguments, scenario);
  const TuningMachine gpu = gpu_machine(arguments.has("deterministic"), false, reserved_sms,
                                        plan.scenario.schedule, rates ? &*rates : nullptr);
  TuneOptions options{.way = choice_way(arguments, ChoiceWay::hybrid), .variants = {}};
  if (!wants_measurements(options.way))
    throw InputError("--choose " + std::string(name_of(options.way)) +
                     ": tune measures; autotune or hybrid says among how many kernels");
  options.rounds = static_cast<int>(arguments.integer("rounds", options.rounds, 1, 1000));
  Report report{.path = path, .machine = {}, .decisions = {}, .findings = {}};
  try {
    report.machine = gpu.here();
    options.variants = gpu.variants();
    Cache cache = open_cache(path, report.machine);
    if (arguments.has("fresh") && !path.empty())
      cache = {.path = path, .file = {.machine = report.machine, .decisions = {}}, .unusable = {}};
    if (!cache.unusable.empty()) throw EnvironmentError(cache.unusable);
    kernels::cuda::MeasuredChoices known = cache.file.choices();
    const AttentionCalls attention(plan, [&](const std::string& text) { console.say(text); });
    const std::unique_ptr<Bench> bench = gpu.bench(options.variants);
    report.decisions = tune_all(attention.calls, options, *bench, known, [&](const std::string& which) {
      console.say("measuring kernels for " + which);
    });
    cache.file.add(report.decisions);
    write_choices(path, cache.file);
  } catch (const NoRightKernel& error) {
    report.findings.emplace_back(error.what());
  } catch (const OutputError&) {
    throw;
  } catch (const InputError&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw EnvironmentError(error.what());
  }
  for (const Decision& decision : report.decisions)
    for (const Tried& tried : decision.tried)
      if (tried.standing == Standing::wrong)
        report.findings.push_back(std::string(tried.candidate.variant) + " for " + decision.call + ": " +
                                  tried.reason);
  return show(report, arguments, console);
}

}  // namespace

int command_tune(const Arguments& arguments, Console& console) {
  const bool inspects = arguments.has("show") || arguments.has("verify");
  if (inspects && !arguments.positional().empty())
    throw InputError("--" + std::string(arguments.has("show") ? "show" : "verify") +
                     ": of the file, without SCENARIO");
  if (inspects) {
    for (const char* option : {"choose", "fresh", "rounds", "deterministic", "hardware", "set", "unset"})
      if (arguments.has(option))
        throw InputError(std::string("--") + option +
                         ": not beside --show or --verify, which measure nothing");
    return inspect(arguments, console);
  }
  return fill(arguments, console);
}

}  // namespace cplab
