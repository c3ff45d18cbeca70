// How deep a TOML text nests, found without recursion: toml++ builds a table for every part of a dotted key
// and takes the tree down recursively, so that a key of 40,000 parts overflows the stack.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cplab {

// Levels of tables and lists in one another; our files have 4.
inline constexpr std::size_t deepest_toml = 64;

// The first line, counted from 1, at which tables and lists stand deeper than `deepest_toml` levels in one
// another: parts of the table's header, of dotted keys, lists and inline tables together. 0 if there is none.
// Right for every text that is TOML up to that line.
std::size_t line_nested_too_deep(std::string_view text);

// Throws InputError (file, line) for a text with such a line; one that is no TOML even before it is refused
// as that.
void require_shallow_toml(const std::string& text, const std::string& file_name);

}  // namespace cplab
