// Strict reading of TOML: every key must be asked for, every error names file, line, key and what would be
// legal. Used for scenarios and hardware files.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "report/quantity.hpp"

namespace cplab {

// Something the user gave is wrong: exit code 2. what() is complete: "FILE:LINE: KEY: message".
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Several of them, each complete: what() is the first and says how many more there are.
struct InputErrors : InputError {
  explicit InputErrors(std::vector<std::string> messages);
  std::vector<std::string> messages;
};

struct OverlayRules;

// A value as it stands in the file, whatever its type.
struct TomlValue {
  std::string toml;                                             // on one line, as --set can say it
  std::variant<bool, std::int64_t, double, std::string> value;  // of a list and a table: `toml`
  bool is_list = false, is_table = false;
  std::vector<TomlValue> items;  // of a list
};

class Table {
 public:
  // Throws InputError if the file is missing, unreadable or not TOML (with line and column).
  static Table open(const std::string& path);
  static Table parse(const std::string& text, const std::string& file_name);

  // Sets "a.b.c" = value before reading (--set); tables are created as needed. The value is TOML if it parses
  // as a TOML value, else a string; InputError for a list, table or quoted text that does not end. Errors in
  // a value set so are reported as "--set a.b.c" instead of file and line.
  void assign(const std::string& dotted_key, const std::string& value_text);
  // Takes the value at "a.b.c", or the whole section, away before reading (--unset); false: there is none.
  bool remove(std::string_view dotted_key);

  // Lays this document over another one, which a file includes (toml_overlay.hpp); of the roots of both.
  // Returns the changed keys. Tables taken from this one before are no longer to be used.
  std::vector<std::string> lay_over(Table lower, const OverlayRules& rules);
  // As if the file said so.
  void put(std::string_view key, double value);
  void put(std::string_view key, std::int64_t value);

  bool has(std::string_view key) const;
  // Was the value, or a part of it, set by assign()? `key` may be dotted.
  bool is_set(std::string_view key) const;
  bool is_made(std::string_view key) const;  // a section that assign() had to make
  std::vector<std::string> keys() const;
  std::string path() const;  // dotted, from the root: "problem"; empty: it is the root

  // Each throws InputError for a missing key (the form without a default) or a wrong type. Integers also
  // accept sizes as strings: "128K", "4M", "1G" (report/quantity.hpp, count); overflow is an error.
  std::int64_t integer(std::string_view key) const;
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  // Of bytes, a rate: numbers, or text with a unit that is legal for the quantity.
  std::int64_t whole(std::string_view key, Quantity) const;
  double quantity(std::string_view key, Quantity) const;
  std::vector<double> quantities(std::string_view key, Quantity) const;
  double number(std::string_view key) const;  // integers are accepted
  double number(std::string_view key, double otherwise) const;
  std::string text(std::string_view key) const;
  std::string text(std::string_view key, std::string_view otherwise) const;
  bool flag(std::string_view key, bool otherwise) const;
  std::vector<std::int64_t> integers(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;
  std::vector<std::vector<std::int64_t>> integer_lists(std::string_view key) const;
  // Of a list of lists: numbers, or counts in the grammar of sizes ([["128K", 0.3]]).
  std::vector<std::vector<double>> number_lists(std::string_view key) const;
  Table table(std::string_view key) const;                // empty table if missing
  std::vector<Table> tables(std::string_view key) const;  // array of tables, [] if missing
  // Any value but a date or a time; of a list its elements are `items`.
  TomlValue value(std::string_view key) const;
  std::string toml() const;  // of the whole table, on one line
  // The section as a document of its own, whose errors still name this file and its lines. To be asked for
  // once: this document has it no more.
  Table taken(std::string_view key);
  std::uint32_t line(std::string_view key) const;  // of the file, of the deepest part of a dotted key
  enum class Kind : std::uint8_t { missing, flag, integer, number, text, list, table };
  Kind kind(std::string_view key) const;

  // Throws for the first key that nobody asked for, with the nearest one that was.
  void finish() const;
  std::vector<std::string> unknown_keys() const;  // the messages for all of them
  // Throws InputError that names file, line (of the key, else of the table), the dotted key, and the message.
  [[noreturn]] void fail(std::string_view key, const std::string& message) const;
  std::string said(std::string_view key, const std::string& message) const;  // its text

 private:
  struct State;  // toml_state.hpp
  explicit Table(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace cplab
