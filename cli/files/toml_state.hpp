// Inside the strict reader of TOML: the document, and what a Table knows of its place in it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/files/toml_table.hpp"
#include "cli/files/toml_values.hpp"

namespace cplab {

struct TomlDocument {
  std::string file;
  std::shared_ptr<toml::table> root;
  std::set<std::string> assigned;  // dotted paths that came from --set, with all below them
  std::set<std::string> created;   // sections that --set had to make, without what is missing in them
};

// Where a key or an entry of a list stands: included files bring lines of their own.
struct TomlPlace {
  std::shared_ptr<const std::string> file;  // null: the document's own
  std::uint32_t line = 1;
};
// That of the node, or this one for a node that is in no file.
TomlPlace place_of(const toml::node& node, const TomlPlace& otherwise);
TomlPlace place_of(const toml::table& table, std::string_view key, const TomlPlace& otherwise);

// "a.b[2]" is below "a" and below "a.b".
bool is_at_or_below(std::string_view path, std::string_view ancestor);
std::string joined_path(std::string_view path, std::string_view key);

struct Table::State {
  std::shared_ptr<TomlDocument> document;
  toml::table* node = nullptr;  // none: a table that the file lacks
  std::string path;             // dotted, from the root
  TomlPlace place;
  std::set<std::string, std::less<>> asked;
  std::map<std::string, std::vector<std::shared_ptr<State>>, std::less<>> children;

  static std::shared_ptr<State> of_root(std::shared_ptr<TomlDocument> document);
  std::shared_ptr<State> child(toml::table* table, std::string child_path, const TomlPlace& at) const;

  const toml::node* find(std::string_view key);
  const toml::node& need(std::string_view key, const std::string& wanted);
  // Keys that nobody asked for, by line; of each table the first, or all.
  void unknown(std::vector<std::string>& messages, bool all) const;

  TomlPlace place_in(std::string_view key) const;  // of the deepest part of the dotted key that exists
  std::uint32_t line(std::string_view key) const { return place_in(key).line; }
  std::string said(std::string_view key, const std::string& message) const;
  [[noreturn]] void fail(std::string_view key, const std::string& message) const;
  [[noreturn]] void wrong_type(std::string_view key, const std::string& wanted, const toml::node& got) const;

  std::int64_t to_whole(std::string_view key, const toml::node& value, const std::string& wanted,
                        Quantity quantity) const;
  double to_number(std::string_view key, const toml::node& value, const std::string& wanted,
                   std::optional<Quantity> quantity = std::nullopt) const;
  std::string to_text(std::string_view key, const toml::node& value, const std::string& wanted) const;
  std::vector<std::int64_t> to_integers(std::string_view key, const toml::node& value,
                                        const std::string& wanted) const;
  // The elements, or the error that the value is no list.
  std::vector<const toml::node*> elements(std::string_view key, const toml::node& value,
                                          const std::string& wanted) const;
};

}  // namespace cplab
