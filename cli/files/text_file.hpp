// Text files that the user names.
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace cplab {

// A result with millions of operations; its tree in memory is about ten times as large.
constexpr std::size_t most_result_bytes = std::size_t{1} << 30;

// While it lives, texts stand in place of files in this thread, for a caller in the same process who has no
// files: whoever looks for a file of such a name finds it, and read_text_file returns its text. One at a
// time in a thread. The texts outlive it.
class TextsForFiles {
 public:
  using Texts = std::map<std::string, std::string, std::less<>>;  // by name
  explicit TextsForFiles(const Texts& texts);
  ~TextsForFiles();
  TextsForFiles(const TextsForFiles&) = delete;
  TextsForFiles& operator=(const TextsForFiles&) = delete;
};
// The text that stands for the file of that name; null: none does.
const std::string* text_for_file(const std::string& name);

// The whole file. Throws InputError when it is missing, unreadable, larger than `max_bytes`, or no regular
// file: a pipe or a device may never end and may never begin. /dev/stdin is read, up to `max_bytes`.
std::string read_text_file(const std::string& path, std::size_t max_bytes = std::size_t{64} << 20);

}  // namespace cplab
