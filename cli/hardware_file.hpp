// Hardware files: TOML to Hardware (sim/hardware.hpp). The format is described in docs/05-cost-model.md and
// shown by scenarios/hardware/*.toml.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/hardware.hpp"

namespace cplab {

// Reads and validates. `overrides` are (key, value) of --set hardware.KEY=VALUE, such as ("gpu.sms", "114");
// the section of an overridden key becomes `assumed`. Throws InputError (file, line, key; exit code 2).
Hardware read_hardware(const std::string& path,
                       const std::vector<std::pair<std::string, std::string>>& overrides = {});
// The same of text; `file_name` is for messages.
Hardware parse_hardware(const std::string& text, const std::string& file_name,
                        const std::vector<std::pair<std::string, std::string>>& overrides = {});

}  // namespace cplab
