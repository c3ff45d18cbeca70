// Scenario files: TOML to a resolved Scenario, the settings of [simulate] and the hardware file's path.
// Every error is an InputError (exit code 2) that names file, line, key and what is legal.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/files/scenario_disturbance.hpp"
#include "cli/files/toml_table.hpp"
#include "plan/plan.hpp"
#include "plan/problem.hpp"
#include "report/results.hpp"
#include "sim/hardware.hpp"
#include "sim/simulate.hpp"

namespace cplab {

struct SimulateSettings {
  bool stepwise = false;  // collective_model = "stepwise"; else "curve"
  bool cuda_graph = false;
  std::int64_t run_ahead = 0;  // operations; 0: what the hardware file says
  std::int64_t iteration = 0;  // since the GPUs were idle; 0: one of many
  FlowEngineChoice engine = FlowEngineChoice::automatic;
  Disturbance disturbance;
  bool keep_multiprocessors = false;  // no key: for the commands that show them
};

// Machines by hardware file and what --set changes of it.
using Machines = std::map<std::pair<std::string, std::vector<std::pair<std::string, std::string>>>, Hardware>;

struct ScenarioFile {
  std::string path;  // of the file that was read
  Table table;       // for messages
  Scenario scenario;
  SimulateSettings simulate;
  std::string hardware;        // path of the hardware file; empty: the scenario names none
  std::string hardware_given;  // the same as the scenario says it
  // --set hardware.KEY=VALUE as (KEY, VALUE), for the reader of the hardware file.
  std::vector<std::pair<std::string, std::string>> hardware_overrides;
  std::vector<std::string> sets;   // of --set and --unset (cli/files/changes.hpp)
  std::vector<std::string> notes;  // what was left out of the file's own, a sentence each: to be said
  VariantChoice choice = {};       // of --choose, for the simulator
  // What results say of the command line (report/results.hpp): the name under which `path` was found, the
  // command's own options, and files beside the hardware file.
  std::string argument = {};
  std::vector<std::pair<std::string, std::string>> options = {};
  std::vector<GivenFile> files = {};
  std::vector<std::string> read_notes = {};  // of `notes`, those that reading it left
  std::string text = {};                     // of standard input, which can be read once
  // The options of [schedule] that somebody set, before resolve() added the others; of a plan or a result,
  // which has all of them, none.
  std::optional<Schedule> asked = {};
  // Those that were read (machine_of). Copies share them, and what is read again with other changes.
  std::shared_ptr<Machines> machines = std::make_shared<Machines>();
  // Of a plan file, until plan_of takes it.
  std::shared_ptr<Plan> plan = {};

  // Throws the error of a later stage (ScenarioError) as one of this file: with its line, and the --set of
  // the same section that stand beside it.
  [[noreturn]] void fail(const ScenarioError&) const;
  [[noreturn]] void fail(const std::string& key, const std::string& message) const;
};

// `argument` as for find_scenario. `sets` holds the "section.key=value" of --set in order, and what is
// changed otherwise (cli/files/changes.hpp). A section [published] is left to `reproduce`. The scenario is
// resolved (algorithms/core/resolve.hpp): canonical names, defaults filled in, validated.
ScenarioFile read_scenario(const std::string& argument, const std::vector<std::string>& sets);
// The same of text that is no file; relative hardware paths are looked up in scenarios/ alone.
ScenarioFile parse_scenario(const std::string& text, const std::string& file_name,
                            const std::vector<std::string>& sets);
// The same of what the file at `path` holds, or held: of its section `inside`, if that is given.
ScenarioFile read_scenario_text(const std::string& text, const std::string& path, const std::string& inside,
                                const std::vector<std::string>& sets);

// What stands for the file of a scenario that is resolved already, of a plan or of a result: `sections` are
// those beside problem, parallel and schedule; `sets` may change these alone. The hardware file is looked for
// beside the file `beside`, unless `hardware` says where it is, as --hardware does.
ScenarioFile resolved_scenario(const std::string& file_name, Scenario,
                               const std::vector<ScenarioSection>& sections,
                               const std::vector<std::string>& sets, const std::string& beside,
                               const std::string& hardware = "");

// The folder scenarios/: CPLAB_SCENARIOS, else from the program's folder ../share/cplab/scenarios
// (PREFIX/bin), else
// ../../scenarios (build/release/); of the Python module the one beside it, where it is installed.
// Empty if there is none.
std::string scenarios_folder();
// Throws EnvironmentError if there is none, naming CPLAB_SCENARIOS.
void require_scenarios_folder();

// Names of the *.toml files in scenarios/`folder` (no recursion), sorted, relative to scenarios/.
std::vector<std::string> scenario_names(const std::string& folder);
// Of all folders that hold scenarios: those that lie in scenarios/ itself first.
std::vector<std::string> all_scenario_names();

// The path of a scenario: a path, a name relative to scenarios/ with or without ".toml", or the name of a
// file in one of its folders. Throws InputError with the nearest name.
std::string find_scenario(const std::string& argument);
// The path that table.text("file") of [hardware] means: a path, relative to the folder of `scenario` (empty:
// there is none) or to scenarios/, or a name that `list hardware` prints. Of --set it is relative to the
// current folder, then to scenarios/, and a bare name may also lie beside the scenario. Throws InputError
// with the nearest name; EnvironmentError if it may be a shipped name and there is no folder scenarios/.
std::string find_hardware(const Table& table, const std::string& scenario);
// The same of table.text("include") of the hardware file `including`, beside which it is looked for first.
std::string find_included(const Table& table, const std::string& including);
// The same of --hardware FILE|NAME.
std::string find_hardware(const std::string& argument);

}  // namespace cplab
