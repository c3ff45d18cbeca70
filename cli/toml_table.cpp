// Strict TOML: toml++ parses and knows the lines; asked-for keys are recorded, the rest is an error.
#include "cli/toml_table.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "cli/memory_need.hpp"
#include "cli/text_file.hpp"
#include "cli/toml_nesting.hpp"
#include "cli/vocabulary.hpp"
#include "report/size.hpp"

namespace cplab {
namespace {

const std::string wanted_integer = "an integer (or a size such as \"128K\")";
const std::string wanted_integers = "a list of integers (or sizes such as \"128K\")";

struct Document {
  std::string file;
  toml::table root;
  std::set<std::string> assigned;  // dotted paths that came from --set, with all below them
  std::set<std::string> created;   // sections that --set had to make, without what is missing in them
};

// "a.b[2]" is below "a" and below "a.b".
bool is_at_or_below(std::string_view path, std::string_view ancestor) {
  return path.substr(0, ancestor.size()) == ancestor &&
         (path.size() == ancestor.size() || path[ancestor.size()] == '.' || path[ancestor.size()] == '[');
}

std::string joined(std::string_view path, std::string_view key) {
  const bool both = !path.empty() && !key.empty();
  return std::string(path) + (both ? "." : "") + std::string(key);
}

std::string_view kind_text(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "a list";
    case toml::node_type::string: return "text";
    case toml::node_type::integer: return "an integer";
    case toml::node_type::floating_point: return "a number with a fraction";
    case toml::node_type::boolean: return "true or false";
    default: return "a date or time";
  }
}

// The value as a person would recognise it, short.
std::string shown(const toml::node& node) {
  std::string text(kind_text(node));
  if (const auto* s = node.as_string()) {
    text += " \"" + s->get().substr(0, 40) + (s->get().size() > 40 ? "...\"" : "\"");
  } else if (const auto* i = node.as_integer()) {
    text += " " + std::to_string(i->get());
  } else if (const auto* f = node.as_floating_point()) {
    std::ostringstream out;
    out << f->get();
    text += " " + out.str();
  }
  return text;
}

// What stands in the file or in --set, as a message: "FILE:LINE: KEY: message" or "--set KEY: message".
[[noreturn]] void throw_at(const Document& document, const std::string& path, std::uint32_t line,
                           const std::string& message) {
  const bool assigned = document.created.contains(path) ||
                        std::any_of(document.assigned.begin(), document.assigned.end(),
                                    [&](const std::string& a) { return is_at_or_below(path, a); });
  std::string text = assigned ? "--set " : document.file + ":" + std::to_string(std::max(line, 1U)) + ": ";
  throw InputError(text + (path.empty() ? "" : path + ": ") + message);
}

std::uint32_t key_line(const toml::table& table, std::string_view key, std::uint32_t otherwise) {
  const auto found = table.find(key);
  if (found == table.end()) return otherwise;
  const auto line = found->first.source().begin.line;
  return line > 0 ? line : otherwise;
}

}  // namespace

struct Table::State {
  std::shared_ptr<Document> document;
  toml::table* node = nullptr;  // none: a table that the file lacks
  std::string path;             // dotted, from the root
  std::uint32_t line = 1;
  std::set<std::string, std::less<>> asked;
  std::map<std::string, std::vector<std::shared_ptr<State>>, std::less<>> children;

  const toml::node* find(std::string_view key) {
    asked.emplace(key);
    return node ? node->get(key) : nullptr;
  }
  const toml::node& need(std::string_view key, const std::string& wanted) {
    const toml::node* found = find(key);
    if (!found) fail(key, "missing; must be " + wanted);
    return *found;
  }

  [[noreturn]] void fail(std::string_view key, const std::string& message) const {
    std::uint32_t at = line;
    // The line of the deepest part of the dotted key that exists.
    const toml::table* inner = node;
    std::string_view rest = key;
    while (inner && !rest.empty()) {
      const std::string_view head = inner->contains(rest) ? rest : rest.substr(0, rest.find('.'));
      at = key_line(*inner, head, at);
      const toml::node* next = inner->get(head);
      rest = head.size() < rest.size() ? rest.substr(head.size() + 1) : std::string_view();
      inner = next ? next->as_table() : nullptr;
    }
    throw_at(*document, joined(path, key), at, message);
  }
  [[noreturn]] void wrong_type(std::string_view key, const std::string& wanted, const toml::node& got) const {
    fail(key, "must be " + wanted + ", but is " + shown(got));
  }

  std::int64_t to_integer(std::string_view key, const toml::node& value, const std::string& wanted) const {
    if (const auto* i = value.as_integer()) return i->get();
    if (const auto* s = value.as_string()) {
      bool overflow = false;
      if (const auto size = parse_size(s->get(), overflow)) return *size;
      if (overflow) fail(key, "\"" + s->get() + "\" is beyond the 64-bit integers");
    }
    wrong_type(key, wanted, value);
  }
  double to_number(std::string_view key, const toml::node& value, const std::string& wanted) const {
    const auto number = value.value<double>();  // integers too
    if (!number || value.is_boolean()) wrong_type(key, wanted, value);
    if (!std::isfinite(*number)) fail(key, "must be finite");
    return *number;
  }
  std::string to_text(std::string_view key, const toml::node& value, const std::string& wanted) const {
    if (const auto* s = value.as_string()) return s->get();
    wrong_type(key, wanted, value);
  }
  // `to`: of an element.
  template <class T, class To>
  std::vector<T> to_list(std::string_view key, const toml::node& value, const std::string& wanted,
                         To to) const {
    if (!value.is_array()) wrong_type(key, wanted, value);
    std::vector<T> values;
    for (const toml::node& element : *value.as_array()) values.push_back((this->*to)(key, element, wanted));
    return values;
  }
  using Integers = std::vector<std::int64_t>;
  Integers to_integers(std::string_view key, const toml::node& value, const std::string& wanted) const {
    return to_list<std::int64_t>(key, value, wanted, &State::to_integer);
  }

  std::shared_ptr<State> child(toml::table* table, std::string child_path, std::uint32_t child_line) const {
    auto made = std::make_shared<State>();
    made->document = document;
    made->node = table;
    made->path = std::move(child_path);
    made->line = child_line;
    return made;
  }

  void finish() const {
    if (node) {
      const toml::key* first = nullptr;  // by line; the table itself is sorted by name
      for (const auto& [key, value] : *node) {
        if (asked.contains(key.str())) continue;
        if (!first || key.source().begin.line < first->source().begin.line) first = &key;
      }
      if (first) {
        const std::vector<std::string> legal(asked.begin(), asked.end());
        std::string message = (*node)[first->str()].is_table() ? "unknown section" : "unknown key";
        if (!legal.empty()) message += "; " + meant_key(path, first->str(), legal) + " Legal here: ";
        for (std::size_t i = 0; i < legal.size(); ++i) message += (i ? ", " : "") + legal[i];
        fail(first->str(), message);
      }
    }
    for (const auto& [key, list] : children) {
      for (const auto& state : list) state->finish();
    }
  }
};

Table::Table(std::shared_ptr<State> state) : state_(std::move(state)) {}

Table Table::open(const std::string& path) {
  return parse(read_text_file(path), path);
}

Table Table::parse(const std::string& text, const std::string& file_name) {
  auto state = std::make_shared<State>();
  state->document = std::make_shared<Document>();
  state->document->file = file_name;
  require_toml_memory(text.size(), file_name);
  require_shallow_toml(text, file_name);
  try {
    state->document->root = toml::parse(text, file_name);
  } catch (const toml::parse_error& error) {
    const auto& at = error.source().begin;
    throw InputError(file_name + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) +
                     ": not TOML: " + std::string(error.description()));
  }
  state->node = &state->document->root;
  return Table(std::move(state));
}

void Table::assign(const std::string& dotted_key, const std::string& value_text) {
  const auto refuse = [&](const std::string& message) {
    throw InputError("--set " + dotted_key + ": " + message);
  };
  if (!state_->node) refuse("the section does not exist");

  // The value as TOML if it is exactly one value, else as text.
  toml::table parsed;
  if (line_nested_too_deep("value = " + value_text) > 0)
    refuse("lists and tables stand too deep in one another");
  try {
    if (value_text.find('\n') == std::string::npos) parsed = toml::parse("value = " + value_text);
  } catch (const toml::parse_error& error) {
    // What begins as a list, a table or quoted text is no bare word.
    const auto opening = std::string_view("[{\"'").find(value_text.empty() ? ' ' : value_text.front());
    if (opening != std::string_view::npos) {
      const char* const what[] = {"list", "table", "text", "text"};
      refuse("unterminated or malformed " + std::string(what[opening]) + ": " + value_text + " (" +
             std::string(error.description()) + ")");
    }
  }
  if (parsed.size() != 1 || !parsed.contains("value")) {
    parsed = toml::table();
    parsed.insert("value", value_text);
  }

  if (static_cast<std::size_t>(std::count(dotted_key.begin(), dotted_key.end(), '.')) >= deepest_toml)
    refuse("more than " + std::to_string(deepest_toml) + " names in the key");
  toml::table* table = state_->node;
  std::string path = state_->path;
  std::string_view rest = dotted_key;
  while (true) {
    const auto dot = rest.find('.');
    const std::string_view head = rest.substr(0, dot);
    if (head.empty()) refuse("empty name in the key");
    path = joined(path, head);
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
  const std::string path = joined(state_->path, key);
  const auto& assigned = state_->document->assigned;
  return std::any_of(assigned.begin(), assigned.end(), [&](const std::string& each) {
    return is_at_or_below(path, each) || is_at_or_below(each, path);
  });
}

std::vector<std::string> Table::keys() const {
  std::vector<std::pair<std::uint32_t, std::string>> found;
  if (state_->node) {
    for (const auto& [key, value] : *state_->node) {
      found.emplace_back(key.source().begin.line, std::string(key.str()));
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (auto& [line, name] : found) names.push_back(std::move(name));
  return names;
}

std::int64_t Table::integer(std::string_view key) const {
  return state_->to_integer(key, state_->need(key, wanted_integer), wanted_integer);
}
std::int64_t Table::integer(std::string_view key, std::int64_t otherwise) const {
  return has(key) ? integer(key) : otherwise;
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
  return state_->to_integers(key, state_->need(key, wanted_integers), wanted_integers);
}
std::vector<double> Table::numbers(std::string_view key) const {
  const std::string wanted = "a list of numbers";
  return state_->to_list<double>(key, state_->need(key, wanted), wanted, &State::to_number);
}
std::vector<std::string> Table::texts(std::string_view key) const {
  const std::string wanted = "a list of words";
  return state_->to_list<std::string>(key, state_->need(key, wanted), wanted, &State::to_text);
}
std::vector<std::vector<std::int64_t>> Table::integer_lists(std::string_view key) const {
  const std::string wanted = "a list of lists of integers";
  return state_->to_list<State::Integers>(key, state_->need(key, wanted), wanted, &State::to_integers);
}

Table Table::table(std::string_view key) const {
  const toml::node* value = state_->find(key);
  if (value && !value->is_table()) state_->wrong_type(key, "a section", *value);
  auto& known = state_->children[std::string(key)];
  if (known.empty()) {
    // Absent: whatever is missing in it is missing at the line of this table.
    toml::table* node = value ? state_->node->get_as<toml::table>(key) : nullptr;
    const std::uint32_t line = node ? key_line(*state_->node, key, state_->line) : state_->line;
    known.push_back(state_->child(node, joined(state_->path, key), line));
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
    const std::string path = joined(state_->path, key);
    for (std::size_t i = 0; i < list->size(); ++i) {
      toml::node& element = (*list)[i];
      if (!element.is_table()) state_->wrong_type(key, "a list of tables", element);
      known.push_back(state_->child(element.as_table(), path + "[" + std::to_string(i) + "]",
                                    element.source().begin.line));
    }
  }
  std::vector<Table> tables;
  for (const auto& state : known) tables.push_back(Table(state));
  return tables;
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
  state_->finish();
}

void Table::fail(std::string_view key, const std::string& message) const {
  state_->fail(key, message);
}

}  // namespace cplab
