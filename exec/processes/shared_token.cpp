// shm_open, because ranks on one host share memory anyway (exec/processes/board); see shared_token.hpp.
#include "exec/processes/shared_token.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "exec/processes/wire.hpp"

namespace cplab::rendezvous {
namespace {

constexpr std::size_t random_bytes = 16;
constexpr std::size_t text_bytes = 2 * random_bytes;

std::string name_of(int port) {
  return "/cplab-token-" + std::to_string(::geteuid()) + "-" + std::to_string(port);
}

// As the file it is on Linux: a signal handler may not call shm_unlink.
std::string path_of(const std::string& name) {
  return "/dev/shm" + name;
}

std::string random_text() {
  std::array<unsigned char, random_bytes> bytes = {};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw std::runtime_error(std::string("no random numbers for a launch token: ") + std::strerror(errno));
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace

SharedToken::SharedToken(int port) : name_(name_of(port)), text_(random_text()), leftover_(path_of(name_)) {
  const auto open_new = [&] {
    return wire::Socket(::shm_open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  };
  wire::Socket file = open_new();
  if (!file && errno == EEXIST) {  // left by a process that was killed: this one holds the port now
    ::shm_unlink(name_.c_str());
    file = open_new();
  }
  if (!file || ::write(file.get(), text_.data(), text_.size()) != static_cast<ssize_t>(text_.size())) {
    const std::string reason = std::strerror(errno);
    if (file) remove();
    leftover_.forget();  // it is not this process's to remove
    throw std::runtime_error("no launch token can be left in shared memory (" + path_of(name_) +
                             "): " + reason + "; set CPLAB_TOKEN to one secret for all processes instead");
  }
}

void SharedToken::remove() noexcept {
  if (name_.empty()) return;
  ::shm_unlink(name_.c_str());
  leftover_.forget();
  name_.clear();
}

std::optional<std::string> read_shared_token(int port, std::string& why) {
  const std::string name = name_of(port);
  const std::string instead = "; CPLAB_TOKEN can give all processes one secret instead";
  const wire::Socket file(::shm_open(name.c_str(), O_RDONLY | O_CLOEXEC, 0));
  struct stat status = {};
  if (!file || ::fstat(file.get(), &status) != 0) {
    why = "no launch token of rank 0 in shared memory (" + path_of(name) + "): " + std::strerror(errno) +
          instead;
    return std::nullopt;
  }
  if (status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    why = "the launch token in shared memory (" + path_of(name) + ") is not this user's alone" + instead;
    return std::nullopt;
  }
  std::string text(text_bytes + 1, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got != static_cast<ssize_t>(text_bytes)) {  // rank 0 is about to write it
    why = "the launch token in shared memory (" + path_of(name) + ") is incomplete";
    return std::nullopt;
  }
  text.resize(text_bytes);
  return text;
}

}  // namespace cplab::rendezvous
