// A thread that writes the line anew four times a second.
#include "cli/progress.hpp"

#include <cstdlib>

namespace cplab {

namespace {

constexpr std::chrono::milliseconds refresh{250};

// Tests do not wait for two seconds.
std::chrono::duration<double> wait_before_first(std::chrono::duration<double> otherwise) {
  const char* given = std::getenv("CPLAB_TEST_PROGRESS_AFTER_S");
  return given ? std::chrono::duration<double>(std::atof(given)) : otherwise;
}

}  // namespace

Progress::Progress(Console& console, const std::string& what, bool speaks)
    : console_(console), live_(console.shows_progress() && speaks) {
  if (!live_) return;
  after_ = wait_before_first(after_);
  stage(what);
  watcher_ = std::thread([this] { watch(); });
}

Progress::~Progress() {
  end();
}

void Progress::end() {
  if (!live_ || !watcher_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  watcher_.join();
  console_.progress("");
}

void Progress::stage(const std::string& what, std::int64_t all, const std::string& unit) {
  if (!live_) return;
  const std::lock_guard lock(mutex_);
  what_ = what;
  unit_ = unit;
  done_ = 0;
  all_ = all;
  if (due() && !over_) show();
}

void Progress::set_done(std::int64_t done, std::int64_t all) {
  done_.store(done, std::memory_order_relaxed);
  all_.store(all, std::memory_order_relaxed);
}

Progress::Count Progress::counter() {
  if (!live_) return {};
  return [this](std::int64_t done, std::int64_t all) { set_done(done, all); };
}

void Progress::show() {
  std::string line = what_;
  if (!unit_.empty() && all_ > 0) {
    line += ": " + std::to_string(done_) + " of " + std::to_string(all_) + " " + unit_;
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start_).count();
  console_.progress(line + ", " + std::to_string(seconds) + " s");
}

void Progress::watch() {
  std::unique_lock lock(mutex_);
  const auto first = start_ + std::chrono::duration_cast<Clock::duration>(after_);
  auto next = first > Clock::now() ? first : Clock::now() + refresh;
  while (!ended_.wait_until(lock, next, [this] { return over_; })) {
    show();
    next = Clock::now() + refresh;
  }
}

}  // namespace cplab
