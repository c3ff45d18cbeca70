// simulate --rerun RESULT.json: what a result says of its making, as the command line and the scenario that
// make it again.
#pragma once

#include "cli/arguments.hpp"
#include "cli/files/scenario_file.hpp"

namespace cplab {

struct Rerun {
  Arguments arguments;  // with the options that the result was made with
  ScenarioFile file;
};

// Throws InputError where a file holds something else than it did then (its name and both hashes), or the
// command line asks for something that the result decides; EnvironmentError where the program is another one
// (both versions); with --anyway both are notes. JsonFileError for what is no result of simulate.
Rerun read_rerun(const Arguments&);

}  // namespace cplab
