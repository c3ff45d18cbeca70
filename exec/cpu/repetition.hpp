// One run through the whole plan on the CPU: starts what is ready, moves data where both ends have posted,
// and records times and uses of memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "derive/walk.hpp"
#include "exec/bind.hpp"
#include "exec/cpu/collectives.hpp"
#include "exec/cpu/device.hpp"
#include "exec/cpu/executor.hpp"
#include "exec/cpu/ready_pool.hpp"
#include "exec/memory_log.hpp"
#include "report/timeline.hpp"

namespace cplab {

// What outlives a repetition: the rank's memory, and its plan as kernel calls on that memory.
struct RankState {
  RankState(const RankPlan& plan, const Problem& problem, const CpuTables& tables)
      : device(plan.arena_bytes, tables),
        binder(plan, problem.dtype, device.base(), ProblemNumbers(problem)) {}
  CpuDevice device;
  Binder binder;
};

class Repetition {
 public:
  using Clock = std::chrono::steady_clock;

  // `ranks` by rank of the plan, inputs written. `log` may be null; it has an entry for each rank. The plan,
  // `ranks` and `log` outlive the repetition.
  Repetition(const Plan& plan, ExecutionOrder order, std::vector<std::unique_ptr<RankState>>& ranks,
             Clock::time_point deadline, std::vector<MemoryLog>* log);

  // To be called once. Returns the seconds it took. Throws BadPlan, and ExecutionHang if nothing is ready
  // before the plan is finished or the deadline has passed.
  double run();

  std::function<void(std::int64_t done)> after_operation;  // may be empty; to be set before run()
  // For messages: operations of earlier repetitions, and of all. To be set before run().
  std::int64_t done_before = 0, all_operations = 0;

  // What run() measured. To be called once.
  Timeline take_timeline() { return std::move(timeline_); }

 private:
  double now_s() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  const Operation& operation(OpRef ref) const { return plan_.ranks[ref.rank].operations[ref.operation]; }
  OperationTime& time_of(OpRef ref) { return timeline_.ranks[ref.rank][ref.operation]; }

  void push_ready();
  void take_memory(std::size_t rank, std::uint32_t index, bool fresh);
  void touch(OpRef ref);
  void start(OpRef ref);
  void compute(OpRef ref);
  void post(OpRef ref);
  void transfer(const Match& match);
  void part_done(OpRef ref, double moved_s);
  void sum_received(OpRef ref);
  void hold_meeting(const std::vector<OpRef>& members);
  void all_reduce(const std::vector<OpRef>& members);
  void complete(OpRef ref);
  [[noreturn]] void throw_hang(bool timed_out) const;

  using Key = std::pair<std::uint32_t, std::uint32_t>;
  struct Received {  // by a reduce_scatter, until all of its parts are there
    std::uint32_t part = 0;
    std::vector<std::unique_ptr<StagedTensor>> tensors;
    std::vector<kernels::View> targets;
  };

  const Plan& plan_;
  std::vector<std::unique_ptr<RankState>>& ranks_;
  Clock::time_point deadline_, start_;
  std::vector<MemoryLog>* log_;
  Walk walk_;
  ReadyPool pool_;
  Timeline timeline_;
  std::int64_t done_ = 0;  // operations
  std::vector<OpRef> ready_;
  std::vector<Match> matches_;
  std::vector<std::vector<OpRef>> meetings_;
  std::vector<std::vector<bool>> touched_;  // by rank, by buffer
  std::map<Key, std::vector<Received>> received_;
  std::map<Key, double> moved_s_;  // of communications that have not ended
};

}  // namespace cplab
