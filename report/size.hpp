// Sizes in text: "131072" and "128K".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cplab {

// Digits, a sign before them if need be, and at most one of K, M, G, T after them (powers of 1024). Nothing
// if the text is not of that form, or if it is but beyond the 64-bit integers: `overflow` tells.
std::optional<std::int64_t> parse_size(std::string_view text, bool& overflow);

}  // namespace cplab
