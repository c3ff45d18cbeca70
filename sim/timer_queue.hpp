// Timers and alarms of a flow engine, earliest first.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

namespace cplab {

// Timers of one time come in the order in which they were set. An alarm that is set anew leaves its old entry
// behind, which is dropped when it comes to the front.
class TimerQueue {
 public:
  explicit TimerQueue(int alarms) : alarms_(static_cast<std::size_t>(alarms), 0) {}

  void timer(double at_us, std::uint64_t token) { entries_.push({at_us, next_number_++, token, -1}); }
  void alarm(int number, double at_us, std::uint64_t token) {
    const std::uint64_t entry = next_number_++;
    alarms_[static_cast<std::size_t>(number)] = entry;
    if (at_us < never_us) entries_.push({at_us, entry, token, number});
  }
  // Infinity if there is none.
  double next_us() {
    drop_stale();
    return entries_.empty() ? never_us : entries_.top().at_us;
  }
  // The token of the first; there is one.
  std::uint64_t take() {
    const std::uint64_t token = entries_.top().token;
    entries_.pop();
    return token;
  }

 private:
  static constexpr double never_us = std::numeric_limits<double>::infinity();
  struct Entry {
    double at_us;
    std::uint64_t number;
    std::uint64_t token;
    int alarm;  // or -1
    bool operator>(const Entry& other) const {
      return at_us != other.at_us ? at_us > other.at_us : number > other.number;
    }
  };

  // A stale entry must not reach the clock: every time at which an engine stops costs.
  void drop_stale() {
    while (!entries_.empty() && entries_.top().alarm >= 0 &&
           alarms_[static_cast<std::size_t>(entries_.top().alarm)] != entries_.top().number)
      entries_.pop();
  }

  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> entries_;
  std::uint64_t next_number_ = 1;
  std::vector<std::uint64_t> alarms_;  // the number of the entry that counts
};

}  // namespace cplab
