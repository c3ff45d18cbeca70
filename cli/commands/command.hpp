// One entry a command; the table is in cli/program.cpp, the functions in NAME.cpp beside this file.
#pragma once

#include <string_view>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/console.hpp"

namespace cplab {

struct Command {
  std::string_view name;
  std::string_view positional;      // "SCENARIO", "[NAME]", ""
  std::string_view summary;         // one line
  std::string_view example;         // a whole command line
  std::vector<OptionSpec> options;  // beside the common ones
  // Returns an exit code of the contract; throws what cli/program.cpp turns into one.
  int (*run)(const Arguments&, Console&) = nullptr;
  WordList words = nullptr;   // what the shell's completion proposes for the first word that is no option
  bool has_timeline = false;  // the outputs of a timeline are written
  bool uses_seed = false;
};

// All of them, in the order of --help, and the options that every one has. The tables of the program: --help,
// completion and the manual page are made of them.
const std::vector<Command>& commands();
const std::vector<OptionSpec>& options_of_all();

int command_list(const Arguments&, Console&);
int command_show(const Arguments&, Console&);
int command_check(const Arguments&, Console&);
int command_simulate(const Arguments&, Console&);
int command_run(const Arguments&, Console&);
int command_verify(const Arguments&, Console&);
int command_reproduce(const Arguments&, Console&);
int command_demo(const Arguments&, Console&);
int command_compare(const Arguments&, Console&);
int command_kernels(const Arguments&, Console&);
int command_calibrate(const Arguments&, Console&);
int command_advise(const Arguments&, Console&);
// Its options; --hardware is that of other commands.
std::vector<OptionSpec> advise_options(const OptionSpec& hardware);
int command_sweep(const Arguments&, Console&);
int command_tune(const Arguments&, Console&);
int command_new(const Arguments&, Console&);
std::vector<OptionSpec> new_options(const OptionSpec& hardware);
int command_explain(const Arguments&, Console&);
int command_schema(const Arguments&, Console&);
int command_completion(const Arguments&, Console&);
int command_man(const Arguments&, Console&);

}  // namespace cplab
