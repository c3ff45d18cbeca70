// A thread that writes the line anew four times a second, or one more line every ten.
#include "cli/progress.hpp"

#include <cstdlib>

namespace cplab {

namespace {

constexpr std::chrono::milliseconds refresh{250};

// Tests do not wait for so long.
std::chrono::duration<double> wait_before_first(bool terminal) {
  const char* given = std::getenv(terminal ? "CPLAB_TEST_PROGRESS_AFTER_S" : "CPLAB_TEST_PROGRESS_LINES_S");
  return std::chrono::duration<double>(given ? std::atof(given) : terminal ? 2 : 10);
}

}  // namespace

Progress::Progress(Console& console, const std::string& what, bool speaks)
    : console_(console),
      live_(console.talks() && speaks),
      terminal_(console.shows_progress()),
      after_(wait_before_first(terminal_)) {
  if (!live_) return;
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
  if (terminal_) console_.progress("");
}

void Progress::stage(const std::string& what, std::int64_t all, const std::string& unit) {
  if (!live_) return;
  const std::lock_guard lock(mutex_);
  what_ = what;
  unit_ = unit;
  done_ = 0;
  all_ = all;
  if (terminal_ && due() && !over_) show();
}

void Progress::set_done(std::int64_t done, std::int64_t all) {
  done_.store(done, std::memory_order_relaxed);
  all_.store(all, std::memory_order_relaxed);
}

Progress::Count Progress::counter() {
  if (!live_) return {};
  return [this](std::int64_t done, std::int64_t all) { set_done(done, all); };
}

std::string Progress::line() const {
  std::string line = what_;
  if (!unit_.empty() && all_ > 0) {
    line += ": " + std::to_string(done_) + " of " + std::to_string(all_) + " " + unit_;
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start_).count();
  return line + ", " + std::to_string(seconds) + " s";
}

void Progress::show() {
  terminal_ ? console_.progress(line()) : console_.say(line());
}

void Progress::watch() {
  std::unique_lock lock(mutex_);
  const auto first = start_ + std::chrono::duration_cast<Clock::duration>(after_);
  const auto pause =
      terminal_ ? Clock::duration(refresh) : std::chrono::duration_cast<Clock::duration>(after_);
  auto next = first > Clock::now() ? first : Clock::now() + pause;
  while (!ended_.wait_until(lock, next, [this] { return over_; })) {
    show();
    next = Clock::now() + pause;
  }
}

}  // namespace cplab
