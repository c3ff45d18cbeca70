// Changes to a scenario's table; see changes.hpp.
#include "cli/files/changes.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include "algorithms/core/list.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/keys/keys.hpp"
#include "cli/vocabulary.hpp"

namespace cplab {

std::vector<std::string> option_keys() {
  std::vector<std::string> keys;
  for (const Algorithm& algorithm : algorithms())
    for (const OptionInfo& option : algorithm.options) keys.emplace_back(option.key);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

namespace {

constexpr std::string_view taken_away = "unset ";

// "problem.heads = 4" is what a file would say.
std::string trimmed(std::string_view text) {
  const std::size_t from = text.find_first_not_of(" \t");
  return from == std::string_view::npos
             ? ""
             : std::string(text.substr(from, text.find_last_not_of(" \t") + 1 - from));
}

[[noreturn]] void fail_unset(const std::string& key, const std::string& message) {
  throw InputError("--unset " + key + ": " + message);
}

// A key that the file has not got: not known at all, or known and not there.
[[noreturn]] void fail_missing(const Table& table, const std::string& key) {
  const std::size_t dot = key.find('.');
  const std::string section = key.substr(0, dot);
  const std::vector<std::string> sections{"problem",  "parallel", "schedule", "simulate",
                                          "hardware", "model",    "training"};
  if (std::find(sections.begin(), sections.end(), section) == sections.end())
    fail_unset(key, "no such section" + clause(meant_key("", section, sections)) +
                        " Legal: " + quoted_list(sections));
  if (dot == std::string::npos) fail_unset(key, "the file has no [" + section + "]");
  const std::string name = key.substr(dot + 1);
  const std::vector<std::string> legal = section == "schedule" ? option_keys() : legal_keys(section);
  if (std::find(legal.begin(), legal.end(), name) == legal.end())
    fail_unset(key, "no such key" + clause(meant_key(section, name, legal)));
  std::vector<std::string> there;
  if (table.kind(section) == Table::Kind::table) there = table.table(section).keys();
  fail_unset(key, "the file does not set it, so there is nothing to take away" +
                      (there.empty() ? "" : "; [" + section + "] sets " + quoted_list(there)));
}

void take_away(Table& table, const std::string& key) {
  if (key.find('=') != std::string::npos)
    fail_unset(key, "names a key alone, such as --unset problem.window");
  if (!table.remove(key)) fail_missing(table, key);
}

// Takes keys of the file away that cannot stand beside `by`, which --set gives.
void replace(Table& table, const std::string& by, const std::vector<std::string>& keys,
             std::vector<std::string>& notes) {
  std::vector<std::string> gone;
  for (const std::string& key : keys) {
    if (table.is_set(key)) continue;  // both on the command line: the reader says what is wrong with it
    if (table.remove(key)) gone.push_back(key);
  }
  if (!gone.empty()) notes.push_back("--set " + by + ": replaces the file's " + quoted_list(gone));
}

bool has_other_count(const Table& section, const char* key, std::size_t count) {
  return section.kind(key) == Table::Kind::list && section.integers(key).size() != count;
}

void replace_shape(Table& table, std::vector<std::string>& notes) {
  if (table.kind("problem") != Table::Kind::table) return;
  const Table problem = table.table("problem");
  if (problem.is_set("lengths") && problem.kind("lengths") == Table::Kind::list) {
    std::vector<std::string> keys{"problem.batch", "problem.sequence"};
    if (problem.kind("format") == Table::Kind::text && problem.text("format") != "thd")
      keys.emplace_back("problem.format");
    const std::size_t count = problem.integers("lengths").size();
    if (has_other_count(problem, "padded_lengths", count)) keys.emplace_back("problem.padded_lengths");
    if (table.kind("parallel") == Table::Kind::table &&
        has_other_count(table.table("parallel"), "homes", count))
      keys.emplace_back("parallel.homes");
    replace(table, "problem.lengths", keys, notes);
  } else if (problem.is_set("sequence") && problem.has("lengths") && !problem.is_set("lengths")) {
    replace(table, "problem.sequence",
            {"problem.lengths", "problem.padded_lengths", "parallel.homes", "parallel.pieces"}, notes);
  }
}

}  // namespace

std::string hardware_option(const std::string& key, const std::string& value) {
  return (value == no_value ? "--unset hardware." : "--set hardware.") + key;
}

const std::vector<std::string>& legal_keys(std::string_view section) {
  static const std::map<std::string, std::vector<std::string>, std::less<>> keys = [] {
    std::map<std::string, std::vector<std::string>, std::less<>> all;
    for (const std::string_view each : key_sections())
      if (each != "study") all.emplace(each, names_of(key_table(each)));
    all["hardware"] = {"file"};  // the others are keys of its file
    return all;
  }();
  static const std::vector<std::string> none;
  const auto found = keys.find(section);
  return found == keys.end() ? none : found->second;
}

namespace {

// --hardware FILE|NAME is --set hardware.file=FILE|NAME.
void add_hardware(const std::string& given, std::vector<std::string>& sets) {
  for (const std::string& set : sets)
    if (set.starts_with("hardware.file=")) throw InputError("--hardware: goes without --set " + set);
  (void)find_hardware(given);  // the error names the option
  // In quotes where --set would take it for something else than text.
  const bool word =
      !given.empty() && (std::isalpha(static_cast<unsigned char>(given.front())) != 0 ||
                         std::string_view("./_~").find(given.front()) != std::string_view::npos);
  const bool plain = word && given != "true" && given != "false" && given != "inf" && given != "nan";
  sets.insert(sets.begin(), "hardware.file=" + (plain ? given : "'" + given + "'"));
}

}  // namespace

std::vector<std::string> changes_of(const Arguments& arguments) {
  std::vector<std::string> changes;
  for (const std::string& key : arguments.all("unset"))
    changes.push_back(std::string(taken_away) + trimmed(key));
  for (const std::string& set : arguments.all("set")) changes.push_back(set);
  if (arguments.has("hardware")) add_hardware(arguments.text("hardware", ""), changes);
  return changes;
}

std::string option_text(std::string_view change) {
  return (change.starts_with(taken_away) ? "--" : "--set ") + std::string(change);
}

bool is_of_section(std::string_view change, std::string_view section_and_dot) {
  if (change.starts_with(taken_away)) change.remove_prefix(taken_away.size());
  return change.starts_with(section_and_dot);
}

std::vector<std::string> unset_keys(const std::vector<std::string>& changes) {
  std::vector<std::string> keys;
  for (const std::string& change : changes)
    if (change.starts_with(taken_away)) keys.push_back(change.substr(taken_away.size()));
  return keys;
}

std::vector<std::string> set_keys(const std::vector<std::string>& changes) {
  std::vector<std::string> sets;
  for (const std::string& change : changes)
    if (!change.starts_with(taken_away)) sets.push_back(change);
  return sets;
}

std::vector<std::pair<std::string, std::string>> apply_changes(Table& table,
                                                               const std::vector<std::string>& changes,
                                                               std::vector<std::string>& notes) {
  std::vector<std::pair<std::string, std::string>> of_hardware;
  for (const std::string& key : unset_keys(changes)) {
    if (key.starts_with("hardware.") && key != "hardware.file" && key.find('=') == std::string::npos)
      of_hardware.emplace_back(key.substr(9), no_value);
    else
      take_away(table, key);
  }
  for (const std::string& set : set_keys(changes)) {
    const auto equals = set.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw InputError("--set " + set + ": must be section.key=value, such as --set problem.heads=8");
    }
    const std::string key = trimmed(set.substr(0, equals));
    const std::string value = trimmed(set.substr(equals + 1));
    if (key == "hardware" && !value.starts_with("{")) {
      throw InputError("--set " + set + ": did you mean --set hardware.file=" + value + "?");
    }
    if (key.starts_with("published.")) {
      throw InputError("--set " + set + ": published figures are what they are; no command changes them");
    }
    if (key.starts_with("hardware.") && key != "hardware.file") {
      of_hardware.emplace_back(key.substr(9), value);
    } else {
      table.assign(key, value);
    }
  }
  replace_shape(table, notes);
  return of_hardware;
}

}  // namespace cplab
