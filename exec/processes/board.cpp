// Shared memory by shm_open and mmap; the heap form has the same layout.
#include "exec/processes/board.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <utility>

namespace cplab {
namespace {

constexpr std::uint64_t board_magic = 0x3164726f62706331;  // tells our objects, and this layout, from others
constexpr std::size_t line_bytes = 64;

struct FileDescriptor {
  int value;
  ~FileDescriptor() {
    if (value >= 0) ::close(value);
  }
};

[[noreturn]] void fail(const std::string& what, const std::string& name, int error) {
  throw BoardError("board " + name + ": " + what + ": " + std::strerror(error));
}

}  // namespace

struct alignas(line_bytes) Board::Line {
  Counter counter{0};
  std::uint64_t magic = board_magic;  // meant in line 0 only
  std::uint64_t cells = 0;
};

namespace {

std::size_t bytes_for(std::size_t cells) {
  if (cells > std::numeric_limits<std::size_t>::max() / line_bytes / 2)
    throw BoardError("board: " + std::to_string(cells) + " cells are too many");
  return (cells + 1) * line_bytes;
}

void* map(int file, std::size_t bytes, const std::string& name) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) fail("cannot map it", name, errno);
  return memory;
}

}  // namespace

Board Board::in_process(std::size_t cells) {
  static_assert(sizeof(Line) == line_bytes);
  bytes_for(cells);
  Board board;
  board.lines_ = new Line[cells + 1];
  board.cells_ = cells;
  return board;
}

Board Board::create_shared(const std::string& name, std::size_t cells) {
  const std::size_t bytes = bytes_for(cells);
  const auto open_new = [&] { return ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600); };
  FileDescriptor file{open_new()};
  if (file.value < 0 && errno == EEXIST) {
    // Left by a process that was killed between create and unlink and had this process's id.
    ::shm_unlink(name.c_str());
    file.value = open_new();
  }
  if (file.value < 0) fail("cannot create it", name, errno);
  Board board;
  board.name_ = name;  // from here on the destructor unlinks
  // Not ftruncate: pages that the host cannot provide would be a SIGBUS at their first use.
  if (const int error = ::posix_fallocate(file.value, 0, static_cast<off_t>(bytes)); error != 0)
    fail("no room for " + std::to_string(bytes) + " bytes of shared memory", name, error);
  board.lines_ = static_cast<Line*>(map(file.value, bytes, name));
  board.mapped_bytes_ = bytes;
  board.cells_ = cells;
  std::uninitialized_default_construct_n(board.lines_, cells + 1);
  board.lines_[0].cells = cells;
  return board;
}

Board Board::open_shared(const std::string& name, std::size_t cells) {
  const FileDescriptor file{::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0)};
  if (file.value < 0) fail("cannot open it", name, errno);
  struct stat status = {};
  if (::fstat(file.value, &status) != 0) fail("cannot look at it", name, errno);
  const std::size_t bytes = bytes_for(cells);
  if (status.st_size != static_cast<off_t>(bytes))
    throw BoardError("board " + name + ": has " + std::to_string(status.st_size) + " bytes, not the " +
                     std::to_string(bytes) + " of " + std::to_string(cells) + " cells");
  Board board;
  board.lines_ = static_cast<Line*>(map(file.value, bytes, name));
  board.mapped_bytes_ = bytes;
  board.cells_ = cells;
  if (board.lines_[0].magic != board_magic || board.lines_[0].cells != cells)
    throw BoardError("board " + name + ": is no board of this program, or of another version of it");
  return board;
}

std::string Board::shared_name(int port) {
  return "/cplab-" + std::to_string(port) + "-" + std::to_string(::getpid());
}

Board::~Board() {
  release();
}

Board::Board(Board&& other) noexcept
    : lines_(std::exchange(other.lines_, nullptr)),
      cells_(std::exchange(other.cells_, 0)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
      name_(std::exchange(other.name_, std::string())) {}

Board& Board::operator=(Board&& other) noexcept {
  if (this != &other) {
    release();
    lines_ = std::exchange(other.lines_, nullptr);
    cells_ = std::exchange(other.cells_, 0);
    mapped_bytes_ = std::exchange(other.mapped_bytes_, 0);
    name_ = std::exchange(other.name_, std::string());
  }
  return *this;
}

Board::Counter& Board::cell(std::size_t index) {
  if (index >= cells_)
    throw std::out_of_range("board: cell " + std::to_string(index) + " of " + std::to_string(cells_));
  return lines_[index + 1].counter;
}

void Board::unlink() noexcept {
  if (name_.empty()) return;
  ::shm_unlink(name_.c_str());
  name_.clear();
}

void Board::release() noexcept {
  unlink();
  if (lines_ == nullptr) return;
  if (mapped_bytes_ == 0)
    delete[] lines_;
  else
    ::munmap(lines_, mapped_bytes_);  // counters have no destructor to run, and others still use them
  lines_ = nullptr;
}

}  // namespace cplab
