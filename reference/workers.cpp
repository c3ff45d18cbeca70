// Threads that take unit after unit; see workers.hpp.
#include "reference/workers.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace cplab::reference {

int worker_count(std::int64_t units) {
  static const std::int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  return static_cast<int>(std::clamp<std::int64_t>(units, 1, cores));
}

void for_each_unit(std::int64_t units, const std::function<void(std::int64_t, int)>& work,
                   const std::function<void(std::int64_t)>& done) {
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::int64_t finished = 0;
  std::exception_ptr failure;
  const auto take = [&](int worker) {
    try {
      for (std::int64_t unit = 0; (unit = next++) < units;) {
        work(unit, worker);
        if (!done) continue;
        const std::lock_guard lock(mutex);
        done(++finished);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next = units;
    }
  };
  {
    std::vector<std::jthread> others;
    for (int worker = 1; worker < worker_count(units); ++worker) others.emplace_back(take, worker);
    take(0);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace cplab::reference
