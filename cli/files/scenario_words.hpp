// What the readers of a scenario's sections share: a word of a few, a number of a range, with errors that say
// what is legal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/files/toml_table.hpp"

namespace cplab {

// The place of the word at `key` in `legal`; `otherwise` where the key is missing (null: that is an error).
// Throws InputError with what was probably meant.
std::size_t word(const Table& table, const char* key, const std::vector<std::string>& legal,
                 const char* otherwise = nullptr);

// `value`, which the table has at `key`. Throws InputError unless low <= value <= high.
std::int64_t in_range(const Table& table, const char* key, std::int64_t value, std::int64_t low,
                      std::int64_t high);

}  // namespace cplab
