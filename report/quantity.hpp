// Sizes and rates in text, in one grammar for scenarios, hardware files and --set: "128K", "79G", "400Gb/s".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cplab {

// What a number counts; it decides which units are legal. count: tokens, heads, ... A letter alone is a power
// of 1024 of counts and bytes, as memory has them, and of 1000 of rates, as vendors state them.
enum class Quantity : std::uint8_t { count, bytes, bytes_s, flops_s };

// A number with a unit that is legal for the quantity, or without one. Nothing if the text is not of that
// form.
std::optional<double> parse_quantity(std::string_view text, Quantity);
// The same of what comes in whole numbers: nothing for fractions either (1.5K is whole), or beyond the 64-bit
// integers: `overflow` tells.
std::optional<std::int64_t> parse_whole(std::string_view text, Quantity, bool& overflow);

// "K, M, G or T (powers of 1024)".
std::string_view legal_units(Quantity);
// "did you mean \"128K\"?" for a number whose unit is another spelling of a legal one: "128k", "400Gbps".
// Empty if it is none.
std::string meant_unit(std::string_view text, Quantity);

}  // namespace cplab
