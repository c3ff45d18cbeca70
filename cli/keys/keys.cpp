// Finding rows of the tables of keys; see keys.hpp.
#include "cli/keys/keys.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace cplab {

namespace {

struct Section {
  std::string_view name, meaning, page;
  std::span<const KeyInfo> (*keys)();
};

constexpr std::string_view scenario_page = "06-files.md#scenario-toml-unknown-keys-are-errors";
constexpr std::string_view whole_page = "06-files.md#model-and-training-whole-steps";

const std::array<Section, 7>& sections() {
  static const std::array<Section, 7> all{
      {{"problem", "what is computed: shapes, dtype, mask", scenario_page, problem_key_table},
       {"parallel", "over how many ranks, by which algorithm, and which tokens each holds", scenario_page,
        parallel_key_table},
       {"simulate", "how a prediction is made", scenario_page, simulate_key_table},
       {"hardware",
        "the machine: its file, and every key of hardware files, which --set hardware.KEY changes",
        "05-cost-model.md#hardware-files", hardware_key_table},
       {"model", "a whole model, of which `cplab advise` speaks", whole_page, model_key_table},
       {"training", "what is done with a model, on how many GPUs", whole_page, training_key_table},
       {"study", "a study of many scenarios, for `cplab sweep`", "16-sweep.md#the-study-file",
        study_key_table}}};
  return all;
}

const Section* find_section(std::string_view name) {
  const auto found = std::find_if(sections().begin(), sections().end(),
                                  [&](const Section& each) { return each.name == name; });
  return found == sections().end() ? nullptr : &*found;
}

// "hardware.kernel.2.seconds" and "simulate.slow[0].rank" without their numbers.
std::string without_places(std::string_view key) {
  std::string plain;
  for (std::size_t at = 0; at < key.size();) {
    const std::size_t end = std::min(key.find_first_of(".[", at), key.size());
    const std::string_view word = key.substr(at, end - at);
    const bool number = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
      return std::isdigit(static_cast<unsigned char>(c)) != 0;
    });
    if (number && !plain.empty())
      plain += "[]";
    else
      plain += (plain.empty() ? "" : ".") + std::string(word);
    at = end;
    if (at == key.size()) break;
    if (key[at] == '[') {
      plain += "[]";
      at = std::min(key.find(']', at), key.size() - 1) + 1;
    }
    if (at < key.size() && key[at] == '.') ++at;
  }
  return plain;
}

}  // namespace

std::span<const KeyInfo> key_table(std::string_view section) {
  const Section* const found = find_section(section);
  return found ? found->keys() : std::span<const KeyInfo>();
}

std::span<const std::string_view> key_sections() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const Section& each : sections()) all.push_back(each.name);
    return all;
  }();
  return names;
}

const KeyInfo* find_key(std::string_view key) {
  const std::string plain = without_places(key);
  const std::span<const KeyInfo> rows = key_table(plain.substr(0, plain.find_first_of(".[")));
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const KeyInfo& row) { return row.key == plain; });
  return found == rows.end() ? nullptr : &*found;
}

std::string_view page_of(const KeyInfo& key) {
  if (!key.page.empty()) return key.page;
  const Section* const section = find_section(key.section());
  return section ? section->page : std::string_view();
}

std::string_view meaning_of_section(std::string_view section) {
  const Section* const found = find_section(section);
  return found ? found->meaning : std::string_view();
}

}  // namespace cplab
