// The whole program as one call, for main and for tests.
#pragma once

#include <iosfwd>

#include "cli/caller.hpp"
#include "cli/files/text_file.hpp"

namespace cplab {

// What a caller in the same process hands over beside the words of a command line.
struct Caller {
  TextsForFiles::Texts texts;  // by the name that the words give them: read in place of such files
  StopFlag stop{false};
};

// argv as of main. Results go to `out`, talk and errors to `err`. Never throws; returns the exit code: 0
// fine, 1 ran and is wrong, 2 usage or scenario error, 3 environment, 130 stopped by the caller. Calls from
// several threads run beside one another.
int run_program(int argc, const char* const* argv, std::ostream& out, std::ostream& err,
                const Caller* caller = nullptr);

}  // namespace cplab
