// The presets of scenarios/models as `list models` prints them.
#pragma once

#include <vector>

#include "report/results.hpp"
#include "report/table.hpp"

namespace cplab {

// Throws InputError for a file there that is no config.
std::vector<ListedModel> listed_models();
TextTable model_table(const std::vector<ListedModel>&);

}  // namespace cplab
