// Text files that the user names.
#pragma once

#include <string>

namespace cplab {

// The whole file. Throws InputError when it is missing, a directory, unreadable or larger than `max_bytes`
// (which keeps an endless file from eating the memory).
std::string read_text_file(const std::string& path, std::size_t max_bytes = std::size_t{64} << 20);

}  // namespace cplab
