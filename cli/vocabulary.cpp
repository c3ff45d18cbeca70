// Looking up the tables of synonyms. Words are compared without case, "_", "-", "+", "." and spaces.
#include "cli/vocabulary.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "algorithms/algorithm.hpp"
#include "algorithms/list.hpp"
#include "cli/synonyms.hpp"

namespace cplab {

namespace {

using namespace synonyms;

std::string plain(std::string_view word) {
  std::string text;
  for (const char c : word) {
    if (std::string_view("_-+. ").find(c) == std::string_view::npos) {
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return text;
}

std::optional<std::string> meaning(const std::vector<Synonyms>& table, std::string_view given) {
  const std::string wanted = plain(given);
  if (wanted.empty()) return std::nullopt;
  for (const Synonyms& each : table) {
    for (const std::string_view word : each.called) {
      if (plain(word) == wanted) return std::string(each.is);
    }
  }
  return std::nullopt;
}

// Keys of a scenario as they are, for one that stands in the wrong section, is misspelt in case or hyphens
// only, or was given without its section.
std::optional<std::string> own_key(std::string_view given) {
  static const std::vector<std::string> own = [] {
    std::vector<std::string> all;
    const auto add = [&](const char* section, std::initializer_list<const char*> names) {
      for (const char* name : names) all.push_back(std::string(section) + "." + name);
    };
    add("problem", {"attention", "batch", "sequence", "lengths", "padded_lengths", "heads", "kv_heads",
                    "head_size", "value_size", "dtype", "format", "mask", "window", "scale", "max_logit",
                    "slopes", "transition", "direction"});
    add("parallel", {"ranks", "replicas", "groups", "algorithm", "placement", "homes"});
    add("simulate", {"collective_model", "cuda_graph", "run_ahead", "iteration"});
    add("hardware", {"gpu.sms", "gpu.capacity_bytes", "gpu.copy_bytes_s", "node.link_bytes_s",
                     "network.nic_bytes_s", "network.nics"});
    for (const Algorithm& algorithm : algorithms()) {
      for (const OptionInfo& option : algorithm.options) all.push_back("schedule." + std::string(option.key));
    }
    return all;
  }();
  const std::string wanted = plain(given);
  for (const std::string& key : own) {
    if (plain(key.substr(key.rfind('.') + 1)) == wanted || plain(key) == wanted) return key;
  }
  return std::nullopt;
}

std::string did_you_mean(const std::string& word) {
  return "did you mean " + word + "?";
}

std::string in_quotes(const std::string& word) {
  return "\"" + word + "\"";
}

// A section of a hardware file; its root, by what is legal there.
bool is_of_hardware(std::string_view section, const std::vector<std::string>& legal) {
  if (section.empty()) return std::find(legal.begin(), legal.end(), "gpu") != legal.end();
  const std::string_view first = section.substr(0, section.find_first_of(".["));
  constexpr std::array sections{"gpu",   "node",   "network", "host",
                                "fixed", "kernel", "message", "interference"};
  return std::find(sections.begin(), sections.end(), first) != sections.end();
}

// `section` is "", "problem", "hardware", "hardware.gpu", ...
std::optional<std::string> key_by_meaning(std::string_view section, std::string_view given) {
  if (section.starts_with("hardware")) {
    if (const auto found = meaning(hardware_keys(), given)) return found;
  }
  const auto own = own_key(given);
  if (own && (section.empty() || own->starts_with(section))) return own;
  if (const auto found = meaning(keys(), given)) return found;
  if (own) return own;
  return meaning(hardware_keys(), given);
}

}  // namespace

std::string meant_key(std::string_view section, std::string_view given,
                      const std::vector<std::string>& legal) {
  std::string within(section);
  if (is_of_hardware(section, legal)) within = section.empty() ? "hardware" : "hardware." + within;
  if (auto meant = key_by_meaning(within, given)) {
    if (!within.empty() && meant->starts_with(within + ".")) meant->erase(0, within.size() + 1);
    // A synonym that is a whole sentence is not put in quotes.
    return did_you_mean(meant->find(' ') == std::string::npos ? in_quotes(*meant) : *meant);
  }
  return legal.empty() ? std::string() : did_you_mean(in_quotes(nearest(given, legal)));
}

std::string meant_value(std::string_view key, std::string_view given, const std::vector<std::string>& legal,
                        Quotes quotes) {
  const auto word = [&](const std::string& text) { return quotes == Quotes::yes ? in_quotes(text) : text; };
  for (const std::string& each : legal) {
    if (plain(each) == plain(given)) return did_you_mean(word(each));
  }
  for (const ValueSynonyms& each : values()) {
    if (each.key != key) continue;
    const auto meant = meaning(each.values, given);
    if (!meant) break;
    if (meant->find(' ') != std::string::npos) return did_you_mean(*meant);
    if (std::find(legal.begin(), legal.end(), *meant) != legal.end()) return did_you_mean(word(*meant));
    if (plain(*meant) == plain(given)) return "it is not in this version.";
    return "that is " + word(*meant) + ", which is not in this version.";
  }
  return legal.empty() ? std::string() : did_you_mean(word(nearest(given, legal)));
}

std::string meant_command(std::string_view given, const std::vector<std::string>& legal) {
  return did_you_mean(meaning(commands_elsewhere(), given).value_or(nearest(given, legal)));
}

std::string meant_option(std::string_view given, const std::vector<std::string>& legal) {
  const std::string_view name = given.substr(std::min(given.find_first_not_of('-'), given.size()));
  if (const auto meant = meaning(options_elsewhere(), name)) {
    const std::string option = meant->substr(0, meant->find(' '));
    if (std::find(legal.begin(), legal.end(), option) != legal.end()) return did_you_mean(*meant);
  }
  const bool takes_set = std::find(legal.begin(), legal.end(), "--set") != legal.end();
  if (const auto key = key_by_meaning("", name); key && takes_set && name.size() > 1) {
    return did_you_mean("--set " + (key->find(' ') == std::string::npos ? *key + "=..." : *key));
  }
  return did_you_mean(nearest(given, legal));
}

}  // namespace cplab
