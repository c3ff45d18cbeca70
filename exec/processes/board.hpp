// Counters that the ranks of one host read and write while they issue work: on the heap for ranks that are
// threads, in POSIX shared memory for ranks that are processes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace cplab {

struct BoardError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A fixed number of counters, all 0 at first, one cache line each, because ranks spin on them. Move-only;
// moving leaves the cells where they are. Threads and processes may use cells at will; a Board itself
// belongs to one thread.
//
// Shared boards: one rank calls create_shared(shared_name(port), n) and sends the name to the others
// (Rendezvous::all_gather); they call open_shared; after a barrier the creator calls unlink. From then on
// nothing stays in /dev/shm, whichever process dies. If the creator dies before that, one object of n lines
// stays in /dev/shm; a later board of the same name replaces it.
class Board {
 public:
  using Counter = std::atomic<std::uint32_t>;
  // A lock would be one process's own.
  static_assert(Counter::is_always_lock_free);

  static Board in_process(std::size_t cells);
  // Throws BoardError, also when the host's shared memory has no room for it.
  static Board create_shared(const std::string& name, std::size_t cells);
  // Throws BoardError if there is no such board or it has another number of cells.
  static Board open_shared(const std::string& name, std::size_t cells);
  // "/cplab-PORT-PID" of this process: no other living process of this host has it.
  static std::string shared_name(int port);

  ~Board();
  Board(Board&& other) noexcept;
  Board& operator=(Board&& other) noexcept;

  std::size_t size() const { return cells_; }
  // Throws std::out_of_range.
  Counter& cell(std::size_t index);

  // Takes the name away; those who have opened the board keep it. Does nothing the second time, for a board
  // that was opened, and in process. The creator's destructor calls it too.
  void unlink() noexcept;

 private:
  struct Line;
  Board() = default;
  void release() noexcept;

  Line* lines_ = nullptr;  // line 0 describes the board, cell i is line i + 1
  std::size_t cells_ = 0;
  std::size_t mapped_bytes_ = 0;  // 0: on the heap
  std::string name_;              // of which this board is the creator; empty once unlinked
};

}  // namespace cplab
