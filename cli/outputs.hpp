// The files and folders that the command line names for results, tried before the work begins.
#pragma once

#include "cli/arguments.hpp"

namespace cplab {

// Throws InputError ("--json FILE: cannot be written: ...") if the target of --json, --csv, --html, --trace
// or --save cannot be written, or two of them are one file. Ranks other than 0 write nothing and test
// nothing.
void try_outputs(const Arguments& arguments);

// Whether the file is what `-` is: standard output.
bool is_stdout(const std::string& file);

}  // namespace cplab
