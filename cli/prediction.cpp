// From scenario and plan to predicted figures.
#include "cli/prediction.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/console.hpp"
#include "cli/hardware_file.hpp"
#include "cli/session.hpp"
#include "cli/verify.hpp"
#include "report/table.hpp"
#include "sim/simulate.hpp"

namespace cplab {

namespace {

// The reader of hardware files does not know that its --set keys began with "hardware.".
std::string with_section(std::string message) {
  for (std::size_t at = message.find("--set "); at != std::string::npos; at = message.find("--set ", at)) {
    message.insert(at += 6, "hardware.");
  }
  return message;
}

Hardware hardware_of(const ScenarioFile& file) {
  try {
    return read_hardware(file.hardware, file.hardware_overrides);
  } catch (const InputError& error) {
    const std::string message = error.what();
    if (!message.starts_with("--set ")) throw;
    throw InputError(with_section(message));
  }
}

// Would the machine of the file serve the plan as it is?
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
    throw InputError(with_section(blamed_overrides(error, file.hardware_overrides)) + ": " + message);
  }
  throw InputError(file.hardware + ": " + message);
}

}  // namespace

Prediction predict(const ScenarioFile& file, const Plan& plan) {
  if (file.hardware.empty()) {
    std::string shipped;
    for (const std::string& each : scenario_names("hardware")) shipped += " " + each;
    file.table.fail("hardware.file", "missing: a machine is needed; shipped:" + shipped);
  }
  const Hardware hardware = hardware_of(file);
  SimulateOptions options;
  options.collective_model = file.simulate.stepwise ? CollectiveModel::stepwise : CollectiveModel::curve;
  options.cuda_graph = file.simulate.cuda_graph;
  options.run_ahead = file.simulate.run_ahead;
  Prediction prediction;
  OriginSeconds origins;
  try {
    Simulation simulation = simulate(plan, hardware, options);
    prediction.timeline = std::move(simulation.timeline);
    origins = simulation.busy;
    prediction.low_s = simulation.low_s;
    prediction.high_s = simulation.high_s;
  } catch (const HardwareError& error) {
    fail(file, plan, options, error);
  } catch (const ScenarioError& error) {
    file.fail({error.key, std::string(error.what()) + "; the hardware file is " + file.hardware});
  } catch (const StalledError& error) {
    throw EnvironmentError(file.hardware + ": the plan hangs on this machine: " + one_sentence(error));
  }
  prediction.memory = memory_of(plan);
  prediction.figures = derive_figures(plan, prediction.timeline, prediction.memory);
  // A kernel beside traffic has several origins; the simulator has split its time between them.
  prediction.figures.origins = {origins.share(Origin::measured), origins.share(Origin::interpolated),
                                origins.share(Origin::extrapolated), origins.share(Origin::assumed)};
  prediction.fit = fit(prediction.figures, hardware.gpu.capacity_bytes, hardware.fixed_bytes);
  return prediction;
}

std::string describe(const OriginShares& shares) {
  std::string text;
  const auto add = [&](const char* name, double share) {
    if (share > 0) text += fmt::format("{}{} {} %", text.empty() ? "" : ", ", name, format_percent(share));
  };
  add("measured", shares.measured);
  add("interpolated", shares.interpolated);
  add("extrapolated", shares.extrapolated);
  add("assumed", shares.assumed);
  return text.empty() ? "no time at all" : text;
}

}  // namespace cplab
