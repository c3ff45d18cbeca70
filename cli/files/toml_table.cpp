// Strict TOML: toml++ parses and knows the lines; asked-for keys are recorded, the rest is an error.
#include "cli/files/toml_table.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>

#include "cli/files/text_file.hpp"
#include "cli/files/toml_nesting.hpp"
#include "cli/files/toml_overlay.hpp"
#include "cli/files/toml_state.hpp"
#include "cli/memory_need.hpp"

namespace cplab {

InputErrors::InputErrors(std::vector<std::string> all)
    : InputError(all.front() +
                 (all.size() > 1 ? " (and " + std::to_string(all.size() - 1) + " more errors)" : "")),
      messages(std::move(all)) {}

Table::Table(std::shared_ptr<State> state) : state_(std::move(state)) {}

Table Table::open(const std::string& path) {
  return parse(read_text_file(path), path);
}

Table Table::parse(const std::string& text, const std::string& file_name) {
  auto document = std::make_shared<TomlDocument>();
  document->file = file_name;
  require_toml_memory(text.size(), file_name);
  require_shallow_toml(text, file_name);
  try {
    document->root = std::make_shared<toml::table>(toml::parse(text, file_name));
  } catch (const toml::parse_error& error) {
    const auto& at = error.source().begin;
    throw InputError(file_name + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) +
                     ": not TOML: " + std::string(error.description()) + unquoted_hint(text, at.line));
  }
  return Table(State::of_root(std::move(document)));
}

void Table::assign(const std::string& dotted_key, const std::string& value_text) {
  const auto refuse = [&](const std::string& message) {
    throw InputError("--set " + dotted_key + ": " + message);
  };
  if (!state_->node) refuse("the section does not exist");

  toml::table parsed = value_of_set(value_text, refuse);
  if (static_cast<std::size_t>(std::count(dotted_key.begin(), dotted_key.end(), '.')) >= deepest_toml)
    refuse("more than " + std::to_string(deepest_toml) + " names in the key");
  toml::table* table = state_->node;
  std::string path = state_->path;
  std::string_view rest = dotted_key;
  while (true) {
    const auto dot = rest.find('.');
    const std::string_view head = rest.substr(0, dot);
    if (head.empty()) refuse("empty name in the key");
    path = joined_path(path, head);
    if (dot == std::string_view::npos) {
      parsed["value"].visit([&](auto& value) { table->insert_or_assign(head, std::move(value)); });
      break;
    }
    rest = rest.substr(dot + 1);
    if (!table->contains(head)) {
      table->insert(head, toml::table());
      state_->document->created.insert(path);
    }
    toml::node* next = table->get(head);
    if (toml::array* list = next->as_array()) {  // kernel.2.seconds: the third [[kernel]]
      const std::string_view number = rest.substr(0, rest.find('.'));
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
      if (error != std::errc() || end != number.data() + number.size() || index >= list->size()) {
        refuse("after " + path + " comes a number from 0 to " +
               std::to_string(static_cast<std::int64_t>(list->size()) - 1) + ", then the key");
      }
      if (number.size() == rest.size()) refuse("a key must follow " + std::string(number));
      next = list->get(index);
      path += "[" + std::string(number) + "]";
      rest = rest.substr(number.size() + 1);
    }
    table = next->as_table();
    if (!table) refuse(path + " is " + std::string(kind_text(*next)) + ", not a section");
  }
  state_->document->assigned.insert(path);
  state_->children.clear();  // they may point to what was just replaced
}

bool Table::remove(std::string_view dotted_key) {
  const auto dot = dotted_key.rfind('.');
  toml::table* table = state_->node;
  if (dot != std::string_view::npos) table = table->at_path(dotted_key.substr(0, dot)).as_table();
  state_->children.clear();  // they may point to what is taken away
  return table && table->erase(dotted_key.substr(dot + 1)) > 0;
}

bool Table::has(std::string_view key) const {
  return state_->find(key) != nullptr;
}

bool Table::is_set(std::string_view key) const {
  const std::string path = joined_path(state_->path, key);
  const auto& assigned = state_->document->assigned;
  return std::any_of(assigned.begin(), assigned.end(), [&](const std::string& each) {
    return is_at_or_below(path, each) || is_at_or_below(each, path);
  });
}

std::string Table::path() const {
  return state_->path;
}

std::vector<std::string> Table::keys() const {
  struct Found {
    std::uint32_t line, column;
    std::string name;
    auto operator<=>(const Found&) const = default;
  };
  std::vector<Found> found;
  if (state_->node) {
    for (const auto& [key, value] : *state_->node) {
      const auto& at = key.source().begin;
      found.push_back({at.line, at.column, std::string(key.str())});
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (Found& each : found) names.push_back(std::move(each.name));
  return names;
}

std::int64_t Table::integer(std::string_view key) const {
  return whole(key, Quantity::count);
}
std::int64_t Table::integer(std::string_view key, std::int64_t otherwise) const {
  return has(key) ? integer(key) : otherwise;
}
std::int64_t Table::whole(std::string_view key, Quantity quantity) const {
  const std::string wanted = wanted_text(quantity);
  return state_->to_whole(key, state_->need(key, wanted), wanted, quantity);
}

double Table::quantity(std::string_view key, Quantity quantity) const {
  const std::string wanted = wanted_text(quantity);
  return state_->to_number(key, state_->need(key, wanted), wanted, quantity);
}
std::vector<double> Table::quantities(std::string_view key, Quantity quantity) const {
  const std::string wanted = wanted_text(quantity, true);
  std::vector<double> values;
  for (const toml::node* each : state_->elements(key, state_->need(key, wanted), wanted))
    values.push_back(state_->to_number(key, *each, wanted, quantity));
  return values;
}

double Table::number(std::string_view key) const {
  return state_->to_number(key, state_->need(key, "a number"), "a number");
}
double Table::number(std::string_view key, double otherwise) const {
  return has(key) ? number(key) : otherwise;
}

std::string Table::text(std::string_view key) const {
  return state_->to_text(key, state_->need(key, "text in quotes"), "text in quotes");
}
std::string Table::text(std::string_view key, std::string_view otherwise) const {
  return has(key) ? text(key) : std::string(otherwise);
}

bool Table::flag(std::string_view key, bool otherwise) const {
  const toml::node* value = state_->find(key);
  if (!value) return otherwise;
  if (!value->is_boolean()) state_->wrong_type(key, "true or false", *value);
  return value->as_boolean()->get();
}

std::vector<std::int64_t> Table::integers(std::string_view key) const {
  const std::string wanted = wanted_text(Quantity::count, true);
  return state_->to_integers(key, state_->need(key, wanted), wanted);
}
std::vector<double> Table::numbers(std::string_view key) const {
  const std::string wanted = "a list of numbers";
  std::vector<double> values;
  for (const toml::node* each : state_->elements(key, state_->need(key, wanted), wanted))
    values.push_back(state_->to_number(key, *each, wanted));
  return values;
}
std::vector<std::string> Table::texts(std::string_view key) const {
  const std::string wanted = "a list of words";
  std::vector<std::string> values;
  for (const toml::node* each : state_->elements(key, state_->need(key, wanted), wanted))
    values.push_back(state_->to_text(key, *each, wanted));
  return values;
}
std::vector<std::vector<std::int64_t>> Table::integer_lists(std::string_view key) const {
  const std::string wanted = "a list of lists of integers";
  std::vector<std::vector<std::int64_t>> values;
  for (const toml::node* each : state_->elements(key, state_->need(key, wanted), wanted))
    values.push_back(state_->to_integers(key, *each, wanted));
  return values;
}

std::vector<std::vector<double>> Table::number_lists(std::string_view key) const {
  const std::string wanted = "a list of lists of numbers (or sizes such as \"128K\")";
  std::vector<std::vector<double>> values;
  for (const toml::node* each : state_->elements(key, state_->need(key, wanted), wanted)) {
    std::vector<double>& row = values.emplace_back();
    for (const toml::node* entry : state_->elements(key, *each, wanted))
      row.push_back(state_->to_number(key, *entry, wanted, Quantity::count));
  }
  return values;
}

Table Table::table(std::string_view key) const {
  const toml::node* value = state_->find(key);
  if (value && !value->is_table()) state_->wrong_type(key, "a section", *value);
  auto& known = state_->children[std::string(key)];
  if (known.empty()) {
    // Absent: whatever is missing in it is missing at the line of this table.
    toml::table* node = value ? state_->node->get_as<toml::table>(key) : nullptr;
    const TomlPlace at = node ? place_of(*state_->node, key, state_->place) : state_->place;
    known.push_back(state_->child(node, joined_path(state_->path, key), at));
  }
  return Table(known.front());
}

std::vector<Table> Table::tables(std::string_view key) const {
  const toml::node* value = state_->find(key);
  if (!value) return {};
  toml::array* list = state_->node->get_as<toml::array>(key);
  if (!list) state_->wrong_type(key, "a list of tables", *value);
  auto& known = state_->children[std::string(key)];
  if (known.empty()) {
    const std::string path = joined_path(state_->path, key);
    for (std::size_t i = 0; i < list->size(); ++i) {
      toml::node& element = (*list)[i];
      if (!element.is_table()) state_->wrong_type(key, "a list of tables", element);
      known.push_back(state_->child(element.as_table(), path + "[" + std::to_string(i) + "]",
                                    place_of(element, state_->place)));
    }
  }
  std::vector<Table> tables;
  for (const auto& state : known) tables.push_back(Table(state));
  return tables;
}

TomlValue Table::value(std::string_view key) const {
  const toml::node& node = state_->need(key, "a value");
  if (node.is_date() || node.is_time() || node.is_date_time()) state_->wrong_type(key, "a value", node);
  return value_of_node(node);
}

std::string Table::toml() const {
  return state_->node ? value_of_node(*state_->node).toml : std::string("{}");
}

Table Table::taken(std::string_view key) {
  toml::table* const section = state_->node ? state_->node->get_as<toml::table>(key) : nullptr;
  if (!section) fail(key, "must be a section");
  auto document = std::make_shared<TomlDocument>();
  document->file = state_->document->file;
  document->root = std::make_shared<toml::table>(std::move(*section));
  state_->children.clear();
  state_->node->erase(key);
  return Table(State::of_root(std::move(document)));
}

std::uint32_t Table::line(std::string_view key) const {
  return state_->line(key);
}

Table::Kind Table::kind(std::string_view key) const {
  const toml::node* value = state_->find(key);
  if (!value) return Kind::missing;
  switch (value->type()) {
    case toml::node_type::table: return Kind::table;
    case toml::node_type::array: return Kind::list;
    case toml::node_type::integer: return Kind::integer;
    case toml::node_type::floating_point: return Kind::number;
    case toml::node_type::boolean: return Kind::flag;
    default: return Kind::text;  // text() refuses dates and times
  }
}

void Table::finish() const {
  std::vector<std::string> unknown;
  state_->unknown(unknown, false);
  if (!unknown.empty()) throw InputError(unknown.front());
}

std::vector<std::string> Table::lay_over(Table lower, const OverlayRules& rules) {
  std::vector<std::string> changed =
      overlay(*lower.state_->document->root, std::move(*state_->document->root), rules);
  state_->document->root = lower.state_->document->root;
  state_ = State::of_root(state_->document);
  return changed;
}

void Table::put(std::string_view key, double value) {
  state_->node->insert_or_assign(key, value);
}

void Table::put(std::string_view key, std::int64_t value) {
  state_->node->insert_or_assign(key, value);
}

bool Table::is_made(std::string_view key) const {
  return state_->document->created.contains(joined_path(state_->path, key));
}

std::vector<std::string> Table::unknown_keys() const {
  std::vector<std::string> unknown;
  state_->unknown(unknown, true);
  return unknown;
}

std::string Table::said(std::string_view key, const std::string& message) const {
  return state_->said(key, message);
}

void Table::fail(std::string_view key, const std::string& message) const {
  state_->fail(key, message);
}

}  // namespace cplab
