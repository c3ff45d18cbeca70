// Temporary files, links, permissions; see output_file.hpp.
#include "report/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

namespace cplab {

namespace {

namespace fs = std::filesystem;

constexpr int most_links = 40;  // as the kernel follows

// Why there can be no such file.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void refuse(int error) {
  throw Refusal(std::strerror(error));
}

std::string message(const std::string& path, const std::string& reason) {
  return path + ": cannot be written: " + reason;
}

struct Target {
  std::string place;       // absolute, links followed; empty: written as it is
  bool exists = false;     // as a regular file
  mode_t permissions = 0;  // of it
  uid_t owner = 0;
  gid_t group = 0;
  std::optional<int> descriptor;  // an open file of this process: written from its current offset on
};

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// N of /proc/PID/fd/N where PID is this process.
std::optional<int> own_descriptor(const fs::path& canonical_parent, const fs::path& name) {
  std::error_code error;
  if (canonical_parent != fs::canonical("/proc/self/fd", error) || error) return std::nullopt;
  const std::string text = name.string();
  int number = -1;
  const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

Target target_of(const std::string& path) {
  Target target;
  if (path.empty()) refuse(ENOENT);
  struct stat status = {};
  const bool there = ::stat(path.c_str(), &status) == 0;
  if (!there && errno != ENOENT) refuse(errno);
  if ((there && S_ISDIR(status.st_mode)) || path.back() == '/') throw Refusal("it is a folder, not a file");
  if (there && S_ISSOCK(status.st_mode)) throw Refusal("it is a socket");
  fs::path at = path;
  for (int links = 0;; ++links) {
    struct stat link = {};
    if (::lstat(at.c_str(), &link) != 0 || !S_ISLNK(link.st_mode)) break;
    if (links == most_links) refuse(ELOOP);
    std::error_code error;
    const fs::path parent = fs::canonical(parent_of(at), error);
    if (error) refuse(error.value());
    // What stands there is a name of an open file, which only that descriptor reaches.
    if (parent.string().starts_with("/proc/")) {
      target.descriptor = own_descriptor(parent, at.filename());
      return target;
    }
    const fs::path to = fs::read_symlink(at, error);
    if (error) refuse(error.value());
    at = parent / to;  // `to` alone if it is absolute
  }
  if (there && !S_ISREG(status.st_mode)) return target;
  std::error_code error;
  target.place = fs::absolute(at, error).string();
  if (error) refuse(error.value());
  target.exists = there;
  target.permissions = status.st_mode & 0777;
  target.owner = status.st_uid;
  target.group = status.st_gid;
  return target;
}

std::string temporary_name(const std::string& folder) {
  static std::atomic<int> number{0};
  return folder + "/.cplab-" + std::to_string(::getpid()) + "-" + std::to_string(number.fetch_add(1)) +
         ".tmp";
}

// A new file beside others in `folder`, registered as a leftover before it is there; -1 with errno set.
int create_temporary(const std::string& folder, std::string& name, Leftover& leftover) {
  constexpr int attempts = 100;  // names may be taken: by files of a killed process that had this number
  for (int i = 0; i < attempts; ++i) {
    name = temporary_name(folder);
    leftover = Leftover(name);
    const int descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (descriptor >= 0) return descriptor;
    const int error = errno;
    leftover.forget();
    errno = error;
    if (error != EEXIST) break;
  }
  return -1;
}

void try_folder(const fs::path& folder) {
  struct stat status = {};
  if (::stat(folder.c_str(), &status) != 0) {
    if (errno == ENOENT) throw Refusal("there is no folder " + folder.string());
    throw Refusal(folder.string() + ": " + std::strerror(errno));
  }
  if (!S_ISDIR(status.st_mode)) throw Refusal(folder.string() + " is not a folder");
  std::string name;
  Leftover leftover;
  const int descriptor = create_temporary(folder.string(), name, leftover);
  if (descriptor < 0) throw Refusal("in the folder " + folder.string() + ": " + std::strerror(errno));
  ::close(descriptor);
  ::unlink(name.c_str());
}

}  // namespace

std::string try_output_file(const std::string& path) {
  try {
    const Target target = target_of(path);
    if (target.place.empty()) {
      if (!target.descriptor && ::access(path.c_str(), W_OK) != 0) refuse(errno);
      if (target.descriptor && (::fcntl(*target.descriptor, F_GETFL) & O_ACCMODE) == O_RDONLY) refuse(EBADF);
      return "";
    }
    if (target.exists && ::access(target.place.c_str(), W_OK) != 0) refuse(errno);
    try_folder(fs::path(target.place).parent_path());
    return target.place;
  } catch (const Refusal& refusal) {
    throw std::runtime_error(message(path, refusal.what()));
  }
}

void try_output_folder(const std::string& path) {
  try {
    if (path.empty()) refuse(ENOENT);
    fs::path nearest = fs::path(path).lexically_normal();
    std::error_code error;
    // A dangling symbolic link is there, though its target does not exist.
    while (fs::symlink_status(nearest, error).type() == fs::file_type::not_found &&
           nearest.has_parent_path() && nearest.parent_path() != nearest)
      nearest = nearest.parent_path();
    if (fs::symlink_status(nearest, error).type() == fs::file_type::not_found) nearest = ".";
    try_folder(nearest);
  } catch (const Refusal& refusal) {
    throw std::runtime_error(message(path, refusal.what()));
  }
}

void make_output_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw OutputError(path + ": cannot be created: " + error.message());
  if (!fs::is_directory(path, error)) throw OutputError(path + ": cannot be created: it is not a folder");
}

OutputFile::OutputFile(const std::string& path, bool durable) : path_(path), durable_(durable) {
  try {
    const Target target = target_of(path);
    place_ = target.place;
    if (target.descriptor) {
      descriptor_ = ::fcntl(*target.descriptor, F_DUPFD_CLOEXEC, 3);
    } else if (place_.empty()) {
      descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_APPEND);
    } else {
      if (target.exists && ::access(place_.c_str(), W_OK) != 0) refuse(errno);
      descriptor_ = create_temporary(fs::path(place_).parent_path().string(), temporary_, leftover_);
      if (descriptor_ >= 0 && target.exists) {
        // Only a privileged process may change the owner; others keep the permissions alone.
        if (target.owner != ::geteuid() || target.group != ::getegid())
          (void)!::fchown(descriptor_, target.owner, target.group);
        (void)::fchmod(descriptor_, target.permissions);
      }
    }
  } catch (const Refusal& refusal) {
    throw OutputError(message(path, refusal.what()));
  }
  if (descriptor_ < 0) {
    temporary_.clear();
    fail(errno);
  }
  buffer_ = std::make_unique<DescriptorBuffer>(descriptor_);
  stream_.rdbuf(buffer_.get());
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::fail(int error) const {
  throw OutputError(message(path_, error != 0 ? std::strerror(error) : "unknown reason"));
}

void OutputFile::finish() {
  if (descriptor_ < 0) return;
  stream_.flush();
  if (buffer_->error() != 0 || !stream_) fail(buffer_->error());
  // Only regular files can be synchronised, and not on every file system.
  if (durable_ && !place_.empty() && ::fsync(descriptor_) != 0 && errno != EINVAL && errno != ENOTSUP &&
      errno != EROFS)
    fail(errno);
  stream_.rdbuf(nullptr);
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail(errno);
}

void OutputFile::commit() {
  finish();
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), place_.c_str()) != 0) fail(errno);
  temporary_.clear();
  leftover_.forget();
}

std::ostream& OutputSet::open(const std::string& path) {
  if (!files_.empty()) files_.back().finish();
  return files_.emplace_back(path, durable_).stream();
}

void OutputSet::commit() {
  if (!files_.empty()) files_.back().finish();
  const HoldSignals until_all_have_names;
  for (OutputFile& file : files_) file.commit();
}

}  // namespace cplab
