// cplab calibrate: measures this machine into a hardware file.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <ostream>

#include "calibrate/calibration.hpp"
#include "calibrate/fill.hpp"
#include "calibrate/hardware_writer.hpp"
#include "cli/calibrating_nodes.hpp"
#include "cli/commands/command.hpp"
#include "cli/files/calibration_file.hpp"
#include "cli/files/imported_messages.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/held_out_runs.hpp"
#include "cmake/version.hpp"
#include "kernels/compiled.hpp"
#include "report/json_parts.hpp"
#include "report/json_writer.hpp"
#include "report/output_file.hpp"

namespace cplab {
namespace {

using measure::State;

double budget_of(const Arguments& arguments) {
  return arguments.number("budget", 300, 0, 1e6);
}

std::uint64_t seed_of(const Arguments& arguments) {
  return static_cast<std::uint64_t>(arguments.integer("seed", 1, 0, INT64_MAX));
}

std::string kernel_set() {
  const kernels::cuda::CompiledKernels* compiled = kernels::cuda::compiled_kernels();
  return compiled == nullptr ? "none" : compiled->build.full ? "full" : "core";
}

void write(const State& state, const std::string& path) {
  OutputFile file(path);
  file.stream() << measure::hardware_text(state.hardware, state.record);
  file.finish();
  file.commit();
}

// What is there already, if it may be continued; else the base.
State state_for(const Arguments& arguments, const measure::Machine& machine, const std::string& path,
                Console& console) {
  State state;
  state.record.commit = commit();
  state.record.kernel_set = kernel_set();
  if (const auto* compiled = kernels::cuda::compiled_kernels()) state.record.kernels = compiled->build_hash;
  state.record.gpu = machine.gpu;
  state.record.gpus = machine.gpus;
  state.record.driver = machine.driver;
  state.record.date = measure::today();
  state.record.seed = seed_of(arguments);
  state.record.base = arguments.text("base", "");
  if (std::optional<State> before = read_calibration(path)) {
    if (!arguments.has("base")) state.record.base = before->record.base;
    if (machine.gpus == 0) {  // nothing is measured: only another base begins anew
      measure::Record same = before->record;
      same.base = state.record.base;
      state.record = same;
    }
    const std::string other = difference(before->record, state.record);
    if (other.empty()) {
      if (machine.gpus > 0)
        console.say(fmt::format("{}: goes on, {} parts are done", path, before->record.done.size()));
      return *std::move(before);
    }
    console.say(path + ": begins anew: " + other);
    state.record.done.clear();
    state.record.warnings.clear();
    state.record.accuracy.clear();
  }
  state.hardware = base_machine(state.record.base, machine);
  state.hardware.name = std::filesystem::path(path).stem().string();
  if (machine.gpus > 0) return state;
  state.record.gpu = state.hardware.gpu.name;
  state.record.gpus = state.hardware.node.gpus;
  measure::Machine of_file;
  of_file.gpus = state.record.gpus;
  list_left_out(state.record, of_file, {});
  return state;
}

void write_result(const State& state, const std::string& path, Console& console) {
  const measure::Record& record = state.record;
  std::ostream& out = console.text();
  out << fmt::format("{}: {} x {}, {} parts measured in {:.0f} s, {} left out\n", path, record.gpus,
                     record.gpu, record.done.size(), record.seconds, record.left_out.size());
  for (const KindAccuracy& kind : record.accuracy)
    out << fmt::format("held-out {}: {} runs, median {:.1f} %, mean {:+.1f} %, nine of ten within {:.1f} %\n",
                       kind.kind, kind.points, 100 * kind.median, 100 * kind.signed_mean,
                       100 * kind.half_width);
  for (const std::string& warning : record.warnings) out << "warning: " << warning << '\n';
  console.write_json_to_option([&](std::ostream& stream) {
    JsonWriter json(stream);
    begin_result(json, "calibrate", "calibrate", versions_of_build());
    json.field("ok", record.warnings.empty());
    json.field("file", path);
    json.field("gpu", record.gpu);
    json.field("gpus", record.gpus);
    json.field("seconds", record.seconds);
    json.list("done", record.done);
    json.list("left_out", record.left_out);
    json.list("warnings", record.warnings);
    json.objects("accuracy", record.accuracy, [&](const KindAccuracy& kind) {
      json.field("kind", kind.kind);
      json.field("points", kind.points);
      json.field("median", kind.median);
      json.field("signed", kind.signed_mean);
      json.field("half_width", kind.half_width);
    });
    json.end_object();
  });
}

// What is measured, or without a budget only imported, into the file that --out names.
State calibrated(const Arguments& arguments, Console& console, const CalibratingNodes& processes) {
  const std::string path = arguments.text("out", "");
  const double budget_s = budget_of(arguments);
  std::vector<ImportedMessages> imported;
  for (const std::string& file : arguments.all("import")) imported.push_back(import_messages(file));
  std::unique_ptr<measure::Measurer> measurer;
  if (budget_s > 0) {
    measure::GpuRequest request{.gpus = static_cast<int>(arguments.integer("gpus", 0, 1, 1024)),
                                .seed = seed_of(arguments),
                                .asked = squares_of(arguments.all("scenario")),
                                .nodes = processes.nodes(),
                                .call_others = [&](const std::string& id) { processes.call_others(id); }};
    measurer = measure::gpu_measurer(request);
  }
  const measure::Machine machine = measurer ? measurer->machine() : measure::Machine();
  if (!measurer && !arguments.has("base") && !std::filesystem::exists(path))
    throw InputError("--budget 0 measures nothing: --base FILE says what the file is to begin with");
  State state = state_for(arguments, machine, path, console);
  for (const ImportedMessages& each : imported)
    for (const std::string& said : take(each.found, each.machine, state.hardware))
      state.record.warnings.push_back("--import: " + said);
  if (!measurer) {
    write(state, path);
    return state;
  }
  const measure::Talk talk{[&](const std::string& line) { console.say("calibrate: " + line); },
                           [&](const State& now) { write(now, path); }};
  const HeldOut asked{seed_of(arguments), machine.gpus, arguments.all("scenario")};
  measure::calibrate(state, *measurer, budget_s, talk, [&](const State& now, double most_s) {
    return run_held_out(asked, now, most_s, talk.say);
  });
  return state;
}

}  // namespace

int command_calibrate(const Arguments& arguments, Console& console) {
  if (!arguments.has("out")) throw InputError("--out FILE: says where the hardware file is to be written");
  for (const char* unused : {"set", "unset", "csv"})
    if (arguments.has(unused)) console.say(fmt::format("note: --{}: not used by calibrate", unused));
  const double budget_s = budget_of(arguments);
  constexpr double beyond_budget_s = 900;  // parts, and starting NCCL, may take longer than is thought
  const CalibratingNodes processes(budget_s + beyond_budget_s);
  if (!processes.measures()) {
    processes.follow(seed_of(arguments));
    return exit_fine;
  }
  try {
    (void)try_output_file(arguments.text("out", ""));
  } catch (const std::runtime_error& error) {
    throw EnvironmentError("--out " + std::string(error.what()));
  }
  try {
    const State state = calibrated(arguments, console, processes);
    processes.release_others();
    write_result(state, arguments.text("out", ""), console);
    return arguments.has("strict") && !state.record.warnings.empty() ? exit_wrong : exit_fine;
  } catch (const measure::Error& error) {
    throw EnvironmentError(error.what());
  }
}

}  // namespace cplab
