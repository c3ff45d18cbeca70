// Events of one GPU on the clock of the host, so that the operations of all ranks share one axis.
#pragma once

#include <chrono>
#include <deque>
#include <vector>

#include "exec/gpu/messages.hpp"
#include "exec/gpu/rank.hpp"
#include "plan/plan.hpp"
#include "report/timeline.hpp"

namespace cplab {

class GpuClock {
 public:
  using Clock = std::chrono::steady_clock;

  // Records a reference event and when the host saw it: the tightest of several tries on an idle GPU.
  void align(GpuRank& rank);
  // A second reference, after the repetitions: how far the two have drifted apart joins the residual.
  void check(GpuRank& rank);
  // The times of an instrumented repetition that began at `start`; its events are reached.
  std::vector<OperationTime> read(GpuRank& rank, const std::vector<double>& issue_s,
                                  Clock::time_point start) const;
  // By how much times of this rank may be off against those of others, seconds.
  double residual_s() const { return residual_s_; }

 private:
  struct Reference {
    GpuEvent event = nullptr;
    Clock::time_point at;
    double half_width_s = 1;
  };
  static Reference measure(GpuRank& rank);

  Reference reference_;
  double residual_s_ = 0;
};

// For communication over NCCL, where nothing on the device tells waiting from moving: an operation waits
// until the last of those it exchanges with has started.
void nccl_waits(const Plan& plan, const GpuMessages& messages, Timeline& timeline);

}  // namespace cplab
