// Host threads of the ranks; see team.hpp.
#include "exec/gpu/team.hpp"

#include <array>
#include <string>
#include <thread>

namespace cplab {

GpuTeam::GpuTeam(int world, Rendezvous* rendezvous)
    : world_(world), rendezvous_(rendezvous), board_(make_board(4 + 2 * static_cast<std::size_t>(world))) {
  for (int rank = 0; rank < world; ++rank) {
    if (is_local(rank)) local_.push_back(rank);
  }
}

Board GpuTeam::make_board(std::size_t cells) const {
  if (rendezvous_ == nullptr) return Board::in_process(cells);
  std::array<char, 64> name{};
  if (rendezvous_->rank() != 0) {
    name = rendezvous_->all_gather_value(name, patience_s).front();
    name.back() = '\0';
    Board board = Board::open_shared(name.data(), cells);
    rendezvous_->barrier(patience_s);
    return board;
  }
  static int boards = 0;
  const std::string text = Board::shared_name(boards++);
  Board board = Board::create_shared(text, cells);
  text.copy(name.data(), name.size() - 1);
  (void)rendezvous_->all_gather_value(name, patience_s);
  rendezvous_->barrier(patience_s);
  board.unlink();
  return board;
}

void GpuTeam::run(const std::function<void(int)>& body) {
  const auto guarded = [&](int rank) {
    try {
      body(rank);
    } catch (const Stopped&) {
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!first_) first_ = std::current_exception();
      failed_.store(true, std::memory_order_release);
    }
  };
  std::vector<std::thread> threads;
  for (const int rank : local_) threads.emplace_back(guarded, rank);
  for (std::thread& thread : threads) thread.join();
  if (!first_) return;
  if (rendezvous_ != nullptr) {
    try {
      std::rethrow_exception(first_);
    } catch (const std::exception& error) {
      rendezvous_->announce_failure(error.what());
    } catch (...) {
      rendezvous_->announce_failure("unknown error");
    }
  }
  std::rethrow_exception(first_);
}

void GpuTeam::stop_if_failed() const {
  if (failed_.load(std::memory_order_acquire)) throw Stopped{};
  if (rendezvous_ == nullptr) return;
  if (const auto failure = rendezvous_->poll_failure()) throw Elsewhere(*failure);
}

void GpuTeam::report_progress(int rank, std::size_t issued) {
  progress_of(rank).store(static_cast<std::uint32_t>(issued), std::memory_order_relaxed);
}

std::string GpuTeam::missing(std::uint32_t generation) {
  std::string text;
  for (int rank = 0; rank < world_; ++rank) {
    if (arrivals_of(rank).load(std::memory_order_acquire) == generation + 1) continue;
    text += (text.empty() ? "rank " : "; rank ") + std::to_string(rank) + " does not come to the end of a " +
            "repetition (it has issued " + std::to_string(progress_of(rank).load(std::memory_order_relaxed)) +
            " operations)";
  }
  return text;
}

GpuTeam::Clock::time_point GpuTeam::barrier(int rank, Clock::time_point deadline) {
  Board::Counter& arrived = board_.cell(0);
  Board::Counter& generation = board_.cell(1);
  const std::uint32_t now = generation.load(std::memory_order_acquire);
  arrivals_of(rank).store(now + 1, std::memory_order_release);
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(world_)) {
    const auto ns = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count());
    arrived.store(0, std::memory_order_relaxed);
    board_.cell(2).store(static_cast<std::uint32_t>(ns), std::memory_order_relaxed);
    board_.cell(3).store(static_cast<std::uint32_t>(ns >> 32), std::memory_order_relaxed);
    generation.store(now + 1, std::memory_order_release);
  }
  while (generation.load(std::memory_order_acquire) == now) {
    stop_if_failed();
    if (Clock::now() > deadline) throw Late("the time is up: " + missing(now));
    std::this_thread::yield();
  }
  const std::uint64_t ns = board_.cell(2).load(std::memory_order_relaxed) |
                           std::uint64_t{board_.cell(3).load(std::memory_order_relaxed)} << 32;
  return Clock::time_point(
      std::chrono::duration_cast<Clock::duration>(std::chrono::nanoseconds(static_cast<std::int64_t>(ns))));
}

}  // namespace cplab
