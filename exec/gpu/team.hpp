// The host threads that issue the ranks' work: one for every rank of this process. They start together, meet
// at barriers with those of the other processes, and stop together when one of them fails.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "exec/processes/board.hpp"
#include "exec/processes/rendezvous.hpp"

namespace cplab {

class GpuTeam {
 public:
  using Clock = std::chrono::steady_clock;  // one for all processes of a host
  // Thrown by barrier() and stop_if_failed(): a thread of this process has failed, and run() says how; or
  // another process has.
  struct Stopped {};
  struct Elsewhere : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  // Thrown by barrier(): the deadline came first; what() names the ranks that did not come, and how far each
  // had got.
  struct Late : std::runtime_error {
    using std::runtime_error::runtime_error;
  };

  // All ranks are threads of this process if `rendezvous` is null, else only its own.
  GpuTeam(int world, Rendezvous* rendezvous);

  const std::vector<int>& local() const { return local_; }
  bool is_local(int rank) const { return rendezvous_ == nullptr || rendezvous_->rank() == rank; }
  Rendezvous* rendezvous() const { return rendezvous_; }

  // Runs body(rank) in a thread for every local rank and waits for all. Throws the first exception that a
  // body threw, after telling the other processes.
  void run(const std::function<void(int rank)>& body);

  // Returns when all ranks are here; the time is the same for all of them: when the last one came.
  Clock::time_point barrier(int rank, Clock::time_point deadline);
  // How many of its operations a rank has issued in this repetition, for messages about it.
  void report_progress(int rank, std::size_t issued);
  void stop_if_failed() const;

  // Counters that all ranks see. Collective over processes.
  Board make_board(std::size_t cells) const;
  static constexpr double patience_s = 60;  // of a rendezvous, apart from the run's own deadline

 private:
  int world_;
  Rendezvous* rendezvous_;
  std::vector<int> local_;
  Board::Counter& arrivals_of(int rank) { return board_.cell(4 + 2 * static_cast<std::size_t>(rank)); }
  Board::Counter& progress_of(int rank) { return board_.cell(5 + 2 * static_cast<std::size_t>(rank)); }
  std::string missing(std::uint32_t generation);

  // Arrived, generation, time of the release in ns: low and high half; then for each rank the generation of
  // its last arrival, counted from 1, and its progress.
  Board board_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr first_;
};

}  // namespace cplab
