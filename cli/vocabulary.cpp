// Looking up the tables of synonyms. Words are compared without case, "_", "-", "+", "." and spaces.
#include "cli/vocabulary.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "algorithms/core/algorithm.hpp"
#include "algorithms/core/list.hpp"
#include "cli/files/changes.hpp"
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
    const auto add = [&](std::string_view section, const std::vector<std::string>& names) {
      for (const std::string& name : names)
        // Groups of ranks are meant: of groups of tokens that see each other few know.
        if (section != "problem" || name != "groups") all.push_back(std::string(section) + "." + name);
    };
    for (const char* section : {"problem", "parallel", "simulate"}) add(section, legal_keys(section));
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
  constexpr std::array sections{"gpu",     "node",         "network", "host",  "fixed",       "kernel",
                                "message", "interference", "beside",  "form",  "pieces",      "launch",
                                "gemm",    "cards",        "linear",  "burst", "elementwise", "accuracy"};
  return std::find(sections.begin(), sections.end(), first) != sections.end();
}

// `section` is "", "problem", "training", "hardware", "hardware.gpu", ...
std::optional<std::string> key_by_meaning(std::string_view section, std::string_view given) {
  if (section.starts_with("hardware")) {
    if (const auto found = meaning(hardware_keys(), given)) return found;
  }
  if (section == "model" || section == "training") {
    // Either section's own words first: "layers" is of one, "sequence" of the other.
    if (const auto found = meaning(planning_keys(), given)) return found;
  }
  const auto own = own_key(given);
  if (own && (section.empty() || own->starts_with(section))) return own;
  if (const auto found = meaning(keys(), given)) return found;
  if (const auto found = meaning(explained(), given)) return found;
  if (own) return own;
  return meaning(hardware_keys(), given);
}

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_sentence(std::string_view text) {
  return text.ends_with('.');
}

// A sentence as it is; words with blanks are not put in quotes.
std::string said(const std::string& meant) {
  if (is_sentence(meant)) return meant;
  return did_you_mean(meant.find(' ') == std::string::npos ? in_quotes(meant) : meant);
}

// The legal word that differs in case, hyphens and blanks alone.
std::optional<std::string> same_word(std::string_view given, const std::vector<std::string>& legal) {
  for (const std::string& each : legal)
    if (plain(each) == plain(given)) return each;
  return std::nullopt;
}

// "an option of ring, usp": of an option that other algorithms have.
std::string owners(std::string_view key) {
  std::string names;
  for (const Algorithm& algorithm : algorithms())
    if (find_option(algorithm, key)) names += (names.empty() ? "" : ", ") + std::string(algorithm.name);
  return names;
}

// What is meant by the key, if that is legal in this section or belongs to another one; of an option of other
// algorithms, whose it is.
std::optional<std::string> by_meaning(const std::string& within, std::string_view given,
                                      const std::vector<std::string>& legal) {
  std::optional<std::string> meant = key_by_meaning(within, given);
  if (!meant || is_sentence(*meant)) return meant;
  if (!within.empty() && meant->starts_with(within + ".")) meant->erase(0, within.size() + 1);
  const bool is_here = meant->find_first_of(". ") == std::string::npos;
  if (!is_here || legal.empty() || contains(legal, *meant)) return meant;
  if (within != "schedule") return std::nullopt;
  return (*meant == given ? "it" : "that is " + in_quotes(*meant) + ", which") + " is an option of " +
         owners(*meant) + ".";
}

}  // namespace

std::string clause(const std::string& hint) {
  return hint.empty() ? "." : "; " + hint;
}

std::string meant_key(std::string_view section, std::string_view given,
                      const std::vector<std::string>& legal) {
  std::string within(section);
  if (is_of_hardware(section, legal)) within = section.empty() ? "hardware" : "hardware." + within;
  if (const auto same = same_word(given, legal); same && *same != given) return said(*same);
  if (const auto meant = by_meaning(within, given, legal)) return said(*meant);
  const std::string near = nearest(given, legal);
  return near.empty() ? near : did_you_mean(in_quotes(near));
}

std::string meant_value(std::string_view key, std::string_view given, const std::vector<std::string>& legal,
                        Quotes quotes) {
  const auto word = [&](const std::string& text) { return quotes == Quotes::yes ? in_quotes(text) : text; };
  if (const auto same = same_word(given, legal)) return did_you_mean(word(*same));
  for (const ValueSynonyms& each : values()) {
    if (each.key != key) continue;
    const auto meant = meaning(each.values, given);
    if (!meant) break;
    if (meant->find(' ') != std::string::npos) return said(*meant);
    if (contains(legal, *meant)) return did_you_mean(word(*meant));
    if (plain(*meant) == plain(given)) return "it is not in this version.";
    return "that is " + word(*meant) + ", which is not in this version.";
  }
  const std::string near = nearest(given, legal);
  return near.empty() ? near : did_you_mean(word(near));
}

std::string meant_command(std::string_view given, const std::vector<std::string>& legal) {
  if (const auto planned = meaning(explained_commands(), given)) return *planned;
  const std::string meant = meaning(commands_elsewhere(), given).value_or(nearest(given, legal));
  return meant.empty() ? meant : did_you_mean(meant);
}

std::string meant_option(std::string_view given, const std::vector<std::string>& legal) {
  const std::string_view name = given.substr(std::min(given.find_first_not_of('-'), given.size()));
  if (const auto same = same_word(given, legal); same && *same != given) return did_you_mean(*same);
  if (const auto meant = meaning(options_elsewhere(), name)) {
    const std::string option = meant->substr(0, meant->find(' '));
    if (contains(legal, option)) return did_you_mean(*meant);
  }
  const auto key = key_by_meaning("", name);
  if (key && is_sentence(*key)) return *key;
  if (key && contains(legal, "--set") && name.size() > 1)
    return did_you_mean("--set " + (key->find(' ') == std::string::npos ? *key + "=..." : *key));
  const std::string near = nearest(given, legal);
  return near.empty() ? near : did_you_mean(near);
}

std::string meant_file(std::string_view given, const std::vector<std::string>& names) {
  std::string_view name = given.substr(given.rfind('/') + 1);
  const bool as_path = name.ends_with(".toml") || name.size() < given.size();
  if (name.ends_with(".toml")) name.remove_suffix(5);
  const auto stem = [](std::string_view file) {
    file = file.substr(file.rfind('/') + 1);
    return std::string(file.substr(0, file.rfind(".toml")));
  };
  std::vector<std::string> stems;
  for (const std::string& file : names) stems.push_back(stem(file));
  const auto found = [&](const std::string& wanted) {
    const std::size_t at =
        static_cast<std::size_t>(std::find(stems.begin(), stems.end(), wanted) - stems.begin());
    return did_you_mean(in_quotes(as_path ? names[at] : wanted));
  };
  if (const std::string near = nearest(name, stems); !near.empty()) return found(near);
  // "b200x8" is so many of a kind.
  std::size_t kind = name.size();
  while (kind > 0 && std::isdigit(static_cast<unsigned char>(name[kind - 1])) != 0) --kind;
  if (kind > 1 && kind < name.size() && (name[kind - 1] == 'x' || name[kind - 1] == 'X'))
    kind -= name[kind - 2] == '-' || name[kind - 2] == '_' ? 2 : 1;
  else
    kind = name.size();
  for (const std::string_view each : {name, name.substr(0, kind)}) {
    const auto meant = meaning(machines(), each);
    if (meant && is_sentence(*meant) && contains(stems, "h200x4")) return *meant;
    if (meant && contains(stems, *meant)) return found(*meant);
  }
  return "";
}

}  // namespace cplab
