// Runs a plan in this process or, with SimGrid, in one child process a simulation: SimGrid's engine, platform
// and clock cannot be started anew, and a fresh clock gives the same bits every time. The child writes the
// timeline into memory shared with the parent.
#include "sim/simulate.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <thread>

#include "sim/clocks.hpp"
#include "sim/engine.hpp"
#include "sim/simgrid_flows.hpp"

namespace cplab {

Band band(Origin origin) {
  switch (origin) {
    case Origin::measured: return {0.97, 1.03};
    case Origin::interpolated: return {0.92, 1.08};
    case Origin::extrapolated: return {0.75, 1.25};
    case Origin::assumed: return {0.60, 1.40};
  }
  return {0.60, 1.40};
}

Band held_out_band(const KindAccuracy& known, double assumed_share, double time_s, bool other_kernels) {
  double half = known.half_width + assumed_share * (band(Origin::assumed).high - 1);
  half += few_us_s / std::max(time_s, few_us_s);
  if (other_kernels) half += of_other_kernels;
  return {std::max(0.0, 1 - half), 1 + half};
}

namespace {

struct Job {
  const Plan& plan;
  const Hardware& hardware;
  const SimulateOptions& options;
  const KernelCostFunction& kernel_cost;
};

// What a simulation says beside its timeline.
struct Sums {
  CriticalPath critical;
  OriginSeconds busy;
  std::int64_t host_syncs = 0;
};

// What has no fixed size.
struct Lists {
  std::vector<ChainStep> steps;  // the last first
  std::vector<std::vector<MultiprocessorSample>> multiprocessors;
};

Sums run_engine(const Job& job, const std::vector<std::span<OperationTime>>& times,
                const std::function<void(std::int64_t)>& tell, Lists& lists) {
  Recording recording{times, {}};
  std::size_t operations = 0;
  for (const auto& rank : times) operations += rank.size();
  std::vector<Cause> causes(operations);
  for (std::size_t first = 0; const auto& rank : times) {
    recording.causes.emplace_back(causes.data() + first, rank.size());
    first += rank.size();
  }
  {
    Engine engine(job.plan, job.hardware, job.options, job.kernel_cost, recording);
    engine.on_progress(tell);
    if (job.options.keep_multiprocessors) engine.keep_multiprocessors(lists.multiprocessors);
    engine.run();
  }
  Sums sums;
  const Recorded recorded{{recording.times.begin(), recording.times.end()},
                          {recording.causes.begin(), recording.causes.end()},
                          job.hardware.host.provenance.origin,
                          ChainResource::gpu};
  sums.critical = critical_path(job.plan, recorded, lists.steps);
  for (std::size_t r = 0; r < job.plan.ranks.size(); ++r) {
    for (std::size_t i = 0; i < times[r].size(); ++i) {
      const OperationTime& time = times[r][i];
      if (job.plan.ranks[r].operations[i].kind == OpKind::host_sync)
        ++sums.host_syncs;
      else
        add_parts(sums.busy, time.end_s - time.start_s - time.wait_s, time, recording.causes[r][i]);
    }
  }
  return sums;
}

// ---- in a child process ------------------------------------------------------------------------------

enum class Outcome : std::uint8_t { none, done, hardware_error, stalled, failed };

// What the child reports beside the timeline.
struct Report {
  Outcome outcome;
  Sums sums;
  std::atomic<std::int64_t> done;  // operations, while it runs
  std::size_t step_count;
  std::array<ChainStep, most_steps_beside> steps;
  char table[64], key[192], message[4096];

  void set(Outcome what, const std::string& text) {
    outcome = what;
    put(message, sizeof message, text);
  }
  static void put(char* into, std::size_t size, const std::string& text) {
    const std::size_t n = std::min(size - 1, text.size());
    std::memcpy(into, text.data(), n);
    into[n] = 0;
  }
};

// Memory that a child process writes and its parent reads, zero at first.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes)
      : bytes_(bytes),
        data_(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~SharedMemory() { munmap(data_, bytes_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  char* data() const { return static_cast<char*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

void run_in_child(const Job& job, Report& report, const std::vector<std::span<OperationTime>>& times) {
  try {
    Lists lists;
    report.sums = run_engine(
        job, times, [&](std::int64_t done) { report.done.store(done, std::memory_order_relaxed); }, lists);
    if (lists.steps.size() <= report.steps.size()) {
      std::copy(lists.steps.begin(), lists.steps.end(), report.steps.begin());
      report.step_count = lists.steps.size();
    }
    report.outcome = Outcome::done;
  } catch (const HardwareError& error) {
    Report::put(report.table, sizeof report.table, error.table);
    Report::put(report.key, sizeof report.key, error.key);
    report.set(Outcome::hardware_error, error.what());
  } catch (const StalledError& error) {
    report.set(Outcome::stalled, error.what());
  } catch (const std::exception& error) {
    report.set(Outcome::failed, error.what());
  }
}

// Waits until the child ends. With `tell`: polls, with pauses that grow to 0.1 s, and calls it after each;
// what it throws ends the child and comes out here.
void wait_for(pid_t child, const std::function<void()>& tell) {
  constexpr std::chrono::milliseconds longest{100};
  std::chrono::milliseconds pause{1};
  int status = 0;
  for (;;) {
    const pid_t ended = waitpid(child, &status, tell ? WNOHANG : 0);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR)
      throw std::runtime_error(std::string("waitpid: ") + std::strerror(errno));
    if (ended == 0) {
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, longest);
      try {
        tell();
      } catch (...) {  // who is told wants no more of it
        ::kill(child, SIGKILL);
        while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
        throw;
      }
    }
  }
  if (WIFSIGNALED(status))
    throw std::runtime_error("the simulation's process was ended by signal " +
                             std::to_string(WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0)
    throw std::runtime_error("the simulation's process ended with code " +
                             std::to_string(WEXITSTATUS(status)));
}

void raise(const Report& report) {
  switch (report.outcome) {
    case Outcome::done: return;
    case Outcome::hardware_error: throw HardwareError(report.table, report.key, report.message);
    case Outcome::stalled: throw StalledError(report.message);
    case Outcome::failed: throw std::runtime_error(report.message);
    case Outcome::none: throw std::runtime_error("the simulation ended without a result");
  }
}

Sums run_beside(const Job& job, std::size_t operations, Timeline& timeline, Lists& lists) {
  const SharedMemory memory(sizeof(Report) + alignof(OperationTime) + operations * sizeof(OperationTime));
  Report* report = new (memory.data()) Report{};
  constexpr std::size_t align = alignof(OperationTime);
  auto* all = reinterpret_cast<OperationTime*>(memory.data() + (sizeof(Report) + align - 1) / align * align);
  std::uninitialized_default_construct_n(all, operations);
  std::vector<std::span<OperationTime>> times;
  for (std::size_t first = 0; const RankPlan& rank : job.plan.ranks) {
    times.emplace_back(all + first, rank.operations.size());
    first += rank.operations.size();
  }

  load_simgrid();        // once for all child processes
  std::fflush(nullptr);  // SimGrid flushes: what is buffered now would be written twice
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
  if (child == 0) {
    run_in_child(job, *report, times);
    _exit(0);  // without the parent's destructors and buffered output
  }
  std::function<void()> tell;
  if (job.options.progress) {
    tell = [&] {
      job.options.progress(report->done.load(std::memory_order_relaxed),
                           static_cast<std::int64_t>(operations));
    };
  }
  wait_for(child, tell);
  raise(*report);
  for (const auto& rank : times) timeline.ranks.emplace_back(rank.begin(), rank.end());
  lists.steps.assign(report->steps.begin(), report->steps.begin() + report->step_count);
  return report->sums;
}

// ------------------------------------------------------------------------------------------------------

Sums run_here(const Job& job, std::size_t operations, Timeline& timeline, Lists& lists) {
  std::vector<std::span<OperationTime>> times;
  timeline.ranks.reserve(job.plan.ranks.size());
  for (const RankPlan& rank : job.plan.ranks)
    times.emplace_back(timeline.ranks.emplace_back(rank.operations.size()));
  std::function<void(std::int64_t)> tell;
  if (job.options.progress)
    tell = [&](std::int64_t done) { job.options.progress(done, static_cast<std::int64_t>(operations)); };
  return run_engine(job, times, tell, lists);
}

// The times and their band.
void conclude(const Job& job, const Sums& sums, Simulation& result) {
  for (const std::vector<OperationTime>& rank : result.timeline.ranks)
    for (const OperationTime& time : rank) result.time_s = std::max(result.time_s, time.end_s);
  result.busy = sums.busy;
  result.host_syncs = sums.host_syncs;
  result.critical = sums.critical.by_origin;
  result.critical_use = sums.critical.by_use;
  result.critical_parts = sums.critical.parts;
  if (const KindAccuracy* known = accuracy_of(job.hardware.accuracy, job.plan.scenario)) {
    const bool in_width = known->with_assumed && known->kind == accuracy_kind(job.plan.scenario);
    const double assumed_share = in_width ? 0 : result.critical.share(Origin::assumed);
    const Band half = held_out_band(*known, assumed_share, result.time_s, job.hardware.other_kernels);
    result.low_s = half.low * result.time_s;
    result.high_s = half.high * result.time_s;
    return;
  }
  for (const Origin origin :
       {Origin::measured, Origin::interpolated, Origin::extrapolated, Origin::assumed}) {
    result.low_s += result.critical.of(origin) * band(origin).low;
    result.high_s += result.critical.of(origin) * band(origin).high;
  }
}

}  // namespace

Simulation simulate(const Plan& plan, const Hardware& hardware, const SimulateOptions& options,
                    const KernelCostFunction& kernel_cost) {
  validate(hardware);
  require_ranks(hardware, static_cast<std::int64_t>(plan.ranks.size()));
  (void)reserved_sms(plan.scenario.schedule, hardware.gpu.sms);  // throws before a process is started
  const Job job{plan, hardware, options, kernel_cost};
  std::size_t operations = 0;
  for (const RankPlan& rank : plan.ranks) operations += rank.operations.size();
  Simulation result;
  result.timeline.predicted = true;
  if (operations == 0) {
    result.timeline.ranks.resize(plan.ranks.size());
    conclude(job, {}, result);
    return result;
  }
  const bool beside = options.engine == FlowEngineChoice::simgrid;
  Lists lists;
  const Sums sums = (beside ? run_beside : run_here)(job, operations, result.timeline, lists);
  result.critical_steps.assign(lists.steps.rbegin(), lists.steps.rend());
  result.timeline.multiprocessors = std::move(lists.multiprocessors);
  if (options.progress)
    options.progress(static_cast<std::int64_t>(operations), static_cast<std::int64_t>(operations));
  conclude(job, sums, result);
  return result;
}

Simulation simulate(const Plan& plan, const Hardware& hardware, const SimulateOptions& options) {
  if (options.iteration > 0 && hardware.burst.seconds > 0) {
    Simulation burst =
        simulate(plan, hardware, options, standard_kernel_cost(hardware, highest_clock(plan.ranks.size())));
    if (static_cast<double>(options.iteration) * burst.time_s <= hardware.burst.seconds) return burst;
  }
  Simulation settled = simulate(plan, hardware, options, standard_kernel_cost(hardware));
  const ClockLift lift = settled_lift(plan, hardware, settled.timeline);
  if (lift.by_rank.empty()) return settled;
  return simulate(plan, hardware, options, standard_kernel_cost(hardware, lift));
}

}  // namespace cplab
