// Words and ranges; see scenario_words.hpp.
#include "cli/files/scenario_words.hpp"

#include <algorithm>

#include "cli/vocabulary.hpp"

namespace cplab {

std::size_t word(const Table& table, const char* key, const std::vector<std::string>& legal,
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
