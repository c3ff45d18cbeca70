// A thread for each GPU, barriers between them, and how calibrate/ takes times.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "calibrate/device.hpp"

namespace cplab::measure {

class Team {
 public:
  explicit Team(int ranks);
  int size() const { return static_cast<int>(values_.size()); }
  // Runs body(rank) for every rank on its own thread with GPU `rank` current. Rethrows the first exception.
  void run(const std::function<void(int)>& body);

  // Inside body, on all ranks. meet() throws Error when another rank has failed.
  void meet();
  double largest(int rank, double value);  // over the ranks, the same on each
  bool failed() const { return failed_.load(); }
  void require_alive() const;  // throws Error when another rank has failed

 private:
  std::atomic<int> arrived_{0};
  std::atomic<int> generation_{0};
  std::atomic<bool> failed_{false};
  std::vector<double> values_;
};

// What a sample holds: as many calls as last `sample_s`, within these bounds. Before the first sample such
// calls run for `settle_s`.
struct Effort {
  double sample_s = 0.010;
  int least = 10, most = 100;
  int samples = 5;
  double settle_s = 0;
};

// One rank's stream with gate and timing events. The ranks of a team make and use theirs in step.
class Bench {
 public:
  Bench(Team& team, int rank) : team_(team), rank_(rank) {}

  // Queues one call; `index` counts all calls of this bench.
  using Queue = std::function<void(std::int64_t index, CudaStream stream)>;

  // Mean seconds of one of `count` back-to-back calls, the slowest rank's.
  double sample(int count, const Queue& queue);
  // Mean seconds of one of `count` calls while `beside` is queued `beside_count` times on an urgent stream of
  // its own; both begin together. `covered` is false if the other stream was done first on some rank.
  double sample_beside(int count, const Queue& queue, int beside_count, const Queue& beside, bool& covered);
  double typical(const Queue& queue, const Effort& effort);
  int count_for(double seconds, const Effort& effort) const;
  void warm_up(const Queue& queue, int count);
  // Noise only adds: a point of the curve (ascending bytes) that took longer than a larger one is timed again
  // by `again(index)`, twice at most, and its least time counts.
  static void time_again(std::vector<CurvePoint>& points, const std::function<double(std::size_t)>& again);
  // The host's seconds for one of `count` calls of `issue` that begin with an idle device: median over rounds
  // of the slowest rank.
  double issue_s(int count, const std::function<void(CudaStream)>& issue);

  Team& team() { return team_; }
  int rank() const { return rank_; }
  CudaStream stream() const { return stream_.get(); }

 private:
  Team& team_;
  int rank_;
  Stream stream_, beside_stream_{true};
  Gate gate_, beside_gate_;
  Event begin_{true}, end_{true}, beside_end_{true};
  std::int64_t calls_ = 0, beside_calls_ = 0;
};

}  // namespace cplab::measure
