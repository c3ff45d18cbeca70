// A thread that writes the line anew four times a second, or one more line every ten.
#include "cli/progress.hpp"

#include <cmath>
#include <cstdlib>
#include <utility>

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
  console.end_if_stopped();
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

void Progress::stage(const std::string& what, std::int64_t all, const std::string& unit, Alike alike) {
  console_.end_if_stopped();
  if (!live_) return;
  const std::lock_guard lock(mutex_);
  what_ = what;
  unit_ = unit;
  alike_ = alike;
  stage_start_ = Clock::now();
  done_ = 0;
  all_ = all;
  if (terminal_ && due() && !over_) show();
}

void Progress::set_done(std::int64_t done, std::int64_t all) {
  console_.end_if_stopped();
  done_.store(done, std::memory_order_relaxed);
  all_.store(all, std::memory_order_relaxed);
}

Progress::Count Progress::counter() {
  if (!live_ && !console_.can_stop()) return {};
  return [this](std::int64_t done, std::int64_t all) { set_done(done, all); };
}

std::string Progress::line() const {
  std::string line = what_;
  if (!unit_.empty() && all_ > 0) {
    line += ": " + std::to_string(done_) + " of " + std::to_string(all_) + " " + unit_;
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start_).count();
  line += ", " + std::to_string(seconds) + " s";
  if (alike_ == Alike::no) return line;
  const std::chrono::duration<double> elapsed = Clock::now() - stage_start_;
  return line + time_left(elapsed.count(), done_, all_);
}

std::string Progress::time_left(double elapsed_s, std::int64_t done, std::int64_t all) {
  if (done <= 0 || done >= all) return {};
  const double left_s = elapsed_s / static_cast<double>(done) * static_cast<double>(all - done);
  constexpr double minute_s = 60, hour_s = 3600, most_seconds = 120, most_minutes = 120 * minute_s;
  const auto [unit_s, unit] = left_s < most_seconds   ? std::pair(1.0, " s")
                              : left_s < most_minutes ? std::pair(minute_s, " min")
                                                      : std::pair(hour_s, " h");
  return ", about " + std::to_string(static_cast<std::int64_t>(std::ceil(left_s / unit_s))) + unit + " left";
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
