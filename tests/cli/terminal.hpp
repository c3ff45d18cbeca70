// The program on a pseudo-terminal, in a child process: what people see, and what they type.
#pragma once

#include <string>
#include <utility>
#include <vector>

struct Terminal {
  int code = -1;
  std::string text;  // all that was written, control sequences and what was typed included
};

struct TerminalSetting {
  std::string typed;  // lines that a person types, all at once
  unsigned short columns = 120;
  std::vector<std::pair<std::string, std::string>> environment;
};

// A container may have no pseudo-terminals; then what needs one is left out, and that is said.
bool has_terminals();

// cplab with these arguments, its streams a terminal; CPLAB_SCENARIOS is the repository's scenarios/.
Terminal on_terminal(const std::vector<std::string>& arguments, const TerminalSetting& setting);
