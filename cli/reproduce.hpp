// Published figures beside ours: one function for each file of scenarios/published/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/progress.hpp"
#include "report/results.hpp"

namespace cplab {

struct Published {
  std::string_view name;  // scenarios/published/NAME.toml holds the scenario and the published figures
  std::string_view unit;  // of the rows
  // `sets` are those of --set; `progress` is told the rank counts. Throws InputError.
  ReproduceReport (*reproduce)(const std::string& file, const std::vector<std::string>& sets,
                               Progress& progress);
};

const std::vector<Published>& published();

// TransformerEngine PR 2916: peak memory of the P2P forward, split into four columns, in MiB.
ReproduceReport reproduce_te_p2p_memory(const std::string& file, const std::vector<std::string>& sets,
                                        Progress& progress);

}  // namespace cplab
