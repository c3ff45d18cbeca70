// See help.hpp.
#include "cli/help.hpp"

#include <iostream>
#include <string>

namespace cplab {

namespace {

std::size_t width_for(const std::ostream& out) {
  return width_of_output(&out == &std::cout ? 1 : -1);
}

// Two columns, the second folded; beneath a first one that is too wide.
void write_two_columns(std::ostream& out, std::string left, std::size_t width, std::string_view right) {
  if (left.size() + 2 > width) {
    out << left << '\n';
    left.clear();
  }
  left.resize(width, ' ');
  write_beside(out, left, right, width_for(out));
}

void write_options(std::ostream& out, const std::vector<OptionSpec>& options) {
  for (const OptionSpec& option : options) {
    std::string left = "  --" + std::string(option.name);
    if (!option.value.empty()) left += " " + std::string(option.value);
    write_two_columns(out, left, 30, std::string(option.help) + (option.repeatable ? "; repeatable" : ""));
  }
}

}  // namespace

std::string_view program_summary() {
  return "context-parallel attention, simulated, executed and verified from one plan";
}

const std::vector<std::string_view>& program_paragraphs() {
  static const std::vector<std::string_view> paragraphs{
      "SCENARIO is a path, a name in scenarios/, or - (standard input). Paths on a command line, those of "
      "--set "
      "hardware.file too, are relative to the current folder; names are those of `cplab list`. The program "
      "looks for "
      "scenarios/ in ../../scenarios and ../share/cplab/scenarios beside itself; CPLAB_SCENARIOS=FOLDER says "
      "where else "
      "it is.",
      "Exit codes: 0 fine, 1 ran and is wrong, 2 usage or scenario error, 3 environment (also: an output "
      "that cannot be "
      "written). A signal ends it as usual (SIGINT 130, SIGTERM 143, SIGPIPE 141 in a shell); files appear "
      "whole or not "
      "at all.",
      "CPLAB_MEMORY=SIZE (such as 64G) is the memory that a command may use; default: what the machine, the "
      "cgroup and "
      "the limits of the process leave. What needs more is refused (3).",
      "Text is folded to the terminal's width, or to COLUMNS; where there is neither, to 100."};
  return paragraphs;
}

void write_overview(std::ostream& out) {
  out << "cplab: " << program_summary()
      << ".\n\n"
         "usage: cplab COMMAND ... [options]      cplab COMMAND --help      cplab --version\n\n";
  for (const Command& command : commands())
    write_two_columns(out, "  " + std::string(command.name) + " " + std::string(command.positional), 40,
                      command.summary);
  out << '\n';
  for (const std::string_view paragraph : program_paragraphs()) write_folded(out, paragraph, width_for(out));
}

void write_help(std::ostream& out, const Command& command) {
  out << "usage: cplab " << command.name << ' ' << command.positional << " [options]\n\n";
  write_folded(out, command.summary, width_for(out));
  out << '\n';
  write_options(out, command.options);
  if (!command.options.empty()) out << '\n';
  write_options(out, options_of_all());
  out << "\nexample: " << command.example << '\n';
}

}  // namespace cplab
