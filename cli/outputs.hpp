// The files and folders that the command line names for results, tried before the work begins.
#pragma once

#include <functional>
#include <iosfwd>

#include "cli/arguments.hpp"
#include "cli/console.hpp"
#include "report/timeline_output.hpp"

namespace cplab {

// Throws EnvironmentError ("--json FILE: cannot be written: ...") if the target of --json, --csv, --html,
// --save or an output of a timeline cannot be written, InputError if one has no name or two of them are one
// file. Ranks other than 0 write nothing and test nothing.
void try_outputs(const Arguments& arguments);

// Writes all outputs of a timeline that the command line asks for, and says what was written. Throws
// OutputError.
void write_timeline_outputs(const Arguments& arguments, Console& console, const TimelineResult& result);

// Writes the page that --html asks for, if it does, and says so. Throws OutputError.
void write_page_output(const Arguments& arguments, Console& console,
                       const std::function<void(std::ostream&)>& write);

// Whether the file is what `-` is: standard output.
bool is_stdout(const std::string& file);

}  // namespace cplab
