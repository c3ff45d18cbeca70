// Reading a file with errors that say what is wrong with it.
#include "cli/files/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "cli/files/toml_table.hpp"
#include "cli/memory_need.hpp"

namespace cplab {

namespace {

struct Descriptor {
  int number = -1;
  bool own = true;
  ~Descriptor() {
    if (own && number >= 0) ::close(number);
  }
};

[[noreturn]] void fail(const std::string& path, const std::string& message) {
  throw InputError(path + ": " + message);
}

// What a file that cannot be read as text is.
const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "is a directory, not a file";
  if (S_ISFIFO(mode)) return "is a pipe, not a file; /dev/stdin is the one pipe that is read";
  if (S_ISSOCK(mode)) return "is a socket, not a file";
  return "is a device, not a file";
}

thread_local const TextsForFiles::Texts* texts_for_files = nullptr;

}  // namespace

TextsForFiles::TextsForFiles(const Texts& texts) {
  texts_for_files = &texts;
}

TextsForFiles::~TextsForFiles() {
  texts_for_files = nullptr;
}

const std::string* text_for_file(const std::string& name) {
  if (texts_for_files == nullptr) return nullptr;
  const auto found = texts_for_files->find(name);
  return found == texts_for_files->end() ? nullptr : &found->second;
}

std::string read_text_file(const std::string& path, std::size_t max_bytes) {
  if (const std::string* const text = text_for_file(path)) return *text;
  if (path.find('\0') != std::string::npos) fail(path, "a file name holds no NUL");
  const bool is_stdin = path == "/dev/stdin";
  // Without waiting for somebody to write into a pipe.
  const Descriptor file{is_stdin ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC),
                        !is_stdin};
  struct stat status = {};
  if (file.number < 0 || ::fstat(file.number, &status) != 0) {
    const int error = errno;
    if (error == ENOENT) fail(path, "no such file");
    if (::stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) fail(path, kind_of(S_IFSOCK));
    fail(path, std::string("cannot be opened for reading: ") + std::strerror(error));
  }
  const bool readable = S_ISREG(status.st_mode) || (is_stdin && !S_ISDIR(status.st_mode));
  if (!readable) fail(path, kind_of(status.st_mode));
  const auto too_large = [&] { fail(path, "larger than " + std::to_string(max_bytes >> 20) + " MiB"); };
  if (S_ISREG(status.st_mode) && static_cast<std::uintmax_t>(status.st_size) > max_bytes) too_large();

  if (S_ISREG(status.st_mode)) require_text_memory(static_cast<std::uintmax_t>(status.st_size), path);

  std::string text;
  if (S_ISREG(status.st_mode)) text.reserve(static_cast<std::size_t>(status.st_size));
  std::vector<char> chunk(1 << 16);
  std::uintmax_t asked = std::uintmax_t{1} << 24;  // bytes for which room was found
  while (true) {
    const ssize_t got = ::read(file.number, chunk.data(), chunk.size());
    if (got == 0) return text;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, std::string("reading failed: ") + std::strerror(errno));
    text.append(chunk.data(), static_cast<std::size_t>(got));
    if (text.size() > max_bytes) too_large();
    if (!S_ISREG(status.st_mode) && text.size() > asked) require_text_memory(asked *= 2, path);
  }
}

}  // namespace cplab
