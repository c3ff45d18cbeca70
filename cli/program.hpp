// The whole program as one call, for main and for tests.
#pragma once

#include <iosfwd>

namespace cplab {

// argv as of main. Results go to `out`, talk and errors to `err`. Never throws; returns the exit code: 0
// fine, 1 ran and is wrong, 2 usage or scenario error, 3 environment.
int run_program(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace cplab
