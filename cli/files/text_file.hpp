// Text files that the user names.
#pragma once

#include <cstddef>
#include <string>

namespace cplab {

// A result with millions of operations; its tree in memory is about ten times as large.
constexpr std::size_t most_result_bytes = std::size_t{1} << 30;

// The whole file. Throws InputError when it is missing, unreadable, larger than `max_bytes`, or no regular
// file: a pipe or a device may never end and may never begin. /dev/stdin is read, up to `max_bytes`.
std::string read_text_file(const std::string& path, std::size_t max_bytes = std::size_t{64} << 20);

}  // namespace cplab
