// The program as a process: its signals, its standard output, and files that are cut short.
#pragma once

namespace cplab {

// run_program (cli/program.hpp) on standard output and standard error. Unfinished files are removed when a
// signal ends the program. A standard output that is closed or full is said, and exit code 3 if nothing worse
// happened.
int run_process(int argc, const char* const* argv);

}  // namespace cplab
