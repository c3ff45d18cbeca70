// From scenario and plan to predicted figures.
#include "cli/prediction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cli/console.hpp"
#include "cli/files/changes.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/files/hardware_notes.hpp"
#include "cli/forecast_notes.hpp"
#include "cli/session.hpp"
#include "cli/verify/verify.hpp"
#include "kernels/compiled.hpp"
#include "report/table.hpp"
#include "report/variants.hpp"
#include "sim/attention_variant.hpp"
#include "sim/kernel_variants.hpp"
#include "sim/simulate.hpp"

namespace cplab {

namespace {

// The kernel that the first operation of that class takes.
std::string kernel_taken(const std::string& kind, const Plan& plan, const Hardware& hardware) {
  Timeline timeline;
  try {
    name_kernel_variants(plan, hardware, timeline);
  } catch (const HardwareError&) {
    return {};
  }
  for (std::size_t r = 0; r < plan.ranks.size(); ++r)
    for (std::size_t i = 0; i < plan.ranks[r].operations.size(); ++i)
      if (name(plan.ranks[r].operations[i].kind) == kind && !timeline.variants[r][i].empty())
        return std::string(timeline.variants[r][i]);
  return {};
}

// Legal TOML, a line each key, of the [[kernel]] or [[message]] that HardwareError::table and key say is
// missing
// ("kernel", "class=attend dtype=fp16"); its times are made up, so that its origin is "assumed". Empty where
// no table is missing.
std::string table_example(const std::string& table, const std::string& key, const Plan& plan,
                          const Hardware& hardware) {
  if (key.find('=') == std::string::npos || (table != "kernel" && table != "message")) return {};
  std::string text = "[[" + table + "]]\n", kind;
  std::istringstream words(key);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return {};
    const std::string value = word.substr(equals + 1);
    if (word.starts_with("class=")) kind = value;
    text += fmt::format("{} = \"{}\"\n", word.substr(0, equals), value);
  }
  if (table == "kernel") {
    const std::string variant = kernel_taken(kind, plan, hardware);
    if (variant.empty() || !kind.starts_with("attend")) return {};
    const Problem& p = plan.scenario.problem;
    text += fmt::format("variant = \"{}\"\nhead_size = {}\n", variant, p.head_size);
    if (p.value_size != p.head_size) text += fmt::format("value_size = {}\n", p.value_size);
    text += fmt::format(
        "sms = {}\nmask = \"{}\"\nbatch = [1, 1]\nsequence = [8192, 32768]\nheads = [16, 16]\n"
        "seconds = [2e-3, 30e-3]\n",
        hardware.gpu.sms, p.causal ? "causal" : "full");
  } else {
    text += fmt::format("group = {}\nbytes = [65536, 268435456]\nseconds = [30e-6, 10e-3]\n",
                        std::max<std::int64_t>(2, plan.scenario.parallel.ranks));
  }
  return text + "origin = \"assumed\"\nsource = \"where its times are from\"";
}

// Can the hardware file serve the plan without the overrides of --set hardware.*?
bool serves_alone(const ScenarioFile& file, const Plan& plan, const SimulateOptions& options) {
  try {
    (void)simulate(plan, read_hardware(file.hardware), options);
    return true;
  } catch (const HardwareError&) {
    return false;
  }
}

[[noreturn]] void fail(const ScenarioFile& file, const Plan& plan, const SimulateOptions& options,
                       const HardwareError& error) {
  const std::string message = place_of(error) + ": " + error.what();
  if (!file.hardware_overrides.empty() && serves_alone(file, plan, options)) {
    throw CannotPredict(with_section(blamed_overrides(error, file.hardware_overrides)) + ": " + message,
                        error.table, error.key);
  }
  throw CannotPredict(file.hardware + ": " + message, error.table, error.key);
}

// "measured 61.2 %, assumed 38.8 %": those above `least`.
std::string shares_text(std::initializer_list<std::pair<const char*, double>> shares, double least = 0) {
  std::string text;
  for (const auto& [name, share] : shares)
    if (share > least)
      text += fmt::format("{}{} {} %", text.empty() ? "" : ", ", name, format_percent(share));
  return text.empty() ? "no time at all" : text;
}

SimulateOptions options_of(const ScenarioFile& file) {
  SimulateOptions options;
  options.collective_model = file.simulate.stepwise ? CollectiveModel::stepwise : CollectiveModel::curve;
  options.cuda_graph = file.simulate.cuda_graph;
  options.run_ahead = file.simulate.run_ahead;
  options.iteration = file.simulate.iteration;
  options.engine = file.simulate.engine;
  options.slow = file.simulate.disturbance.slow;
  options.jitter = file.simulate.disturbance.jitter;
  options.seed = file.simulate.disturbance.seed;
  options.keep_multiprocessors = file.simulate.keep_multiprocessors;
  return options;
}

}  // namespace

std::vector<std::string> machine_notes(const Problem& problem, const Hardware& hardware) {
  std::vector<std::string> notes = hardware.notes;
  if (!hardware.kernels_of.empty() && problem.attention == Attention::softmax)
    notes.push_back(hardware.name + ": attention is timed by the kernels of " + hardware.kernels_of +
                    ", not by those that run takes");
  return notes;
}

void require_machine(const ScenarioFile& file) {
  if (file.hardware.empty()) {
    std::string shipped;
    for (const std::string& each : scenario_names("hardware")) shipped += " " + each;
    const std::string message = "missing: a machine is needed; shipped:" + shipped +
                                "; for example --set hardware.file=hardware/h100x8.toml";
    if (file.hardware_overrides.empty()) file.table.fail("hardware.file", message);
    const auto& [key, value] = file.hardware_overrides.front();
    throw InputError(hardware_option(key, value) + ": hardware.file is " + message);
  }
}

VariantChoice choice_of_run(const ScenarioFile& file) {
  VariantChoice choice = file.choice;
  if (const kernels::cuda::CompiledKernels* compiled = kernels::cuda::compiled_kernels()) {
    choice.hopper = compiled->build.hopper;
    choice.full = compiled->build.full;
  }
  return choice;
}

Prediction predict(const ScenarioFile& file, const Plan& plan, Progress* progress, SettingNotes settings) {
  require_machine(file);
  Hardware hardware = machine_of(file);
  hardware.choice = choice_of_run(file);
  hardware.known_variants = make_known_variants(hardware);
  Prediction prediction = [&] {
    try {
      return predict(file, plan, hardware, progress);
    } catch (const CannotPredict& error) {
      const std::string example = table_example(error.table, error.key, plan, hardware);
      if (example.empty()) throw;
      CannotPredict with_example = error;
      with_example.example = example;
      throw with_example;
    }
  }();
  name_kernel_variants(plan, hardware, prediction.timeline);
  prediction.notes = machine_notes(plan.scenario.problem, hardware);
  for (std::string& note : fall_back_notes(plan, prediction.timeline))
    prediction.notes.push_back(std::move(note));
  const bool links_set = std::any_of(
      file.hardware_overrides.begin(), file.hardware_overrides.end(),
      [](const auto& each) { return each.first.starts_with("node.") || each.first.starts_with("network."); });
  for (std::string& note : forecast_notes(plan, hardware, prediction.timeline, links_set))
    prediction.notes.push_back(std::move(note));
  if (settings == SettingNotes::no) return prediction;
  if (progress && !file.hardware_overrides.empty())
    progress->stage("simulating without what was set", operation_count(plan), "operations");
  note_settings(file, plan, hardware, options_of(file), prediction);
  return prediction;
}

Prediction predict(const ScenarioFile& file, const Plan& plan, const Hardware& hardware, Progress* progress) {
  SimulateOptions options = options_of(file);
  if (progress) {
    options.progress = progress->counter();
    progress->stage("simulating", operation_count(plan), "operations");
  }
  Prediction prediction;
  OriginSeconds origins;
  // The simulation is another process, which takes what this one knows, and gives nothing back.
  if (hardware.known_variants) find_kernel_variants(plan, hardware);
  try {
    Simulation simulation = simulate(plan, hardware, options);
    prediction.timeline = std::move(simulation.timeline);
    origins = simulation.busy;
    prediction.low_s = simulation.low_s;
    prediction.high_s = simulation.high_s;
    prediction.chain = simulation.critical_use.shares();
    prediction.chain_parts = simulation.critical_parts;
    prediction.chain_s = simulation.time_s;
    prediction.chain_steps = std::move(simulation.critical_steps);
  } catch (const HardwareError& error) {
    fail(file, plan, options, error);
  } catch (const ScenarioError& error) {
    file.fail({error.key, std::string(error.what()) + "; the hardware file is " + file.hardware});
  } catch (const StalledError& error) {
    throw EnvironmentError(file.hardware + ": the plan hangs on this machine: " + one_sentence(error));
  }
  prediction.machine = hardware.name;
  prediction.gpu = hardware.gpu.name;
  prediction.memory = memory_of(plan);
  prediction.figures = derive_figures(plan, prediction.timeline, prediction.memory);
  // Of one phase: the share of the band that its time has of the whole.
  double all_s = 0;
  for (const PhaseTime& phase : prediction.figures.phases) all_s += phase.time_s;
  if (plan.scenario.problem.direction == Direction::backward && all_s > 0) {
    prediction.low_s *= prediction.figures.time_s / all_s;
    prediction.high_s *= prediction.figures.time_s / all_s;
  }
  // A kernel beside traffic has several origins; the simulator has split its time between them.
  prediction.figures.origins = {origins.share(Origin::measured), origins.share(Origin::interpolated),
                                origins.share(Origin::extrapolated), origins.share(Origin::assumed)};
  prediction.fit = fit(prediction.figures, hardware.gpu.capacity_bytes, hardware.fixed_bytes);
  return prediction;
}

std::string describe(const OriginShares& shares) {
  constexpr double printed_as_none = 0.0005;  // "0.0 %"
  return shares_text({{"measured", shares.measured},
                      {"interpolated", shares.interpolated},
                      {"extrapolated", shares.extrapolated},
                      {"assumed", shares.assumed}},
                     printed_as_none);
}

std::string describe(const ChainShares& shares) {
  return shares_text({{"attention", shares.attention},
                      {"other kernels", shares.other_kernels},
                      {"communication", shares.communication},
                      {"host", shares.host}});
}

}  // namespace cplab
