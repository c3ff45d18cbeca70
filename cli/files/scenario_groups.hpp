// Which ranks are one context-parallel group: parallel.groups of a scenario.
#pragma once

#include <vector>

#include "cli/files/toml_table.hpp"
#include "plan/problem.hpp"

namespace cplab {

// Of [parallel], whose ranks and replicas are read: Parallel::groups. Throws InputError.
std::vector<std::vector<int>> read_groups(const Table&, const Parallel&);

}  // namespace cplab
