// Threads that meet, and gated samples; see team.hpp.
#include "calibrate/team.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

namespace cplab::measure {

Team::Team(int ranks) : values_(static_cast<std::size_t>(ranks)) {}

void Team::run(const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  std::string what;
  std::atomic<int> done{0};
  failed_ = false;
  arrived_ = 0;
  const auto rank_body = [&](int rank) {
    try {
      use_gpu(rank);
      body(rank);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      if (!first) {
        first = std::current_exception();
        what = "GPU " + std::to_string(rank) + ": " + error.what();
      }
      failed_ = true;
    }
    ++done;
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size(); ++rank) threads.emplace_back(rank_body, rank);
  double failed_at = 0;
  while (done.load() < size()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!failed_.load()) continue;
    if (failed_at == 0) failed_at = now_s();
    if (now_s() - failed_at < 20) continue;
    const std::lock_guard lock(mutex);
    std::fprintf(stderr, "%s; other ranks still wait for it: giving up\n", what.c_str());
    std::_Exit(3);
  }
  for (std::thread& thread : threads) thread.join();
  if (first) {
    try {
      std::rethrow_exception(first);
    } catch (const std::exception&) {
      throw Error(what);
    }
  }
}

void Team::require_alive() const {
  if (failed_.load()) throw Error("another GPU's measurement failed");
}

void Team::meet() {
  const int generation = generation_.load();
  if (arrived_.fetch_add(1) + 1 == size()) {
    arrived_.store(0);
    generation_.store(generation + 1);
    return;
  }
  while (generation_.load() == generation) {
    require_alive();
    std::this_thread::yield();
  }
}

double Team::largest(int rank, double value) {
  values_[static_cast<std::size_t>(rank)] = value;
  meet();
  const double result = *std::max_element(values_.begin(), values_.end());
  meet();  // no rank writes its next value before all have read this one
  return result;
}

double Bench::sample(int count, const Queue& queue) {
  team_.meet();
  gate_.close(stream_.get());
  begin_.record(stream_.get());
  for (int i = 0; i < count; ++i) queue(calls_++, stream_.get());
  end_.record(stream_.get());
  team_.meet();
  gate_.open();
  stream_.synchronize();
  gate_.check();
  return team_.largest(rank_, elapsed_s(begin_, end_) / count);
}

double Bench::sample_beside(int count, const Queue& queue, int beside_count, const Queue& beside,
                            bool& covered) {
  team_.meet();
  gate_.close(stream_.get());
  beside_gate_.close(beside_stream_.get());
  begin_.record(stream_.get());
  for (int i = 0; i < count; ++i) queue(calls_++, stream_.get());
  end_.record(stream_.get());
  for (int i = 0; i < beside_count; ++i) beside(beside_calls_++, beside_stream_.get());
  beside_end_.record(beside_stream_.get());
  team_.meet();
  beside_gate_.open();
  gate_.open();
  stream_.synchronize();
  beside_stream_.synchronize();
  gate_.check();
  beside_gate_.check();
  covered = team_.largest(rank_, elapsed_s(beside_end_, end_)) <= 0;
  return team_.largest(rank_, elapsed_s(begin_, end_) / count);
}

void Bench::warm_up(const Queue& queue, int count) {
  team_.meet();
  for (int i = 0; i < count; ++i) queue(calls_++, stream_.get());
  stream_.synchronize();
  team_.meet();
}

double Bench::issue_s(int count, const std::function<void(CudaStream)>& issue) {
  constexpr int rounds = 15, first_rounds = 2;
  const auto until_idle = [&] { warm_up([](std::int64_t, CudaStream) {}, 0); };  // and all ranks are here
  std::vector<double> seconds;
  for (int round = 0; round < rounds + first_rounds; ++round) {
    until_idle();
    const double begin = now_s();
    for (int i = 0; i < count; ++i) issue(stream_.get());
    const double each = (now_s() - begin) / count;
    until_idle();
    const double slowest = team_.largest(rank_, each);
    if (round >= first_rounds) seconds.push_back(slowest);
  }
  return median(std::move(seconds));
}

void Bench::time_again(std::vector<CurvePoint>& points, const std::function<double(std::size_t)>& again) {
  constexpr int rounds = 2;
  constexpr double noise = 1.02;
  for (int round = 0; round < rounds; ++round) {
    double least = std::numeric_limits<double>::infinity();  // of the larger ones
    for (std::size_t i = points.size(); i-- > 0;) {
      double& seconds = points[i].seconds;
      if (seconds > noise * least) seconds = std::min(seconds, again(i));
      least = std::min(least, seconds);
    }
  }
}

int Bench::count_for(double seconds, const Effort& effort) const {
  const double wanted = std::ceil(effort.sample_s / std::max(seconds, 1e-7));
  return static_cast<int>(
      std::clamp(wanted, static_cast<double>(effort.least), static_cast<double>(effort.most)));
}

double Bench::typical(const Queue& queue, const Effort& effort) {
  warm_up(queue, 1);
  double estimate = sample(1, queue);
  if (estimate < 0.005) estimate = sample(5, queue);
  const int count = count_for(estimate, effort);
  for (double busy_s = 0; busy_s < effort.settle_s;) busy_s += count * sample(count, queue);
  std::vector<double> seconds;
  for (int i = 0; i < effort.samples; ++i) seconds.push_back(sample(count, queue));
  return median(std::move(seconds));
}

}  // namespace cplab::measure
