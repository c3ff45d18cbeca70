// What of a scenario only the registry knows: [parallel] algorithm and placement, and the options in
// [schedule].
#pragma once

#include <set>
#include <string>
#include <vector>

#include "algorithms/core/list.hpp"
#include "cli/files/toml_table.hpp"

namespace cplab {

// parallel.algorithm as the table has it, empty if it has none: to be asked before --set is applied.
std::string algorithm_of(const Table& root);

// Reads algorithm, placement and schedule into `scenario`; says in `notes` what it left out. `file_algorithm`
// is the algorithm of the file before --set. Throws InputError for names and values that do not exist.
void read_choices(const Table& root, const std::string& file_algorithm, Scenario& scenario,
                  std::vector<std::string>& notes);

// Where another algorithm was set than the schedule was written for: takes out of `schedule` the options that
// `was` has (with a legal value) and `is` has not (or not with that value, or not for that problem), except
// those in `given`, which were asked for together with `is` and are errors if it lacks them. Returns what was
// taken out as "key=value".
std::vector<std::string> leave_out_options(Schedule& schedule, const std::set<std::string>& given,
                                           const Algorithm& was, const Algorithm& is, const Problem&);

}  // namespace cplab
