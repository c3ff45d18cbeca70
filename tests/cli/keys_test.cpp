// The table of keys is what readers take: words, ranges and defaults of scenarios; the keys of hardware
// files; and what docs/06-files.md says.
#include "cli/keys/keys.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "cli/explained.hpp"
#include "cli/files/changes.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/files/scenario_file.hpp"
#include "report/json_writer.hpp"
#include "report/scenario_json.hpp"
#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

using namespace cplab;
using cplab::testing::contains;

namespace {

std::string error_of(const std::string& scenario, const std::vector<std::string>& sets) {
  try {
    (void)read_scenario(scenario, sets);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

std::string json_text(const Scenario& scenario) {
  std::ostringstream out;
  {
    JsonWriter json(out);
    write_scenario(json, scenario, {});
  }
  return out.str();
}

// Scenarios, with changes, which together have every key of [problem] and [parallel] in use.
struct Base {
  std::string scenario;
  std::vector<std::string> changes = {};
  std::vector<std::string> with(const std::string& more) const {
    std::vector<std::string> all = changes;
    all.push_back(more);
    return all;
  }
};
const std::vector<Base> bases{
    {"ring-small"},
    {"packed"},
    {"lasp"},
    {"affine-heads"},
    {"affine-heads", {"problem.transition=matrix"}},
    {"dynamic-mask"},
    {"dynamic-mask", {"unset problem.top_k", "unset problem.block", "problem.keep=relu"}},
    {"dynamic-mask", {"unset problem.top_k", "unset problem.block", "unset problem.keep"}},
    {"forms"},
    {"ring-small", {"problem.bias=buckets"}},
    {"latent"},
    {"ring-64"},
    {"documents"},
    {"decode"}};

// "## Scenario: TOML, unknown keys are errors" as the anchor of a link.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading.substr(heading.find_first_not_of("# "))) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_')
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (c == ' ')
      anchor += '-';
  }
  return anchor;
}

std::set<std::string> anchors_of(const std::string& file) {
  std::set<std::string> anchors;
  std::istringstream page(read_file(file));
  for (std::string line; std::getline(page, line);)
    if (line.starts_with("#")) anchors.insert(anchor_of(line));
  return anchors;
}

std::string docs_folder() {
  return (std::filesystem::path(CPLAB_TEST_SCENARIOS).parent_path() / "docs").string();
}

// What stands behind "Legal here: " in the error about a key that nobody knows.
std::set<std::string> legal_in(const std::string& error) {
  std::set<std::string> keys;
  const std::size_t at = error.find("Legal here: ");
  if (at == std::string::npos) return keys;
  std::istringstream words(error.substr(at + 12, error.find_first_of("\n", at) - at - 12));
  for (std::string word; words >> word;) keys.insert(word.substr(0, word.find(',')));
  return keys;
}

// Names of the rows directly in `path`.
std::set<std::string> rows_in(const std::string& path) {
  std::set<std::string> names;
  for (const KeyInfo& key : hardware_key_table()) {
    if (!key.key.starts_with(path + ".")) continue;
    const std::string_view name = key.key.substr(path.size() + 1);
    if (name.find_first_of(".[") == std::string_view::npos) names.emplace(name);
  }
  return names;
}

}  // namespace

TEST_CASE("rows: each key once, said what it is, and a page that there is") {
  std::set<std::string_view> seen;
  std::map<std::string, std::set<std::string>> anchors;
  for (const Explained& entry : all_explained()) {
    CAPTURE(entry.name);
    CHECK_FALSE(entry.meaning.empty());
    CHECK((!entry.meaning.ends_with(".") || entry.meaning.ends_with("...")));
    REQUIRE_FALSE(entry.page.empty());
    const std::size_t hash = entry.page.find('#');
    const std::string file = docs_folder() + "/" + entry.page.substr(0, hash);
    CAPTURE(entry.page);
    REQUIRE(std::filesystem::exists(file));
    if (!anchors.contains(file)) anchors[file] = anchors_of(file);
    if (hash != std::string::npos) CHECK(anchors[file].contains(entry.page.substr(hash + 1)));
  }
  for (const std::string_view section : key_sections())
    for (const KeyInfo& key : key_table(section)) {
      CAPTURE(key.key);
      CHECK(seen.insert(key.key).second);
      CHECK(key.section() == section);
      CHECK(find_key(key.key) == &key);
      if (!key.value.empty() && key.type == KeyType::word)
        CHECK(std::find(key.words.begin(), key.words.end(), key.value) != key.words.end());
    }
}

TEST_CASE("words of the table are those that readers know, all of them") {
  for (const char* section : {"problem", "parallel", "simulate"})
    for (const KeyInfo& key : key_table(section)) {
      if (key.type != KeyType::word || key.words.empty()) continue;
      const std::string set(key.key);
      CAPTURE(set);
      bool refused = false;
      std::set<std::string_view> known;
      for (const Base& base : bases) {
        const std::string error = error_of(base.scenario, base.with(set + "=zzz"));
        const std::string quoted = "Legal: \"" + std::string(key.words.front()) + "\"";
        refused = refused || (contains(error, "\"zzz\" is not known") && contains(error, quoted));
        for (const std::string_view word : key.words)
          if (!contains(error_of(base.scenario, base.with(set + "=" + std::string(word))), "is not known"))
            known.insert(word);
      }
      CHECK(refused);
      CHECK(known.size() == key.words.size());
    }
}

TEST_CASE("ranges of the table are those of readers") {
  for (const char* section : {"problem", "parallel", "simulate"})
    for (const KeyInfo& key : key_table(section)) {
      if (key.type != KeyType::whole || key.most == 0 || key.most == INT64_MAX ||
          contains(std::string(key.key), "[]"))
        continue;
      const std::string set(key.key);
      CAPTURE(set);
      bool below = false, above = false;
      const std::string range = "from " + std::to_string(key.least) + " to " + std::to_string(key.most);
      for (const Base& base : bases) {
        below =
            below ||
            contains(error_of(base.scenario, base.with(set + "=" + std::to_string(key.least - 1))), range);
        above = above ||
                contains(error_of(base.scenario, base.with(set + "=" + std::to_string(key.most + 1))), range);
      }
      CHECK(below);
      CHECK(above);
    }
}

TEST_CASE("a default that is set is the same as one that is left out") {
  for (const char* section : {"problem", "parallel", "simulate"})
    for (const KeyInfo& key : key_table(section)) {
      if (key.value.empty() || contains(std::string(key.key), "[]")) continue;
      const std::string set(key.key);
      CAPTURE(set);
      int taken = 0;
      for (const Base& base : bases) {
        const auto sets_it = [&](const std::string& change) { return change.starts_with(set + "="); };
        if (std::any_of(base.changes.begin(), base.changes.end(), sets_it)) continue;
        const ScenarioFile without = [&] {
          try {
            return read_scenario(base.scenario, base.with("unset " + set));
          } catch (const InputError&) {  // the file does not have it
            return read_scenario(base.scenario, base.changes);
          }
        }();
        if (!error_of(base.scenario, base.with(set + "=" + std::string(key.value))).empty()) continue;
        const ScenarioFile with = read_scenario(base.scenario, base.with(set + "=" + std::string(key.value)));
        ++taken;
        CHECK(json_text(with.scenario) == json_text(without.scenario));
        CHECK(with.simulate.stepwise == without.simulate.stepwise);
        CHECK(with.simulate.cuda_graph == without.simulate.cuda_graph);
        CHECK(with.simulate.engine == without.simulate.engine);
        CHECK(with.simulate.disturbance.jitter == without.simulate.disturbance.jitter);
        CHECK(with.simulate.disturbance.seed == without.simulate.disturbance.seed);
      }
      CHECK(taken > 0);
    }
}

TEST_CASE("keys that must be given are those that readers miss") {
  for (const char* section : {"problem", "parallel"})
    for (const KeyInfo& key : key_table(section)) {
      const std::string set(key.key);
      CAPTURE(set);
      bool missing = false;
      for (const Base& base : bases)
        missing = missing || contains(error_of(base.scenario, base.with("unset " + set)), set + ": missing");
      const bool said = key.is_required() || std::string_view(key.rule).starts_with("missing is an error");
      CHECK(missing == said);
    }
}

namespace {

// Sections of a hardware file that have keys of their own there, by their rows: "hardware.kernel[]", and
// where they stand in the file: "kernel.0", "kernel.1", ...
std::vector<std::pair<std::string, std::string>> places_in(const Table& table) {
  std::vector<std::pair<std::string, std::string>> places;
  for (const KeyInfo& key : hardware_key_table()) {
    const std::string name(key.name_in_section()), outer = name.substr(0, name.find('.'));
    const bool free = name == "calibration" || name == "environment" || name == "gpu.peak_flops";
    if (key.type != KeyType::section || free || name == "network.level") continue;
    if (table.kind(outer) == Table::Kind::list)
      for (std::size_t i = 0; i < table.tables(outer).size(); ++i)
        places.emplace_back("hardware." + name + "[]", name + "." + std::to_string(i));
    else if (table.kind(outer) == Table::Kind::table)
      places.emplace_back(key.key, name);
  }
  return places;
}

// By section the keys that its readers ask for, in any shipped file: each is given a key that nobody knows.
std::map<std::string, std::set<std::string>> asked_keys() {
  std::map<std::string, std::set<std::string>> asked;
  for (const std::string& file : scenario_names("hardware")) {
    const std::string path = std::string(CPLAB_TEST_SCENARIOS) + "/" + file;
    HardwareOverrides overrides;
    const auto places = places_in(Table::open(path));
    for (const auto& [section, place] : places) overrides.emplace_back(place + ".zzz", "1");
    std::vector<std::string> messages;
    try {
      (void)read_hardware(path, overrides);
    } catch (const InputErrors& errors) {
      messages = errors.messages;
    } catch (const InputError& error) {
      messages = {error.what()};
    }
    for (const auto& [section, place] : places)
      for (const std::string& message : messages)
        if (contains(message, " " + place + ".zzz:") || contains(message, " hardware." + place + ".zzz:"))
          asked[section].merge(legal_in(message));
  }
  return asked;
}

}  // namespace

TEST_CASE("keys of hardware files: what readers ask for has rows, and rows are asked for") {
  const std::map<std::string, std::set<std::string>> asked = asked_keys();
  CHECK(asked.size() > 15);
  for (const auto& [section, keys] : asked) {
    CAPTURE(section);
    std::set<std::string> rows = rows_in(section);
    for (const std::string& key : keys) {
      CAPTURE(key);
      CHECK(rows.contains(key));
    }
    for (const std::string& row : rows) {
      CAPTURE(row);
      CHECK(keys.contains(row));
    }
  }
}

TEST_CASE("legal keys of sections follow from the table") {
  CHECK(legal_keys("hardware") == std::vector<std::string>{"file"});
  CHECK(legal_keys("study").empty());
  const std::vector<std::string> simulate = legal_keys("simulate");
  CHECK(std::set<std::string>(simulate.begin(), simulate.end()) ==
        std::set<std::string>{"collective_model", "cuda_graph", "run_ahead", "iteration", "engine", "slow",
                              "jitter", "seed"});
  CHECK(find_key("hardware.kernel.2.seconds") == find_key("hardware.kernel[].seconds"));
  CHECK(find_key("simulate.slow[0].rank") == find_key("simulate.slow[].rank"));
  CHECK(find_key("simulate.slow[].rank") != nullptr);
  CHECK(find_key("problem.zzz") == nullptr);
  CHECK(find_key("zzz") == nullptr);
}

namespace {

// A key as the TOML of docs/06-files.md shows it.
struct Shown {
  std::string value, comment;  // what stands behind "#", on its line and on those that go on
  bool left_out = false;       // the line itself is a comment: an example
};

// `words`: those of the comments, by section, where a key may be named without a line of its own.
std::map<std::string, std::vector<Shown>> keys_on_page(std::map<std::string, std::string>& words) {
  std::map<std::string, std::vector<Shown>> keys;
  std::istringstream page(read_file(docs_folder() + "/06-files.md"));
  std::string section;
  Shown* last = nullptr;
  bool in_toml = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("```")) {
      in_toml = line == "```toml";
      section.clear();
    } else if (in_toml && line.starts_with("[")) {
      const std::size_t from = line.find_first_not_of('['), to = line.find(']');
      section = line.substr(from, to - from) + (from == 2 ? "[]" : "");
    } else if (in_toml && !section.empty()) {
      const bool left_out = line.starts_with("# ");
      const std::string text = left_out ? line.substr(2) : line;
      const std::size_t equals = text.find(" = ");
      const std::size_t hash = text.find("# ", equals == std::string::npos ? 0 : equals);
      const std::string key = text.substr(0, equals);
      if (hash != std::string::npos) words[section] += " " + text.substr(hash + 2) + " ";
      if (equals != std::string::npos &&
          key.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos) {
        std::string value = text.substr(equals + 3, hash == std::string::npos ? hash : hash - equals - 3);
        value.erase(value.find_last_not_of(' ') + 1);
        auto& all = keys[section + "." + key];
        all.push_back({value, hash == std::string::npos ? "" : text.substr(hash + 2), left_out});
        last = &all.back();
      } else if (last && hash != std::string::npos) {
        last->comment += " " + text.substr(hash + 2);
      }
    }
  }
  return keys;
}

std::string without_quotes(std::string text) {
  std::erase(text, '"');
  return text;
}

bool same_value(const std::string& a, std::string_view b) {
  if (a == b) return true;
  char *end_a = nullptr, *end_b = nullptr;
  const std::string other(b);
  const double x = std::strtod(a.c_str(), &end_a), y = std::strtod(other.c_str(), &end_b);
  return !a.empty() && *end_a == 0 && !other.empty() && *end_b == 0 && x == y;
}

}  // namespace

TEST_CASE("page 6 shows every key of scenarios, with values that are legal and the table's defaults") {
  std::map<std::string, std::string> words;
  const auto shown = keys_on_page(words);
  CHECK(shown.size() > 80);
  for (const char* section : {"problem", "parallel", "simulate", "model", "training"})
    for (const KeyInfo& key : key_table(section)) {
      if (key.type == KeyType::section) continue;
      CAPTURE(key.key);
      const std::regex word("[^a-z_]" + std::string(key.name_in_section()) + "[^a-z_]");
      const bool named = std::regex_search(words[section], word);
      CHECK((named || shown.contains(std::string(key.key))));
    }
  for (const auto& [name, all] : shown) {
    CAPTURE(name);
    if (name.starts_with("schedule.")) {
      CHECK_FALSE(explained_as(name).empty());
      continue;
    }
    const KeyInfo* const key = find_key(name);
    REQUIRE(key != nullptr);
    bool says_default = false;
    for (const Shown& each : all) {
      const std::string value = without_quotes(each.value);
      CAPTURE(value);
      if (key->type == KeyType::word && !key->words.empty())
        CHECK(std::find(key->words.begin(), key->words.end(), value) != key->words.end());
      if (key->type == KeyType::flag) CHECK((value == "true" || value == "false"));
      const std::size_t at = each.comment.find("default ");
      const std::string word =
          at == std::string::npos
              ? ""
              : each.comment.substr(at + 8, each.comment.find_first_of(",;:", at) - at - 8);
      says_default =
          says_default || each.left_out || same_value(value, key->value) || same_value(word, key->value);
    }
    if (!key->value.empty()) CHECK(says_default);
  }
}
