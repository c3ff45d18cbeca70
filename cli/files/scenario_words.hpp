// What the readers of a scenario's sections share: a word of a few, a number of a range, with errors that say
// what is legal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/files/toml_table.hpp"

namespace cplab {

// What follows takes what is legal, and the default, from the row of the key (cli/keys/keys.hpp).

// The place of the word at `key` among those of its row; its default where the key is missing, or
// `otherwise`. Throws InputError with what was probably meant, and for a missing key without a default.
std::size_t word(const Table& table, const char* key);
std::size_t word(const Table& table, const char* key, const char* otherwise);
// The word itself.
std::string_view chosen(const Table& table, const char* key);
std::string_view chosen(const Table& table, const char* key, const char* otherwise);
// The integer at `key`, within the range of its row; its default where the key is missing, or `otherwise`.
// Throws InputError; for a missing key without a default with `instead` behind what is legal.
std::int64_t whole(const Table& table, const char* key, const char* instead = "");
std::int64_t whole_or(const Table& table, const char* key, std::int64_t otherwise);
bool flag(const Table& table, const char* key);
double number(const Table& table, const char* key);

// Where what is legal depends on other keys: the place of the word at `key` in `legal`; `otherwise` where the
// key is missing (null: that is an error). Throws InputError with what was probably meant.
std::size_t word_of(const Table& table, const char* key, const std::vector<std::string>& legal,
                    const char* otherwise = nullptr);

// `value`, which the table has at `key`. Throws InputError unless low <= value <= high.
std::int64_t in_range(const Table& table, const char* key, std::int64_t value, std::int64_t low,
                      std::int64_t high);

}  // namespace cplab
