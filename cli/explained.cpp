// See explained.hpp.
#include "cli/explained.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "algorithms/core/list.hpp"
#include "cli/files/changes.hpp"
#include "cli/joined.hpp"
#include "cli/keys/keys.hpp"
#include "cli/keys/result_keys.hpp"

namespace cplab {

namespace {

std::string kind_of(const KeyInfo& key) {
  if (key.section() == "study") return "key of studies";
  if (key.section() == "hardware" && key.key != "hardware.file") return "key of hardware files";
  return "key of scenarios";
}

Explained of_key(const KeyInfo& key) {
  Explained entry{kind_of(key),
                  std::string(key.key),
                  std::string(key.taken_by),
                  std::string(key.meaning),
                  std::string(name(key.type)),
                  std::string(key.unit),
                  {},
                  {},
                  legal_text(key),
                  std::string(page_of(key))};
  if (key.type != KeyType::section) entry.by_default = default_text(key);
  if (key.key.starts_with("study.")) entry.name = key.key.substr(6);
  entry.words.assign(key.words.begin(), key.words.end());
  if (key.key == "parallel.algorithm")
    for (const Algorithm& each : algorithms()) entry.words.emplace_back(each.name);
  if (key.key == "parallel.placement")
    for (const PlacementInfo& each : placements()) entry.words.emplace_back(each.name);
  return entry;
}

// An option with one meaning, one default and the same legal values for all algorithms that have it; else an
// entry each.
void add_options(std::vector<Explained>& all) {
  for (const std::string& key : option_keys()) {
    std::map<std::vector<std::string>, std::vector<std::string_view>>
        forms;  // (legal, default, help) to algorithms
    for (const Algorithm& algorithm : algorithms())
      if (const OptionInfo* option = find_option(algorithm, key))
        forms[{legal_values(*option) +
                   (option->serves.words.empty() ? "" : " (of " + std::string(option->serves.words) + ")"),
               default_text(*option), std::string(option->help)}]
            .push_back(algorithm.name);
    for (const auto& [form, names] : forms) {
      Explained entry{"option of [schedule]",
                      "schedule." + key,
                      names.size() == algorithms().size() ? "all algorithms" : joined(names),
                      form[2],
                      "",
                      "",
                      form[1],
                      {},
                      form[0],
                      "06-files.md#scenario-toml-unknown-keys-are-errors"};
      const OptionInfo& option = *find_option(*find_algorithm(names.front()), key);
      entry.type = option.any_count ? "integer" : "one of a few";
      for (const OptionValue& value : option.legal) entry.words.push_back(to_string(value));
      all.push_back(std::move(entry));
    }
  }
}

void add_algorithms(std::vector<Explained>& all) {
  for (const Algorithm& a : algorithms()) {
    std::string legal = "placements: " + joined(a.placements) + ", the first is the default";
    if (!a.linear_placements.empty()) legal += "; of linear attention: " + joined(a.linear_placements);
    std::vector<std::string_view> keys;
    for (const OptionInfo& option : a.options) keys.push_back(option.key);
    legal += ". Options: " + joined(keys);
    all.push_back({"algorithm",
                   std::string(a.name),
                   a.aliases.empty() ? "" : "also called " + joined(a.aliases),
                   std::string(a.summary),
                   "value of parallel.algorithm",
                   "",
                   "",
                   {},
                   legal,
                   "10-families.md"});
  }
  for (const PlacementInfo& p : placements()) {
    std::vector<std::string_view> takers;
    for (const Algorithm& a : algorithms())
      if (std::ranges::find(a.placements, p.name) != a.placements.end() ||
          std::ranges::find(a.linear_placements, p.name) != a.linear_placements.end())
        takers.push_back(a.name);
    all.push_back({"placement",
                   std::string(p.name),
                   p.aliases.empty() ? "" : "also called " + joined(p.aliases),
                   std::string(p.help),
                   "value of parallel.placement",
                   "",
                   "",
                   {},
                   "taken by " + joined(takers),
                   "lessons/02-placements.md"});
  }
}

// Of keys that several results have with one meaning, one entry.
void add_results(std::vector<Explained>& all) {
  std::map<std::pair<std::string, std::string_view>, std::size_t> known;
  for (const ResultTable& table : result_tables())
    for (const ResultKey& key : table.keys) {
      // Keys of the scenario inside of a result are those of scenarios.
      if (key.path.find("scenario.") == 0 || key.path.ends_with("[]")) continue;
      const std::string result(table.schema.substr(6, table.schema.rfind('.') - 6));
      const auto [at, fresh] = known.emplace(std::pair(key.path, key.meaning), all.size());
      if (!fresh) {
        std::string& of = all[at->second].of;
        if (!of.ends_with(result)) of += ", " + result;
        continue;
      }
      std::string type(key.type.substr(0, key.type.find('?')));
      if (key.type.ends_with("?")) type += ", may be missing";
      all.push_back({"key of results",
                     key.path,
                     result,
                     std::string(key.meaning),
                     type,
                     std::string(key.unit),
                     "",
                     {},
                     "",
                     std::string(table.page)});
    }
}

bool has_name(const Explained& entry, std::string_view word) {
  if (entry.name == word) return true;
  // "time_s" of "ranks[].time_s", "mask" of "problem.mask", "simulate.slow" of "simulate.slow[]".
  const std::size_t dot = entry.name.rfind('.');
  return dot != std::string::npos && std::string_view(entry.name).substr(dot + 1) == word;
}

}  // namespace

const std::vector<Explained>& all_explained() {
  static const std::vector<Explained> entries = [] {
    std::vector<Explained> all;
    for (const std::string_view section : key_sections()) {
      if (section == "simulate") add_options(all);  // [schedule] stands before [simulate]
      for (const KeyInfo& key : key_table(section)) all.push_back(of_key(key));
    }
    add_algorithms(all);
    add_results(all);
    return all;
  }();
  return entries;
}

std::vector<const Explained*> explained_as(std::string_view word) {
  std::vector<const Explained*> found;
  const KeyInfo* const row = find_key(word);
  const auto add = [&](auto matches) {
    for (const Explained& entry : all_explained())
      if (matches(entry) && std::find(found.begin(), found.end(), &entry) == found.end())
        found.push_back(&entry);
  };
  const std::string full(row ? row->key : word);
  add([&](const Explained& entry) { return entry.name == full; });
  if (const Algorithm* algorithm = find_algorithm(word))
    add([&](const Explained& entry) { return entry.what == "algorithm" && entry.name == algorithm->name; });
  if (const PlacementInfo* placement = find_placement(word))
    add([&](const Explained& entry) { return entry.what == "placement" && entry.name == placement->name; });
  if (full.find('.') == std::string::npos) add([&](const Explained& entry) { return has_name(entry, word); });
  return found;
}

std::vector<std::string> names_explained() {
  std::set<std::string> seen;
  std::vector<std::string> names;
  for (const Explained& entry : all_explained())
    if (seen.insert(entry.name).second) names.push_back(entry.name);
  for (const std::string_view section : key_sections())
    if (seen.insert(std::string(section)).second) names.emplace_back(section);
  return names;
}

}  // namespace cplab
