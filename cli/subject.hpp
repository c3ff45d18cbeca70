// What a command line is about: a scenario or a plan, by name, as a file or on standard input.
#pragma once

#include <string>

#include "cli/arguments.hpp"
#include "cli/files/scenario_file.hpp"

namespace cplab {

// SCENARIO (a path, a name, - for standard input), or --plan FILE|-. JSON in place of a scenario is a plan,
// where the command takes one. The plan is in `plan` then. Throws InputError, JsonFileError,
// EnvironmentError.
struct Takes {
  bool plan = false;
  bool machine = false;  // that of a plan's scenario counts
  bool form = false;  // a plan whose operations refer to nothing, or take what they cannot, is an InputError
};
ScenarioFile read_subject(const Arguments&, Takes);
// The same scenario once more, with other changes; of no plan.
ScenarioFile reread(const ScenarioFile&, const std::vector<std::string>& changes);

// Throws InputError with the first thing that is wrong with the form of a plan (plan/structure.hpp), and
// `name`. What check says in findings: who follows a plan's references relies on it.
void require_form(const Plan&, const std::string& name);

// What a result says of the command line: changes, options, files with their hashes, and the notes so far.
Given given_of(const ScenarioFile&);

// SHA-256 of what the machine's file holds and, behind it, what each file holds that it includes, in this
// order.
std::string hardware_hash(const std::string& path);

}  // namespace cplab
