// See option_words.hpp.
#include "cli/option_words.hpp"

#include <algorithm>
#include <filesystem>

#include "algorithms/core/list.hpp"
#include "algorithms/faults/faults.hpp"
#include "cli/explained.hpp"
#include "cli/files/model_file.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/keys/result_keys.hpp"
#include "decide/emit/emit.hpp"
#include "kernels/choice/kernel_choice.hpp"
#include "kernels/families/architectures.hpp"

namespace cplab {

namespace {

// The names by which files of scenarios/`folder` are found.
std::vector<std::string> stems(const std::string& folder) {
  std::vector<std::string> names;
  for (const std::string& file : scenario_names(folder))
    names.push_back(std::filesystem::path(file).stem().string());
  return names;
}

template <class Named>
void add_names(std::vector<std::string>& words, const Named& all) {
  for (const auto& each : all) {
    words.emplace_back(each.name);
    words.insert(words.end(), each.aliases.begin(), each.aliases.end());
  }
}

}  // namespace

std::vector<std::string> color_words() {
  return {"auto", "always", "never"};
}
std::vector<std::string> device_words() {
  return {"cpu", "gpu"};
}
std::vector<std::string> allocator_words() {
  return {"arena", "separate"};
}
std::vector<std::string> order_words() {
  return {"program", "random:"};
}
std::vector<std::string> shell_words() {
  return {"bash", "zsh"};
}
std::vector<std::string> list_words() {
  return {"algorithms", "placements", "scenarios", "hardware", "models", "faults", "published", "studies"};
}

std::vector<std::string> way_words() {
  return {std::begin(kernels::choice_way_names), std::end(kernels::choice_way_names)};
}

std::vector<std::string> architecture_words() {
  std::vector<std::string> words;
  for (const kernels::cuda::Architecture& gpu : kernels::cuda::architectures) words.emplace_back(gpu.name);
  return words;
}

std::vector<std::string> framework_words() {
  std::vector<std::string> words;
  for (const Framework each : frameworks()) words.emplace_back(name(each));
  return words;
}

std::vector<std::string> fault_words() {
  std::vector<std::string> words;
  for (const Fault& fault : faults()) words.emplace_back(fault.name);
  return words;
}

std::vector<std::string> algorithm_words() {
  std::vector<std::string> words{"all"};
  add_names(words, algorithms());
  return words;
}

std::vector<std::string> new_algorithm_words() {
  std::vector<std::string> words = algorithm_words();
  words.front() = "advise";
  return words;
}

std::vector<std::string> placement_words() {
  std::vector<std::string> words;
  add_names(words, placements());
  return words;
}

std::vector<std::string> machine_words() {
  return stems("hardware");
}
std::vector<std::string> model_words() {
  return model_names();
}
std::vector<std::string> scenario_words() {
  std::vector<std::string> words;
  for (const std::string& file : all_scenario_names()) words.push_back(file.substr(0, file.rfind(".toml")));
  return words;
}
std::vector<std::string> study_words() {
  return stems("studies");
}
std::vector<std::string> published_words() {
  return stems("published");
}

std::vector<std::string> explained_words() {
  return names_explained();
}

std::vector<std::string> schema_words() {
  std::vector<std::string> words;
  for (const ResultTable& table : result_tables())
    if (words.empty() || std::find(words.begin(), words.end(), table.command) == words.end())
      words.emplace_back(table.command);
  return words;
}

}  // namespace cplab
