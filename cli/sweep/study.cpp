// Reading a study: its axes, constraints and outputs; see study.hpp.
#include "cli/sweep/study.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>

#include "cli/files/changes.hpp"
#include "cli/files/text_file.hpp"
#include "cli/sweep/study_range.hpp"
#include "cli/vocabulary.hpp"

namespace cplab {

namespace {

namespace fs = std::filesystem;

constexpr const char* inside = "scenario";  // the section of a scenario that stands in its study

const std::vector<std::string>& sections() {
  static const std::vector<std::string> names{"problem", "parallel", "schedule", "simulate", "hardware"};
  return names;
}

std::string trimmed(std::string text) {
  text.erase(0, text.find_first_not_of(" \t"));
  text.erase(text.find_last_not_of(" \t") + 1);
  return text;
}

// Reads [vary]; errors name file, line and key.
class Axes {
 public:
  explicit Axes(Table vary) : vary_(std::move(vary)) {}

  std::vector<StudyAxis> read() {
    read_section(vary_, "");
    std::stable_sort(axes_.begin(), axes_.end(),
                     [](const StudyAxis& a, const StudyAxis& b) { return a.line < b.line; });
    std::set<std::string> seen;
    for (const StudyAxis& axis : axes_)
      for (const std::string& key : axis.keys)
        if (!seen.insert(key).second) vary_.fail("", key + " varies twice");
    return std::move(axes_);
  }

 private:
  static bool is_range(const Table& table) {
    return std::ranges::any_of(table.keys(), [](const std::string& key) {
      return key == "from" || key == "to" || key == "times" || key == "step";
    });
  }

  void read_section(const Table& table, const std::string& prefix) {
    for (const std::string& key : table.keys()) {
      const std::string full = prefix + key;
      switch (table.kind(key)) {
        case Table::Kind::table:
          if (is_range(table.table(key)))
            add_range(table, key, full);
          else
            read_section(table.table(key), full + ".");
          break;
        case Table::Kind::list: add_list(table, key, full); break;
        default: add(table, key, {known(table, key, full)}, {{value_of(table.value(key))}});
      }
    }
  }

  static StudyValue value_of(const TomlValue& value) { return {value.value, value.toml}; }

  void add(const Table& table, const std::string& key, std::vector<std::string> keys,
           std::vector<std::vector<StudyValue>> rows) {
    if (rows.empty()) table.fail(key, "is empty; a key that varies has at least one value");
    axes_.push_back({std::move(keys), std::move(rows), table.line(key)});
  }

  void add_range(const Table& table, const std::string& key, const std::string& full) {
    std::vector<std::vector<StudyValue>> rows;
    for (StudyValue& value : range_values(table.table(key))) rows.push_back({std::move(value)});
    add(table, key, {known(table, key, full)}, std::move(rows));
  }

  void add_list(const Table& table, const std::string& key, const std::string& full) {
    const std::vector<TomlValue> items = table.value(key).items;
    if (!items.empty() && std::ranges::all_of(items, [](const TomlValue& item) { return item.is_table; }))
      return add_rows(table, key);
    std::vector<std::vector<StudyValue>> rows;
    if (full.find(',') == std::string::npos) {
      for (const TomlValue& item : items) rows.push_back({value_of(item)});
      return add(table, key, {known(table, key, full)}, std::move(rows));
    }
    std::vector<std::string> keys;
    for (std::size_t at = 0; at <= full.size();) {
      const std::size_t end = std::min(full.find(',', at), full.size());
      keys.push_back(known(table, key, trimmed(full.substr(at, end - at))));
      at = end + 1;
    }
    for (const TomlValue& item : items) {
      if (item.items.size() != keys.size())
        table.fail(key, "must be a list of lists of " + std::to_string(keys.size()) +
                            " values, one for each key; " + item.toml + " is none");
      rows.emplace_back();
      for (const TomlValue& each : item.items) rows.back().push_back(value_of(each));
    }
    add(table, key, std::move(keys), std::move(rows));
  }

  // Dotted keys of one row, with or without quotes.
  void read_row(const Table& table, const std::string& prefix,
                std::vector<std::pair<std::string, StudyValue>>& row) {
    for (const std::string& key : table.keys()) {
      if (table.kind(key) == Table::Kind::table)
        read_row(table.table(key), prefix + key + ".", row);
      else
        row.emplace_back(known(table, key, prefix + key), value_of(table.value(key)));
    }
  }

  void add_rows(const Table& table, const std::string& name) {
    std::vector<std::string> keys;
    std::vector<std::vector<StudyValue>> rows;
    for (const Table& each : table.tables(name)) {
      std::vector<std::pair<std::string, StudyValue>> row;
      read_row(each, "", row);
      if (rows.empty())
        for (const auto& [key, value] : row) keys.push_back(key);
      std::vector<StudyValue> values;
      for (const std::string& key : keys) {
        const auto found = std::ranges::find_if(row, [&](const auto& entry) { return entry.first == key; });
        if (found == row.end()) each.fail("", "lacks " + key + ", which the first row has");
        values.push_back(found->second);
      }
      for (const auto& [key, value] : row)
        if (std::ranges::find(keys, key) == keys.end())
          each.fail("", "has " + key + ", which the first row has not");
      if (keys.empty()) each.fail("", "is empty");
      rows.push_back(std::move(values));
    }
    add(table, name, std::move(keys), std::move(rows));
  }

  // A key that a scenario may have: what it is set to is the scenario's to judge.
  static std::string known(const Table& table, const std::string& key, const std::string& full) {
    const std::size_t dot = full.find('.');
    const std::string section = full.substr(0, dot);
    const auto& names = sections();
    if (dot == std::string::npos || std::ranges::find(names, section) == names.end())
      table.fail(key, "no key of a scenario" +
                          clause(meant_key("", dot == std::string::npos ? full : section, names)) +
                          " Legal: section.key in quotes, such as \"problem.sequence\", of " +
                          quoted_list(names));
    const std::string name = full.substr(dot + 1);
    if (section == "hardware") {
      if (name.empty()) table.fail(key, "needs a key behind the dot");
      return full;
    }
    const std::vector<std::string> legal = section == "schedule" ? option_keys() : legal_keys(section);
    const std::string first = name.substr(0, name.find('.'));
    if (std::ranges::find(legal, first) == legal.end())
      table.fail(key, "no such key" + clause(meant_key(section, first, legal)) + " Legal in [" + section +
                          "]: " + quoted_list(legal));
    return full;
  }

  Table vary_;
  std::vector<StudyAxis> axes_;
};

StudyConstraint constraint_of(const Table& table, const std::string& key, const std::string& text,
                              std::string why) {
  try {
    return {Expression(text), std::move(why), table.said(key, "")};
  } catch (const ExpressionError& error) {
    table.fail(key, error.what());
  }
}

std::vector<StudyConstraint> read_constraints(const Table& root) {
  std::vector<StudyConstraint> all;
  if (root.kind("where") == Table::Kind::list) {
    for (const std::string& text : root.texts("where")) all.push_back(constraint_of(root, "where", text, ""));
  } else if (root.has("where")) {
    all.push_back(constraint_of(root, "where", root.text("where"), ""));
  }
  for (const Table& each : root.tables("constraint")) {
    std::string why = each.text("why", "");
    all.push_back(constraint_of(each, "where", each.text("where"), std::move(why)));
  }
  return all;
}

// Beside the study, else as every scenario is found.
std::string place_of_scenario(const Table& root, const std::string& name, const std::string& study) {
  const fs::path beside = fs::path(study).parent_path() / name;
  std::error_code error;
  if (fs::is_regular_file(beside, error)) return beside.string();
  try {
    return find_scenario(name);
  } catch (const InputError& wrong) {
    root.fail(inside, wrong.what());
  }
}

}  // namespace

std::optional<Shard> parse_shard(const std::string& text) {
  Shard shard;
  const char* const end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, shard.index);
  if (index.ec != std::errc() || index.ptr == end || *index.ptr != '/') return std::nullopt;
  const auto count = std::from_chars(index.ptr + 1, end, shard.count);
  if (count.ec != std::errc() || count.ptr != end) return std::nullopt;
  if (shard.count < 1 || shard.index < 0 || shard.index > shard.count) return std::nullopt;
  return shard;
}

Study parse_study(const std::string& text, const std::string& path) {
  Table root = Table::parse(text, path);
  const std::vector<std::string> names = root.keys();
  for (const std::string& section : sections())
    if (std::ranges::find(names, section) != names.end())
      root.fail(section,
                "this is a scenario; a study has [vary] and names its scenario (scenario = \"NAME\")");
  Study study;
  study.path = study.given = path;
  if (root.kind(inside) == Table::Kind::table) {
    study.scenario_path = path;
    study.scenario_text = text;
    (void)root.taken(inside);
  } else {
    study.scenario = root.text(inside);
    study.scenario_path = place_of_scenario(root, study.scenario, path);
    study.scenario_text = read_text_file(study.scenario_path);
  }
  study.axes = Axes(root.table("vary")).read();
  study.constraints = read_constraints(root);
  if (root.has("shard")) {
    study.shard = parse_shard(root.text("shard"));
    if (!study.shard) root.fail("shard", "must be \"i/n\", with i from 0 to n");
  }
  const Table output = root.table("output");
  study.csv = output.text("csv", "");
  study.jsonl = output.text("jsonl", "");
  root.finish();
  if (study.axes.empty()) root.fail("vary", "missing; legal: a list or a range for each key that varies");
  (void)study.table();  // whether it is TOML
  return study;
}

Study read_study(const std::string& argument) {
  if (argument == "-") return parse_study(read_text_file("/dev/stdin"), "-");
  if (const std::string* const text = text_for_file(argument)) return parse_study(*text, argument);
  std::vector<fs::path> places{argument};
  const std::string folder = scenarios_folder();
  if (!folder.empty() && !fs::path(argument).is_absolute()) {
    places.push_back(fs::path(folder) / "studies" / argument);
    places.push_back(fs::path(folder) / "studies" / (argument + ".toml"));
    places.push_back(fs::path(folder) / argument);
    places.push_back(fs::path(folder) / (argument + ".toml"));
  }
  for (const fs::path& place : places) {
    std::error_code error;
    if (!fs::exists(place, error) || fs::is_directory(place, error)) continue;
    Study study = parse_study(read_text_file(place.string()), place.string());
    study.given = argument;
    return study;
  }
  std::string message = argument + ": no such study; looked for:";
  for (const fs::path& place : places) message += " " + place.string();
  const auto names = scenario_names("studies");
  if (!names.empty()) message += clause(meant_file(argument, names)) + " `cplab list studies` names them all";
  throw InputError(message);
}

ScenarioFile Study::read(const std::vector<std::string>& changes) const {
  ScenarioFile file =
      read_scenario_text(scenario_text, scenario_path, scenario.empty() ? inside : "", changes);
  file.argument = scenario.empty() ? given : scenario;
  return file;
}

std::optional<ScenarioFile> Study::read_if_legal(const std::vector<std::string>& changes) const {
  try {
    return read(changes);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

Table Study::table() const {
  Table root = Table::parse(scenario_text, scenario_path);
  return scenario.empty() ? root.taken(inside) : root;
}

}  // namespace cplab
