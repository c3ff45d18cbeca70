// Texts that are many times the same and are kept for good.
#pragma once

#include <string>
#include <string_view>

namespace cplab {

// The same text, valid to the end of the program. Any thread may call it.
std::string_view interned(std::string_view text);

}  // namespace cplab
