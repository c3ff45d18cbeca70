// What the strict reader of TOML (toml_table.hpp) says of values and makes of --set.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/files/toml_table.hpp"
#include "report/quantity.hpp"

// Of toml++, which sources alone include.
namespace toml {
inline namespace v3 {
class node;
class table;
}  // namespace v3
}  // namespace toml

namespace cplab {

// "a list", "an integer".
std::string_view kind_text(const toml::node&);
// The value as a person would recognise it, short: "text \"fp64\"", "an integer 8".
std::string shown(const toml::node&);

// The value without its place.
TomlValue value_of_node(const toml::node&);
// Text as --set must say it to stay the same text: as it is, or in quotes where it would be taken for
// something else.
std::string text_for_set(const std::string& text);

// What a quantity must be, as one value or as those of a list: "an integer (or a size such as \"128K\")".
std::string wanted_text(Quantity quantity, bool list = false);
// The value as a whole number of the quantity, or (why) the message about it.
std::optional<std::int64_t> whole_of(const toml::node& value, Quantity quantity, const std::string& wanted,
                                     std::string& why);
// The same as a number; only with a quantity may it be text.
std::optional<double> number_of(const toml::node& value, std::optional<Quantity> quantity,
                                const std::string& wanted, std::string& why);

// The table {value = ...} of what stands behind "=" in --set: TOML if it is exactly one value, in lists also
// with sizes that stand without quotes ([8K, 4K]), else text. `refuse` throws for a list, a table or quoted
// text that does not end, and for what nests too deep.
toml::table value_of_set(const std::string& text, const std::function<void(const std::string&)>& refuse);

// Of a text that is not TOML, for the line of the error: what to do about a size without quotes (8K). Empty
// if there is none.
std::string unquoted_hint(const std::string& text, std::size_t line);

}  // namespace cplab
