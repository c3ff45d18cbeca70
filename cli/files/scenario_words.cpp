// Words and ranges; see scenario_words.hpp.
#include "cli/files/scenario_words.hpp"

#include <algorithm>
#include <stdexcept>

#include "cli/keys/keys.hpp"
#include "cli/vocabulary.hpp"

namespace cplab {

namespace {

const KeyInfo& row_of(const Table& table, const char* key) {
  const std::string path = table.path() + "." + key;
  const KeyInfo* const row = find_key(path);
  if (!row) throw std::logic_error(path + " has no row in the table of keys");
  return *row;
}

std::vector<std::string> words_of(const KeyInfo& row) {
  return {row.words.begin(), row.words.end()};
}

// The default as text that ends, or null.
const char* value_of(const KeyInfo& row) {
  return row.value.empty() ? nullptr : row.value.data();  // of a literal
}

}  // namespace

std::size_t word(const Table& table, const char* key) {
  const KeyInfo& row = row_of(table, key);
  return word_of(table, key, words_of(row), value_of(row));
}

std::size_t word(const Table& table, const char* key, const char* otherwise) {
  return word_of(table, key, words_of(row_of(table, key)), otherwise);
}

std::string_view chosen(const Table& table, const char* key) {
  return row_of(table, key).words.at(word(table, key));
}

std::string_view chosen(const Table& table, const char* key, const char* otherwise) {
  return row_of(table, key).words.at(word(table, key, otherwise));
}

std::int64_t whole(const Table& table, const char* key, const char* instead) {
  const KeyInfo& row = row_of(table, key);
  if (!table.has(key) && row.value.empty())
    table.fail(key, "missing; legal: an integer from " + std::to_string(row.least) + " to " +
                        std::to_string(row.most) + " (or a size such as \"128K\")" + instead);
  return whole_or(table, key, row.value.empty() ? 0 : std::stoll(std::string(row.value)));
}

std::int64_t whole_or(const Table& table, const char* key, std::int64_t otherwise) {
  const KeyInfo& row = row_of(table, key);
  if (!table.has(key)) return otherwise;
  return in_range(table, key, table.integer(key), row.least, row.most);
}

bool flag(const Table& table, const char* key) {
  return table.flag(key, row_of(table, key).value == "true");
}

double number(const Table& table, const char* key) {
  return table.number(key, std::stod(std::string(row_of(table, key).value)));
}

std::size_t word_of(const Table& table, const char* key, const std::vector<std::string>& legal,
                    const char* otherwise) {
  if (!otherwise && !table.has(key)) table.fail(key, "missing; legal: " + quoted_list(legal));
  if (table.kind(key) == Table::Kind::flag) {
    const std::string given = table.flag(key, false) ? "true" : "false";
    table.fail(key, "must be a word, but is " + given + clause(meant_value(key, given, legal)) +
                        " Legal: " + quoted_list(legal));
  }
  const std::string given = otherwise ? table.text(key, otherwise) : table.text(key);
  const auto found = std::find(legal.begin(), legal.end(), given);
  if (found == legal.end()) {
    table.fail(key, "\"" + given + "\" is not known" + clause(meant_value(key, given, legal)) +
                        " Legal: " + quoted_list(legal));
  }
  return static_cast<std::size_t>(found - legal.begin());
}

std::int64_t in_range(const Table& table, const char* key, std::int64_t value, std::int64_t low,
                      std::int64_t high) {
  if (value < low || value > high) {
    table.fail(key, "must be from " + std::to_string(low) + " to " + std::to_string(high) + ", but is " +
                        std::to_string(value));
  }
  return value;
}

}  // namespace cplab
