// SHA-256 (FIPS 180-4), for naming the content of a file.
#pragma once

#include <string>
#include <string_view>

namespace cplab {

// 64 hexadecimal digits, lower case.
std::string sha256(std::string_view bytes);

}  // namespace cplab
