// Hardware files: TOML to Hardware (sim/hardware.hpp). The format is described in docs/05-cost-model.md and
// shown by scenarios/hardware/*.toml.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/files/scenario_file.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// (KEY, VALUE) of --set hardware.KEY=VALUE.
using HardwareOverrides = std::vector<std::pair<std::string, std::string>>;

// Reads and validates. `overrides` are (key, value) of --set hardware.KEY=VALUE, such as ("gpu.sms", "114");
// the section (or list entry) of an overridden key becomes `assumed` if a time depends on the key. Throws
// InputError (file, line, key; exit code 2).
Hardware read_hardware(const std::string& path, const HardwareOverrides& overrides = {});
// The same of text; `file_name` is for messages.
Hardware parse_hardware(const std::string& text, const std::string& file_name,
                        const HardwareOverrides& overrides = {});

// The machine that a scenario names, with its --set hardware.KEY: errors say "--set hardware.KEY". The
// scenario names one. Read where it is asked for first, and valid as long as a copy of the scenario's file.
const Hardware& machine_of(const ScenarioFile&);
// "--set gpu.sms" is "--set hardware.gpu.sms" to the user.
std::string with_section(std::string message);

// "--set gpu.sms": the overrides that the error is put down to, for a machine that would do without them: the
// key that is named itself, else those of its section, else all. Empty without overrides.
std::string blamed_overrides(const HardwareError&, const HardwareOverrides& overrides);
// "kernel class=attend dtype=fp64", "network.fabric": table and key of the error.
std::string place_of(const HardwareError&);

}  // namespace cplab
