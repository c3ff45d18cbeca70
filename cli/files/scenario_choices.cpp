// Names first, with what was probably meant, so that the registry's own errors are about combinations.
#include "cli/files/scenario_choices.hpp"

#include <algorithm>

#include "algorithms/core/list.hpp"
#include "cli/vocabulary.hpp"

namespace cplab {

namespace {

template <class List>
std::vector<std::string> names_of(const List& list) {
  std::vector<std::string> names;
  for (const auto& each : list) names.emplace_back(each.name);
  return names;
}

// The option's legal words as in a file, for one that is not legal.
std::vector<std::string> legal_words(const OptionInfo& option) {
  std::vector<std::string> words;
  for (const OptionValue& value : option.legal) {
    if (const auto* word = std::get_if<std::string>(&value)) words.push_back(*word);
  }
  return words;
}

Schedule read_schedule(const Table& table) {
  Schedule schedule;
  for (const std::string& key : table.keys()) {
    switch (table.kind(key)) {
      case Table::Kind::flag: schedule.set(key, table.flag(key, false)); break;
      case Table::Kind::integer: schedule.set(key, table.integer(key)); break;
      case Table::Kind::text: schedule.set(key, table.text(key)); break;
      default: table.fail(key, "must be true, false, an integer or a word");
    }
  }
  return schedule;
}

const Algorithm& read_algorithm(const Table& parallel) {
  const std::vector<std::string> names = names_of(algorithms());
  if (!parallel.has("algorithm")) parallel.fail("algorithm", "missing; legal: " + quoted_list(names));
  const std::string given = parallel.text("algorithm");
  if (const Algorithm* algorithm = find_algorithm(given)) return *algorithm;
  parallel.fail("algorithm", "no algorithm \"" + given + "\"" +
                                 clause(meant_value("algorithm", given, names)) +
                                 " Legal: " + quoted_list(names));
}

std::string read_placement(const Table& parallel, const Algorithm& algorithm) {
  const std::string given = parallel.text("placement", "");
  if (!parallel.has("placement") || find_placement(given)) return given;
  const std::vector<std::string> legal(algorithm.placements.begin(), algorithm.placements.end());
  parallel.fail("placement", "no placement \"" + given + "\"" +
                                 clause(meant_value("placement", given, legal)) +
                                 " Legal: " + quoted_list(legal));
}

void check_options(const Table& table, const Algorithm& algorithm, const Schedule& schedule) {
  std::vector<std::string> keys;
  for (const OptionInfo& option : algorithm.options) keys.emplace_back(option.key);
  for (const auto& [key, value] : schedule.options) {
    const OptionInfo* option = find_option(algorithm, key);
    if (!option) {
      table.fail(key, "algorithm \"" + std::string(algorithm.name) + "\" has no option \"" + key + "\"" +
                          clause(meant_key("schedule", key, keys)) + " It has: " + quoted_list(keys));
    }
    const auto* word = std::get_if<std::string>(&value);
    const std::vector<std::string> words = legal_words(*option);
    if (is_legal(*option, value) || !word || words.empty()) continue;  // else the registry says what is legal
    table.fail(key, "\"" + *word + "\" is not legal; legal: " + legal_values(*option) +
                        clause(meant_value(key, *word, words)));
  }
}

}  // namespace

std::string algorithm_of(const Table& root) {
  if (root.kind("parallel") != Table::Kind::table) return {};
  const Table parallel = root.table("parallel");
  return parallel.kind("algorithm") == Table::Kind::text ? parallel.text("algorithm") : std::string();
}

std::vector<std::string> leave_out_options(Schedule& schedule, const std::set<std::string>& given,
                                           const Algorithm& was, const Algorithm& is,
                                           const Problem& problem) {
  const auto takes = [](const Algorithm& algorithm, const std::pair<std::string, OptionValue>& each) {
    const OptionInfo* option = find_option(algorithm, each.first);
    return option && is_legal(*option, each.second);
  };
  const auto has_use = [&](const std::pair<std::string, OptionValue>& each) {
    return takes(is, each) && find_option(is, each.first)->is_for(problem);
  };
  std::vector<std::string> left_out;
  std::erase_if(schedule.options, [&](const auto& each) {
    if (given.contains(each.first) || !takes(was, each) || has_use(each)) return false;
    left_out.push_back(each.first + "=" + to_string(each.second));
    return true;
  });
  return left_out;
}

void read_choices(const Table& root, const std::string& file_algorithm, Scenario& scenario,
                  std::vector<std::string>& notes) {
  const Table parallel = root.table("parallel"), table = root.table("schedule");
  const Algorithm& algorithm = read_algorithm(parallel);
  scenario.algorithm = algorithm.name;
  scenario.placement = read_placement(parallel, algorithm);
  scenario.schedule = read_schedule(table);
  const Algorithm* was = find_algorithm(file_algorithm);
  if (was && was->name != algorithm.name) {
    std::set<std::string> given;
    for (const auto& [key, value] : scenario.schedule.options) {
      if (table.is_set(key)) given.insert(key);
    }
    std::string text;
    for (const std::string& each :
         leave_out_options(scenario.schedule, given, *was, algorithm, scenario.problem)) {
      text += (text.empty() ? "" : ", ") + each;
    }
    if (!text.empty()) {
      notes.push_back("parallel.algorithm is set to " + scenario.algorithm +
                      ": left out what [schedule] says for " + std::string(was->name) + ": " + text);
    }
  }
  check_options(table, algorithm, scenario.schedule);
}

}  // namespace cplab
