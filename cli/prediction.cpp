// From scenario and plan to predicted figures.
#include "cli/prediction.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/console.hpp"
#include "cli/hardware_file.hpp"
#include "cli/session.hpp"
#include "report/table.hpp"
#include "sim/simulate.hpp"

namespace cplab {

namespace {

// The reader of hardware files does not know that its --set keys began with "hardware.".
Hardware hardware_of(const ScenarioFile& file) {
  try {
    return read_hardware(file.hardware, file.hardware_overrides);
  } catch (const InputError& error) {
    const std::string message = error.what();
    if (!message.starts_with("--set ")) throw;
    throw InputError("--set hardware." + message.substr(6));
  }
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
    throw InputError(file.hardware + ": " + error.table + (error.key.empty() ? "" : " " + error.key) + ": " +
                     error.what());
  } catch (const StalledError& error) {
    throw EnvironmentError(file.hardware + ": the plan hangs on this machine: " + error.what());
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
