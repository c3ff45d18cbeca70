// Reading a file with errors that say what is wrong with it.
#include "cli/text_file.hpp"

#include <filesystem>
#include <fstream>
#include <vector>

#include "cli/toml_table.hpp"

namespace cplab {

std::string read_text_file(const std::string& path, std::size_t max_bytes) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw InputError(path + ": no such file");
  if (std::filesystem::is_directory(status)) throw InputError(path + ": is a directory, not a file");
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InputError(path + ": cannot be opened for reading");
  std::string text;
  std::vector<char> chunk(1 << 16);
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())), in.gcount() > 0) {
    text.append(chunk.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > max_bytes) {
      throw InputError(path + ": larger than " + std::to_string(max_bytes >> 20) + " MiB");
    }
  }
  if (in.bad()) throw InputError(path + ": reading failed");
  return text;
}

}  // namespace cplab
