// What the settings of --set hardware.* do to a prediction, where its figures do not show it: which change no
// time, and which change the kernels.
#pragma once

#include "cli/files/scenario_file.hpp"
#include "cli/prediction.hpp"
#include "plan/plan.hpp"
#include "sim/hardware.hpp"
#include "sim/simulate.hpp"

namespace cplab {

// Adds a sentence for each such setting to the notes of `prediction`, whose timeline names its kernels. Found
// by simulating without the setting: one simulation more for each.
void note_settings(const ScenarioFile&, const Plan&, const Hardware&, const SimulateOptions&,
                   Prediction& prediction);

}  // namespace cplab
