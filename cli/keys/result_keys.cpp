// Parts that tables of results share; see result_keys.hpp.
#include "cli/keys/result_keys.hpp"

#include <set>

#include "algorithms/core/list.hpp"
#include "cli/keys/keys.hpp"

namespace cplab {

namespace {

// How a resolved scenario writes a key.
std::string_view json_type(const KeyInfo& key) {
  switch (key.type) {
    case KeyType::word:
    case KeyType::text: return "string?";
    case KeyType::whole: return "integer?";
    case KeyType::number: return "number?";
    case KeyType::flag: return "boolean?";
    default: return "list?";
  }
}

void add_section(ResultKeys& keys, std::string_view section) {
  for (const KeyInfo& key : key_table(section)) {
    const std::string_view name = key.name_in_section();
    if (name.find_first_of(".[") != std::string_view::npos) continue;
    if (section == "hardware" && name != "file") continue;
    const std::string path = "scenario." + std::string(key.key);
    keys.push_back({path, json_type(key), key.unit, key.meaning});
    if (keys.back().type == "list?") keys.push_back({path + "[]", "any", key.unit, "an entry of it"});
  }
}

}  // namespace

void add_resolved_scenario(ResultKeys& keys, const std::string& type) {
  keys.push_back({"scenario", type == "object" ? "object" : "object|null", "",
                  "as resolved: defaults filled in, aliases replaced"});
  keys.push_back({"scenario.problem", "object", "", meaning_of_section("problem")});
  add_section(keys, "problem");
  keys.push_back({"scenario.parallel", "object", "", meaning_of_section("parallel")});
  add_section(keys, "parallel");
  keys.push_back({"scenario.schedule", "object", "", "the algorithm's options, all of them"});
  std::set<std::string_view> seen;
  for (const Algorithm& algorithm : algorithms())
    for (const OptionInfo& option : algorithm.options)
      if (seen.insert(option.key).second)
        keys.push_back(
            {"scenario.schedule." + std::string(option.key), "integer|string|boolean?", "", option.help});
  keys.push_back({"scenario.simulate", "object?", "", meaning_of_section("simulate")});
  add_section(keys, "simulate");
  keys.push_back(
      {"scenario.hardware", "map any?", "", "the machine's file, and keys of it that were changed"});
}

void add_given(ResultKeys& keys, const std::string& prefix, std::string_view type) {
  const std::string given = prefix + "given";
  keys.insert(
      keys.end(),
      {{given, type, "", "what the result was made of; `simulate --rerun` takes it"},
       {given + ".scenario", "string", "", "the scenario as it was named"},
       {given + ".files", "list", "", "files that were read"},
       {given + ".files[]", "object", "", "one of them"},
       {given + ".files[].option", "string", "", "what named it: hardware, plan, choices, ..."},
       {given + ".files[].file", "string", "", "its path or name"},
       {given + ".files[].sha256", "string", "", "of what it held"},
       {given + ".set", "list", "", "of --set"},
       {given + ".set[]", "string", "", "section.key=value"},
       {given + ".unset", "list", "", "of --unset"},
       {given + ".unset[]", "string", "", "section.key"},
       {given + ".options", "map string", "", "the command's own options; a switch has an empty value"},
       {given + ".notes", "list", "", "notes of reading the scenario"},
       {given + ".notes[]", "string", "", "a sentence"}});
}

void add_start(ResultKeys& keys, bool with_scenario) {
  keys.insert(keys.end(), {{"schema", "string", "", "the form of the result, with its version"},
                           {"command", "string", "", "that wrote it"},
                           {"versions", "map string", "", "of the program and of libraries it uses"}});
  if (!with_scenario) return;
  add_resolved_scenario(keys);
  add_given(keys, "", "object?");
}

void add_notes(ResultKeys& keys, std::string_view meaning) {
  keys.push_back({"notes", "list", "", meaning});
  keys.push_back({"notes[]", "string", "", "a sentence"});
}

void add_findings(ResultKeys& keys) {
  keys.insert(keys.end(),
              {{"findings", "list", "", "what is wrong; empty: nothing"},
               {"findings[]", "object", "", "one finding"},
               {"findings[].kind", "string", "",
                "race, deadlock, unmatched, order, coverage, uninitialised, leak, lifetime, numerics, ..."},
               {"findings[].rank", "integer|null", "", "where"},
               {"findings[].operation", "string|null", "", "rank/phase/ordinal of the operation"},
               {"findings[].buffer", "string|null", "", "in which buffer"},
               {"findings[].message", "string", "", "what is wrong, in a sentence"}});
}

const std::vector<ResultTable>& result_tables() {
  static const std::vector<ResultTable> tables = [] {
    std::vector<ResultTable> all = timeline_results();
    for (ResultTable& table : proof_results()) all.push_back(std::move(table));
    all.push_back(plan_result());
    all.push_back(advise_result());
    for (ResultTable& table : listing_results()) all.push_back(std::move(table));
    return all;
  }();
  return tables;
}

}  // namespace cplab
