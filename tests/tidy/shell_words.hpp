// Which commands a shell script runs, for the rule that each is installed or does not matter.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cplab::tidy {

struct ShellCommand {
  std::string name;
  int line = 0;  // 1 is the first
};

struct ShellWords {
  std::vector<ShellCommand> commands;  // in the order of the text, bash's own words left out
  std::set<std::string> functions;     // that the script defines; `commands` has their calls too
};

// Reads bash. Names that come out of variables (other than arrays) or quotes are not seen, nor what `bash -c`
// or `eval` is given.
ShellWords read_shell(std::string_view text);

}  // namespace cplab::tidy
