// cplab completion bash|zsh, and cplab man: made of the tables of commands, options and keys.
#include <algorithm>
#include <ostream>

#include "cli/commands/command.hpp"
#include "cli/completing.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/manual.hpp"
#include "cli/option_words.hpp"
#include "cli/vocabulary.hpp"

namespace cplab {

namespace {

void refuse_files(const Arguments& arguments, std::string_view command) {
  for (const char* option : {"json", "csv"})
    if (arguments.has(option))
      throw InputError("--" + std::string(option) + ": " + std::string(command) + " prints text alone");
}

}  // namespace

int command_completion(const Arguments& arguments, Console& console) {
  refuse_files(arguments, "completion");
  const std::vector<std::string> shells = shell_words();
  if (arguments.positional().empty())
    throw InputError("completion: needs a shell; legal: " + quoted_list(shells));
  const std::string& shell = arguments.positional().front();
  if (std::find(shells.begin(), shells.end(), shell) == shells.end()) {
    const std::string near = nearest(shell, shells);
    throw InputError("completion " + shell + ": no such shell" +
                     clause(near.empty() ? near : "did you mean " + near + "?") +
                     " Legal: " + quoted_list(shells));
  }
  console.text() << completion_script(shell);
  return exit_fine;
}

int command_man(const Arguments& arguments, Console& console) {
  refuse_files(arguments, "man");
  write_manual(console.text());
  return exit_fine;
}

}  // namespace cplab
