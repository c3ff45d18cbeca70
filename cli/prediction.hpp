// The simulator behind one call: hardware file, kernel costs, clock, and the figures derived from them.
#pragma once

#include <vector>

#include "cli/files/scenario_file.hpp"
#include "cli/progress.hpp"
#include "derive/memory.hpp"
#include "plan/plan.hpp"
#include "report/figures.hpp"
#include "report/results.hpp"
#include "report/timeline.hpp"
#include "sim/hardware.hpp"

namespace cplab {

struct Prediction {
  Timeline timeline;
  std::vector<MemoryPlan> memory;  // by rank
  Figures figures;
  Fit fit;
  double low_s = 0, high_s = 0;  // the band around figures.time_s
  ChainShares chain;
  ChainParts chain_parts;
  double chain_s = 0;  // what the parts are of: both phases
  std::vector<ChainStep> chain_steps;
  std::string machine, gpu;        // what the hardware file calls them
  std::vector<std::string> notes;  // what a reader of the times must know, a sentence each
};

// The hardware file is right and cannot serve the plan: a table is missing, or there are too few GPUs.
struct CannotPredict : InputError {
  explicit CannotPredict(const std::string& message, std::string table_of = {}, std::string key_of = {})
      : InputError(message), table(std::move(table_of)), key(std::move(key_of)) {}
  std::string table, key;  // HardwareError's
  std::string example;     // TOML of the table that is missing, in lines; may be empty
};

// What a reader of any time of that machine must know: what its file says of itself, and whose kernels it
// timed.
std::vector<std::string> machine_notes(const Problem&, const Hardware&);

// Throws InputError if the scenario names no hardware file.
void require_machine(const ScenarioFile&);

// How `run` of this program would choose kernels: among those of this build; of a build without any, among
// those that one with a CUDA toolkit has by default.
VariantChoice choice_of_run(const ScenarioFile&);

// Whether the notes say which settings of --set hardware.* change nothing: one more simulation for each.
enum class SettingNotes : bool { no, yes };

// Throws InputError when the scenario names no hardware file or the file is wrong, and CannotPredict.
Prediction predict(const ScenarioFile&, const Plan&, Progress* progress = nullptr,
                   SettingNotes = SettingNotes::yes);
// The same on a machine that was made of the file's, or is another one. The notes are not filled in.
Prediction predict(const ScenarioFile&, const Plan&, const Hardware&, Progress* progress = nullptr);

// "measured 61.2 %, assumed 38.8 %": the shares of busy time that are not zero.
std::string describe(const OriginShares&);
// "attention 93.1 %, communication 6.9 %": the same of the chain.
std::string describe(const ChainShares&);

}  // namespace cplab
