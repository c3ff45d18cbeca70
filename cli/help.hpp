// What --help prints, from the tables of commands and options (cli/commands/command.hpp).
#pragma once

#include <iosfwd>
#include <string_view>
#include <vector>

#include "cli/commands/command.hpp"

namespace cplab {

// All commands, and what holds for all of them.
void write_overview(std::ostream& out);
// One command with its options.
void write_help(std::ostream& out, const Command&);
// What the program is, in a line.
std::string_view program_summary();
// What holds for all commands: names and paths, exit codes, memory, width; a paragraph each.
const std::vector<std::string_view>& program_paragraphs();

}  // namespace cplab
