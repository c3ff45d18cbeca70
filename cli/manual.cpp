// See manual.hpp.
#include "cli/manual.hpp"

#include <algorithm>
#include <ostream>
#include <string>

#include "cli/commands/command.hpp"
#include "cli/explained.hpp"
#include "cli/help.hpp"
#include "cli/keys/keys.hpp"
#include "cmake/version.hpp"

namespace cplab {

namespace {

// Text that roff leaves as it is: no line begins with a control character, no backslash or hyphen means
// something else.
std::string plain(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\\')
      safe += "\\e";
    else if (c == '-')
      safe += "\\-";
    else
      safe += c;
  }
  return safe.starts_with(".") || safe.starts_with("'") ? "\\&" + safe : safe;
}

// A tag, in bold, and what is said of it.
void write_tag(std::ostream& out, std::string_view tag, std::string_view argument, std::string_view text) {
  out << ".TP\n\\fB" << plain(tag) << "\\fR";
  if (!argument.empty()) out << " \\fI" << plain(argument) << "\\fR";
  out << '\n' << plain(text) << '\n';
}

void write_options(std::ostream& out, const std::vector<OptionSpec>& options) {
  for (const OptionSpec& option : options) {
    std::string text(option.help);
    if (option.repeatable) text += "; repeatable";
    write_tag(out, "--" + std::string(option.name), option.value, text);
  }
}

void write_commands(std::ostream& out) {
  out << ".SH COMMANDS\n";
  for (const Command& command : commands()) {
    out << ".SS \"cplab " << command.name << " " << plain(command.positional) << "\"\n"
        << plain(command.summary) << ".\n.PP\nExample: " << plain(command.example) << '\n';
    write_options(out, command.options);
  }
  out << ".SH OPTIONS OF ALL COMMANDS\n";
  write_options(out, options_of_all());
}

std::string sentence_of(const Explained& entry) {
  std::string text = entry.meaning;
  if (!entry.unit.empty()) text += " (in " + entry.unit + ")";
  if (!entry.of.empty()) text += "; of " + entry.of;
  text += ". Legal: " + (entry.legal.empty() ? entry.type : entry.legal);
  if (!entry.by_default.empty()) text += ". Default: " + entry.by_default;
  return text + ".";
}

void write_keys(std::ostream& out) {
  out << ".SH KEYS OF SCENARIOS\nWhat a scenario, in TOML, may hold, and --set SECTION.KEY=VALUE change. "
         "Those of "
         "hardware files and of results are told by `cplab explain`.\n";
  for (const Explained& entry : all_explained())
    if (entry.what == "key of scenarios" || entry.what == "option of [schedule]")
      write_tag(out, entry.name, "", sentence_of(entry));
  out << ".SH KEYS OF STUDIES\n";
  for (const Explained& entry : all_explained())
    if (entry.what == "key of studies") write_tag(out, entry.name, "", sentence_of(entry));
  out << ".SH ALGORITHMS AND PLACEMENTS\n";
  for (const Explained& entry : all_explained())
    if (entry.what == "algorithm" || entry.what == "placement")
      write_tag(out, entry.name, "", entry.meaning + (entry.of.empty() ? "" : "; " + entry.of) + ".");
}

}  // namespace

void write_manual(std::ostream& out) {
  out << ".TH CPLAB 1 \"\" \"cplab " << version() << "\" \"User Commands\"\n.SH NAME\ncplab \\- "
      << plain(program_summary()) << "\n.SH SYNOPSIS\n\\fBcplab\\fR \\fICOMMAND\\fR ... [\\fIoptions\\fR]\n"
      << ".SH DESCRIPTION\n";
  for (const std::string_view paragraph : program_paragraphs()) out << plain(paragraph) << "\n.PP\n";
  write_commands(out);
  write_keys(out);
  out << ".SH ENVIRONMENT\n";
  write_tag(out, "CPLAB_SCENARIOS", "", "the folder scenarios/, with machines, models and studies");
  write_tag(out, "CPLAB_MEMORY", "", "the memory that a command may use, such as 64G");
  write_tag(out, "COLUMNS", "", "the width to which text is folded");
  write_tag(out, "NO_COLOR, CLICOLOR_FORCE", "", "whether --color auto colours");
}

}  // namespace cplab
