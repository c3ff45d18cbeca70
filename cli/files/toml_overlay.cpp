// One TOML table over another; nodes are moved, so that they keep the file and the line they came from.
#include "cli/files/toml_overlay.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>

namespace cplab {
namespace {

using IdentityKeys = std::vector<std::pair<std::string, std::string>>;

std::string plain_value(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  std::string list;
  if (const toml::array* const array = node.as_array()) {
    for (const toml::node& each : *array) list += plain_value(each) + ",";
    return list;
  }
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return out.str();
}

std::string identity_of(const toml::table& entry, const IdentityKeys& keys) {
  std::string text;
  for (const auto& [key, otherwise] : keys) {
    const toml::node* value = entry.get(key);
    if (!value && otherwise.starts_with("=")) value = entry.get(otherwise.substr(1));
    text += (value ? plain_value(*value) : otherwise) + "\n";
  }
  return text;
}

void lay_list(toml::array& lower, toml::array&& upper, const IdentityKeys& keys) {
  std::set<std::string> replaced;
  for (const toml::node& entry : upper)
    if (const toml::table* table = entry.as_table()) replaced.insert(identity_of(*table, keys));
  for (auto at = lower.begin(); at != lower.end();) {
    const toml::table* const table = at->as_table();
    at = table && replaced.contains(identity_of(*table, keys)) ? lower.erase(at) : at + 1;
  }
  for (toml::node& entry : upper) entry.visit([&](auto& value) { lower.push_back(std::move(value)); });
}

void place(toml::table& lower, const toml::key& key, toml::node& value) {
  lower.erase(key.str());  // with its key, which knows the line
  value.visit([&](auto& concrete) { lower.insert(key, std::move(concrete)); });
}

// Key by key, tables in tables too.
void lay_table(toml::table& lower, toml::table&& upper) {
  for (auto&& [key, value] : upper) {
    toml::node* const below = lower.get(key.str());
    if (below && below->is_table() && value.is_table()) {
      lay_table(*below->as_table(), std::move(*value.as_table()));
    } else {
      place(lower, key, value);
    }
  }
}

}  // namespace

std::vector<std::string> overlay(toml::table& lower, toml::table&& upper, const OverlayRules& rules) {
  std::vector<std::string> changed;
  for (auto&& [key, value] : upper) {
    const std::string name(key.str());
    toml::node* const below = lower.get(name);
    const auto identity = rules.identities.find(name);
    if (below && identity != rules.identities.end() && below->is_array() && value.is_array()) {
      lay_list(*below->as_array(), std::move(*value.as_array()), identity->second);
      continue;
    }
    if (!below || !below->is_table() || !value.is_table()) {
      place(lower, key, value);
      continue;
    }
    toml::table& section = *value.as_table();
    if (!rules.together.empty() && section.contains(rules.together.front())) {
      for (const std::string& each : rules.together) below->as_table()->erase(each);
    } else {
      for (const auto& [inner, unused] : section) changed.push_back(name + "." + std::string(inner.str()));
    }
    lay_table(*below->as_table(), std::move(section));
  }
  return changed;
}

}  // namespace cplab
