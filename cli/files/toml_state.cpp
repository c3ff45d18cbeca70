// The document behind a Table: places, messages, conversions.
#include "cli/files/toml_state.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <utility>

#include "cli/vocabulary.hpp"

namespace cplab {
namespace {

// What stands in the file or in --set, as a message: "FILE:LINE: KEY: message" or "--set KEY: message".
std::string located(const TomlDocument& document, const std::string& path, const TomlPlace& place,
                    const std::string& message) {
  const bool assigned = document.created.contains(path) ||
                        std::any_of(document.assigned.begin(), document.assigned.end(),
                                    [&](const std::string& a) { return is_at_or_below(path, a); });
  const std::string& file = place.file ? *place.file : document.file;
  const std::string text = assigned ? "--set " : file + ":" + std::to_string(std::max(place.line, 1U)) + ": ";
  return text + (path.empty() ? "" : path + ": ") + message;
}

TomlPlace place_of_region(const toml::source_region& region, const TomlPlace& otherwise) {
  return region.begin.line > 0 ? TomlPlace{region.path, region.begin.line} : otherwise;
}

}  // namespace

TomlPlace place_of(const toml::node& node, const TomlPlace& otherwise) {
  return place_of_region(node.source(), otherwise);
}

TomlPlace place_of(const toml::table& table, std::string_view key, const TomlPlace& otherwise) {
  const auto found = table.find(key);
  return found == table.end() ? otherwise : place_of_region(found->first.source(), otherwise);
}

bool is_at_or_below(std::string_view path, std::string_view ancestor) {
  return path.substr(0, ancestor.size()) == ancestor &&
         (path.size() == ancestor.size() || path[ancestor.size()] == '.' || path[ancestor.size()] == '[');
}

std::string joined_path(std::string_view path, std::string_view key) {
  const bool both = !path.empty() && !key.empty();
  return std::string(path) + (both ? "." : "") + std::string(key);
}

std::shared_ptr<Table::State> Table::State::of_root(std::shared_ptr<TomlDocument> document) {
  auto made = std::make_shared<State>();
  made->node = document->root.get();
  made->document = std::move(document);
  return made;
}

std::shared_ptr<Table::State> Table::State::child(toml::table* table, std::string child_path,
                                                  const TomlPlace& at) const {
  auto made = std::make_shared<State>();
  made->document = document;
  made->node = table;
  made->path = std::move(child_path);
  made->place = at;
  return made;
}

const toml::node* Table::State::find(std::string_view key) {
  asked.emplace(key);
  return node ? node->get(key) : nullptr;
}

const toml::node& Table::State::need(std::string_view key, const std::string& wanted) {
  const toml::node* found = find(key);
  if (!found) fail(key, "missing; must be " + wanted);
  return *found;
}

void Table::State::unknown(std::vector<std::string>& messages, bool all) const {
  std::vector<std::pair<std::uint32_t, std::string>> keys;  // the table itself is sorted by name
  if (node) {
    for (const auto& [key, value] : *node)
      if (!asked.contains(key.str())) keys.emplace_back(key.source().begin.line, std::string(key.str()));
  }
  std::sort(keys.begin(), keys.end());
  const std::vector<std::string> legal(asked.begin(), asked.end());
  for (const auto& [at, key] : keys) {
    std::string message = (*node)[key].is_table() ? "unknown section" : "unknown key";
    if (!legal.empty()) message += clause(meant_key(path, key, legal)) + " Legal here: ";
    for (std::size_t i = 0; i < legal.size(); ++i) message += (i ? ", " : "") + legal[i];
    messages.push_back(said(key, message));
    if (!all) break;
  }
  for (const auto& [key, list] : children)
    for (const auto& state : list) state->unknown(messages, all);
}

TomlPlace Table::State::place_in(std::string_view key) const {
  TomlPlace at = place;
  const toml::table* inner = node;
  std::string_view rest = key;
  while (inner && !rest.empty()) {
    const std::string_view head = inner->contains(rest) ? rest : rest.substr(0, rest.find('.'));
    at = place_of(*inner, head, at);
    const toml::node* next = inner->get(head);
    rest = head.size() < rest.size() ? rest.substr(head.size() + 1) : std::string_view();
    inner = next ? next->as_table() : nullptr;
  }
  return at;
}

std::string Table::State::said(std::string_view key, const std::string& message) const {
  return located(*document, joined_path(path, key), place_in(key), message);
}

void Table::State::fail(std::string_view key, const std::string& message) const {
  throw InputError(said(key, message));
}

void Table::State::wrong_type(std::string_view key, const std::string& wanted, const toml::node& got) const {
  fail(key, "must be " + wanted + ", but is " + shown(got));
}

std::int64_t Table::State::to_whole(std::string_view key, const toml::node& value, const std::string& wanted,
                                    Quantity quantity) const {
  std::string why;
  if (const auto whole = whole_of(value, quantity, wanted, why)) return *whole;
  fail(key, why);
}

double Table::State::to_number(std::string_view key, const toml::node& value, const std::string& wanted,
                               std::optional<Quantity> quantity) const {
  std::string why;
  if (const auto number = number_of(value, quantity, wanted, why)) return *number;
  fail(key, why);
}

std::string Table::State::to_text(std::string_view key, const toml::node& value,
                                  const std::string& wanted) const {
  if (const auto* s = value.as_string()) return s->get();
  wrong_type(key, wanted, value);
}

std::vector<std::int64_t> Table::State::to_integers(std::string_view key, const toml::node& value,
                                                    const std::string& wanted) const {
  std::vector<std::int64_t> integers;
  for (const toml::node* each : elements(key, value, wanted))
    integers.push_back(to_whole(key, *each, wanted, Quantity::count));
  return integers;
}

std::vector<const toml::node*> Table::State::elements(std::string_view key, const toml::node& value,
                                                      const std::string& wanted) const {
  const toml::array* const list = value.as_array();
  if (!list) wrong_type(key, wanted, value);
  std::vector<const toml::node*> nodes;
  for (const toml::node& element : *list) nodes.push_back(&element);
  return nodes;
}

}  // namespace cplab
