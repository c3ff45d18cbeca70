// Arenas, tensors in and out of them, and timed repetitions; see executor.hpp.
#include "exec/cpu/executor.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "exec/buffer_image.hpp"
#include "exec/cpu/repetition.hpp"
#include "exec/host_memory.hpp"
#include "exec/repeated.hpp"

namespace cplab {

struct CpuExecutor::State {
  State(const Plan& plan_, CpuOptions options_) : plan(plan_), options(options_) {}

  const Plan& plan;
  CpuOptions options;
  std::vector<std::unique_ptr<RankState>> ranks;
};

CpuExecutor::CpuExecutor(const Plan& plan, const CpuOptions& options)
    : state_(std::make_unique<State>(plan, options)) {
  require_executable(plan);
  double bytes = 0;
  for (const RankPlan& rank : plan.ranks) bytes += static_cast<double>(rank.arena_bytes);
  const HostMemory memory = host_memory_left();
  if (bytes > static_cast<double>(memory.bytes)) {
    throw NotEnoughMemory("the arenas of " + std::to_string(plan.ranks.size()) + " ranks take " +
                          std::to_string(static_cast<std::int64_t>(bytes / (1 << 20))) + " MiB, and " +
                          memory.source + " leaves " + std::to_string(memory.bytes >> 20) + " MiB");
  }
  const CpuTables tables{
      options.tiles != nullptr ? *options.tiles : kernels::cpu_tiles(),
      options.linear_tiles != nullptr ? *options.linear_tiles : kernels::cpu_linear_tiles()};
  for (const RankPlan& rank : plan.ranks) {
    state_->ranks.push_back(std::make_unique<RankState>(rank, plan.scenario.problem, tables));
  }
}

CpuExecutor::~CpuExecutor() = default;

bool CpuExecutor::has(int rank, std::string_view buffer) const {
  return find_buffer(state_->plan, rank, buffer) != nullptr;
}

void CpuExecutor::write(int rank, std::string_view buffer, std::span<const double> values) {
  const Buffer& b = require_buffer(state_->plan, rank, buffer);
  std::byte* base = state_->ranks[static_cast<std::size_t>(rank)]->device.base();
  store_buffer(b, state_->plan.scenario.problem.dtype, values, base + b.offset);
}

std::vector<double> CpuExecutor::read(int rank, std::string_view buffer) const {
  const Buffer& b = require_buffer(state_->plan, rank, buffer);
  const std::byte* base = state_->ranks[static_cast<std::size_t>(rank)]->device.base();
  return load_buffer(b, state_->plan.scenario.problem.dtype, base + b.offset);
}

ExecutionResult CpuExecutor::run() {
  using Clock = Repetition::Clock;
  const CpuOptions& options = state_->options;
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(options.timeout_s));
  ExecutionResult result;
  if (options.keep_log) result.memory.resize(state_->plan.ranks.size());
  std::vector<std::pair<double, Timeline>> timed;
  std::vector<double> whole_s, forward_s;
  const std::int64_t operations = operation_count(state_->plan);
  const int repetitions = options.warmup + std::max(1, options.iterations);
  for (int i = 0; i < repetitions; ++i) {
    std::vector<MemoryLog>* log = i == 0 && options.keep_log ? &result.memory : nullptr;
    Repetition repetition(state_->plan, options.order, state_->ranks, deadline, log);
    repetition.done_before = i * operations;
    repetition.all_operations = repetitions * operations;
    if (options.progress) {
      repetition.after_operation = [&, i](std::int64_t done) {
        options.progress(i * operations + done, repetitions * operations);
      };
    }
    const double time_s = repetition.run();
    if (i < options.warmup) continue;
    timed.emplace_back(time_s, repetition.take_timeline());
    whole_s.push_back(time_s);
    forward_s.push_back(forward_end_s(state_->plan, timed.back().second));
    result.times_s.push_back(time_s - time_not_reported_s(state_->plan, timed.back().second));
  }
  result.time_s = median(result.times_s);
  result.phases = median_phases(state_->plan, whole_s, forward_s);
  result.timeline = take_lower_median(timed);
  for (std::size_t r = 0; r < state_->ranks.size(); ++r) {
    if (!state_->ranks[r]->device.red_zones_intact()) result.overrun_ranks.push_back(static_cast<int>(r));
  }
  return result;
}

}  // namespace cplab
