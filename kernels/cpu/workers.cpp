// See workers.hpp.
#include "kernels/cpu/workers.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace cplab::kernels {

int worker_count(std::int64_t units, double products) {
  static const std::int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  constexpr double worth_a_thread = 4e6;  // a millisecond or so
  if (products < 2 * worth_a_thread) return 1;
  const auto most = static_cast<std::int64_t>(std::min(products / worth_a_thread, 1e3));
  return static_cast<int>(std::clamp<std::int64_t>(std::min(units, most), 1, cores));
}

void on_workers(int workers, const std::function<void(int)>& work) {
  std::mutex mutex;
  std::exception_ptr failure;
  const auto guarded = [&](int worker) {
    try {
      work(worker);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int worker = 1; worker < workers; ++worker) others.emplace_back(guarded, worker);
    guarded(0);
  }
  if (failure) std::rethrow_exception(failure);
}

double products_of(const View& q, const View& v, std::span<const Segment> segments) {
  double pairs = 0;
  for (const Segment& segment : segments)
    pairs += static_cast<double>(segment.q_count) * static_cast<double>(segment.k_count);
  return pairs * static_cast<double>(q.heads * (q.width + v.width));
}

}  // namespace cplab::kernels
