// cplab list [KIND]: what can be named in a scenario or on the command line.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <set>

#include "algorithms/core/algorithm.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/faults/faults.hpp"
#include "cli/commands/command.hpp"
#include "cli/commands/model_table.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/joined.hpp"
#include "cli/option_words.hpp"
#include "cli/vocabulary.hpp"
#include "report/json.hpp"

namespace cplab {

namespace {

std::string legal_text(const OptionInfo& option) {
  std::string text;
  for (const OptionValue& value : option.legal) text += (text.empty() ? "" : ", ") + to_string(value);
  return text + (option.any_count ? ", ..." : "");
}

std::vector<ListedAlgorithm> listed_algorithms() {
  std::vector<ListedAlgorithm> listed;
  for (const Algorithm& a : algorithms()) {
    ListedAlgorithm& entry =
        listed.emplace_back(ListedAlgorithm{a.name, a.aliases, a.summary, a.placements, {}});
    for (const OptionInfo& o : a.options)
      entry.options.push_back({o.key, o.legal, o.any_count, o.default_value, std::string(o.default_rule),
                               applies_text(a, o), o.help});
  }
  return listed;
}

std::vector<ListedPlacement> listed_placements() {
  std::vector<ListedPlacement> listed;
  for (const PlacementInfo& p : placements()) listed.push_back({p.name, p.aliases, p.help});
  return listed;
}

std::vector<ListedFault> listed_faults() {
  std::vector<ListedFault> listed;
  for (const Fault& f : faults())
    listed.push_back({f.name, name(f.form), f.help, f.scenario, f.devices, f.expected});
  return listed;
}

// Files of scenarios/; the summary is the file's first line of comment. The name is what finds the file:
// without its folder, unless an earlier file has that name.
std::vector<ListedFile> listed_files(const std::vector<std::string>& names) {
  std::vector<ListedFile> files;
  std::set<std::string> taken;
  for (const std::string& file : names) {
    std::ifstream in(std::filesystem::path(scenarios_folder()) / file);
    std::string line;
    std::getline(in, line);
    if (line.starts_with("#")) line.erase(0, line.find_first_not_of("# "));
    const std::filesystem::path path(file);
    const std::string stem = path.stem().string();
    files.push_back({taken.insert(stem).second ? stem : (path.parent_path() / stem).string(), file, line});
  }
  return files;
}

TextTable file_table(const std::vector<ListedFile>& files) {
  TextTable table({{"name", "", Align::left}, {"file", "", Align::left}, {"what it is", "", Align::left}});
  for (const ListedFile& file : files) table.add_row({file.name, file.file, file.summary});
  return table;
}

std::string help_of(const Algorithm& algorithm, const OptionInfo& option) {
  const std::string applies = applies_text(algorithm, option);
  return std::string(option.help) + (applies.empty() ? "" : " (" + applies + ")");
}

// For files: every row says whose option it is.
TextTable algorithm_table() {
  TextTable table({{"algorithm", "", Align::left},
                   {"aliases", "", Align::left},
                   {"placements", "", Align::left},
                   {"option", "", Align::left},
                   {"default", "", Align::left},
                   {"legal", "", Align::left},
                   {"what it does", "", Align::left}});
  for (const Algorithm& algorithm : algorithms())
    for (const OptionInfo& option : algorithm.options)
      table.add_row({std::string(algorithm.name), joined(algorithm.aliases), joined(algorithm.placements),
                     std::string(option.key), default_text(option), legal_text(option),
                     help_of(algorithm, option)});
  return table;
}

// For people: what an algorithm is, then its options.
void write_algorithms(std::ostream& out, const TextStyle& style) {
  for (const Algorithm& algorithm : algorithms()) {
    if (&algorithm != algorithms().data()) out << '\n';
    const std::string aliases = algorithm.aliases.empty() ? "" : " (or " + joined(algorithm.aliases) + ")";
    write_folded(out, std::string(algorithm.name) + aliases + ": " + std::string(algorithm.summary),
                 style.width, "  ");
    std::string text = "placements: " + joined(algorithm.placements) + "; the first is the default";
    if (!algorithm.linear_placements.empty())
      text += "; of linear attention: " + joined(algorithm.linear_placements);
    write_folded(out, text, style.width, "  ");
    TextTable table({{"option", "", Align::left},
                     {"default", "", Align::left},
                     {"legal", "", Align::left},
                     {"what it does", "", Align::left}});
    for (const OptionInfo& option : algorithm.options)
      table.add_row(
          {std::string(option.key), default_text(option), legal_text(option), help_of(algorithm, option)});
    table.write(out, style);
  }
}

TextTable placement_table() {
  TextTable table(
      {{"placement", "", Align::left}, {"aliases", "", Align::left}, {"what it does", "", Align::left}});
  for (const PlacementInfo& placement : placements()) {
    table.add_row({std::string(placement.name), joined(placement.aliases), std::string(placement.help)});
  }
  return table;
}

TextTable fault_table() {
  TextTable table({{"fault", "", Align::left},
                   {"form", "", Align::left},
                   {"scenario", "", Align::left},
                   {"devices", "", Align::left},
                   {"expected", "", Align::left},
                   {"what it is", "", Align::left}});
  for (const Fault& fault : faults()) {
    std::string expected = "nothing";
    if (fault.expected) {
      expected = name(fault.expected->kind);
      if (fault.expected->rank >= 0) expected += " on rank " + std::to_string(fault.expected->rank);
      if (!fault.expected->operation.empty()) expected += " at " + fault.expected->operation;
    }
    table.add_row({std::string(fault.name), std::string(name(fault.form)), std::string(fault.scenario),
                   joined(fault.devices), expected, std::string(fault.help)});
  }
  return table;
}

}  // namespace

int command_list(const Arguments& arguments, Console& console) {
  const std::vector<std::string> kinds = list_words();
  std::string kind;
  if (!arguments.positional().empty()) {
    kind = arguments.positional().front();
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
      throw InputError("list " + kind + ": no such kind" +
                       clause(meant_value("list", kind, kinds, Quotes::no)) + " Legal: " + joined(kinds));
    }
  }
  if (arguments.has("csv") && kind.empty()) throw InputError("--csv: needs a KIND of " + joined(kinds));

  if (kind != "algorithms" && kind != "placements" && kind != "faults") require_scenarios_folder();

  ListReport report;
  report.versions = versions_of_build();
  std::vector<TextTable> tables;
  for (const std::string& each : kinds) {
    if (!kind.empty() && each != kind) continue;
    if (each == "algorithms") {
      report.algorithms = listed_algorithms();
      tables.push_back(algorithm_table());
    } else if (each == "placements") {
      report.placements = listed_placements();
      tables.push_back(placement_table());
    } else if (each == "scenarios") {
      report.scenarios = listed_files(all_scenario_names());
      tables.push_back(file_table(*report.scenarios));
    } else if (each == "hardware") {
      report.hardware = listed_files(scenario_names("hardware"));
      tables.push_back(file_table(*report.hardware));
    } else if (each == "models") {
      report.models = listed_models();
      tables.push_back(model_table(*report.models));
    } else if (each == "faults") {
      report.faults = listed_faults();
      tables.push_back(fault_table());
    } else if (each == "published") {
      report.published = listed_files(scenario_names("published"));
      tables.push_back(file_table(*report.published));
    } else {
      report.studies = listed_files(scenario_names("studies"));
      tables.push_back(file_table(*report.studies));
    }
    if (kind.empty()) console.text() << (tables.size() > 1 ? "\n" : "") << each << "\n";
    if (each == "algorithms")
      write_algorithms(console.text(), console.style());
    else
      tables.back().write(console.text(), console.style());
  }
  console.write_json_to_option([&](std::ostream& out) { write_json(out, report); });
  console.write_csv_to_option([&](std::ostream& out) { tables.front().write_csv(out); });
  return exit_fine;
}

}  // namespace cplab
