// Arenas, tensors in and out of them, and timed repetitions; see cpu_executor.hpp.
#include "exec/cpu_executor.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "exec/repetition.hpp"

namespace cplab {

struct CpuExecutor::State {
  State(const Plan& plan_, CpuOptions options_) : plan(plan_), options(options_) {}

  const RankPlan& rank_of(int rank) const {
    if (rank < 0 || static_cast<std::size_t>(rank) >= plan.ranks.size()) {
      throw BadPlan(FindingKind::unmatched, rank, "", "", "the plan has no rank " + std::to_string(rank));
    }
    return plan.ranks[static_cast<std::size_t>(rank)];
  }

  const Buffer* find(int rank, std::string_view name) const {
    const RankPlan& of = rank_of(rank);
    const auto found =
        std::find_if(of.buffers.begin(), of.buffers.end(), [&](const Buffer& b) { return b.name == name; });
    return found == of.buffers.end() ? nullptr : &*found;
  }

  // Calls visit(element, at) for every element in the order of [slots, rows, heads, width]; `element` counts
  // from the first byte of the buffer.
  template <class Visit>
  static void for_each_element(const Buffer& b, Visit visit) {
    std::size_t at = 0;
    for (std::int64_t slot = 0; slot < b.slots; ++slot) {
      for (std::int64_t row = 0; row < b.rows; ++row) {
        for (std::int64_t head = 0; head < b.heads; ++head) {
          const std::int64_t line =
              b.layout == Layout::rows_first ? row * b.heads + head : head * b.rows + row;
          for (std::int64_t x = 0; x < b.width; ++x) {
            const bool second = b.planes > 0 && x >= b.planes;
            const std::int64_t begin = second ? b.planes : 0;
            const std::int64_t width = (b.planes > 0 && !second ? b.planes : b.width) - begin;
            visit((slot * b.width + begin) * b.rows * b.heads + line * width + (x - begin), at++);
          }
        }
      }
    }
  }

  const Buffer& require(int rank, std::string_view name) const {
    const Buffer* buffer = find(rank, name);
    if (buffer == nullptr) {
      throw BadPlan(FindingKind::unmatched, rank, "", std::string(name),
                    "rank " + std::to_string(rank) + " has no buffer " + std::string(name));
    }
    return *buffer;
  }

  const Plan& plan;
  CpuOptions options;
  std::vector<std::unique_ptr<RankState>> ranks;
};

CpuExecutor::CpuExecutor(const Plan& plan, const CpuOptions& options)
    : state_(std::make_unique<State>(plan, options)) {
  require_executable(plan);
  double bytes = 0;
  for (const RankPlan& rank : plan.ranks) bytes += static_cast<double>(rank.arena_bytes);
  const double physical =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (bytes > 0.9 * physical) {
    throw NotEnoughMemory("the arenas of " + std::to_string(plan.ranks.size()) + " ranks take " +
                          std::to_string(static_cast<std::int64_t>(bytes / (1 << 20))) +
                          " MiB, and this machine has " +
                          std::to_string(static_cast<std::int64_t>(physical / (1 << 20))));
  }
  const kernels::Tiles& tiles = options.tiles != nullptr ? *options.tiles : kernels::cpu_tiles();
  for (const RankPlan& rank : plan.ranks) {
    state_->ranks.push_back(std::make_unique<RankState>(rank, plan.scenario.problem.dtype, tiles));
  }
}

CpuExecutor::~CpuExecutor() = default;

bool CpuExecutor::has(int rank, std::string_view buffer) const {
  return state_->find(rank, buffer) != nullptr;
}

void CpuExecutor::write(int rank, std::string_view buffer, std::span<const double> values) {
  const Buffer& b = state_->require(rank, buffer);
  if (static_cast<std::int64_t>(values.size()) != b.slots * b.rows * b.heads * b.width) {
    throw std::invalid_argument("buffer " + b.name + " does not have " + std::to_string(values.size()) +
                                " elements");
  }
  const kernels::DType dtype = kernel_dtype(b.role, state_->plan.scenario.problem.dtype);
  std::byte* data = state_->ranks[static_cast<std::size_t>(rank)]->device.base() + b.offset;
  State::for_each_element(b, [&](std::int64_t element, std::size_t at) {
    kernels::store_element(data, dtype, element, values[at]);
  });
}

std::vector<double> CpuExecutor::read(int rank, std::string_view buffer) const {
  const Buffer& b = state_->require(rank, buffer);
  const kernels::DType dtype = kernel_dtype(b.role, state_->plan.scenario.problem.dtype);
  const std::byte* data = state_->ranks[static_cast<std::size_t>(rank)]->device.base() + b.offset;
  std::vector<double> values(static_cast<std::size_t>(b.slots * b.rows * b.heads * b.width));
  State::for_each_element(b, [&](std::int64_t element, std::size_t at) {
    values[at] = kernels::load_element(data, dtype, element);
  });
  return values;
}

ExecutionResult CpuExecutor::run() {
  using Clock = Repetition::Clock;
  const CpuOptions& options = state_->options;
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(options.timeout_s));
  ExecutionResult result;
  if (options.keep_log) result.memory.resize(state_->plan.ranks.size());
  std::vector<std::pair<double, Timeline>> timed;
  const int repetitions = options.warmup + std::max(1, options.iterations);
  for (int i = 0; i < repetitions; ++i) {
    std::vector<MemoryLog>* log = i == 0 && options.keep_log ? &result.memory : nullptr;
    Repetition repetition(state_->plan, options.order, state_->ranks, deadline, log);
    const double time_s = repetition.run();
    if (i < options.warmup) continue;
    result.times_s.push_back(time_s);
    timed.emplace_back(time_s, repetition.take_timeline());
  }
  const std::size_t n = timed.size();
  const auto by_time = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::stable_sort(timed.begin(), timed.end(), by_time);
  result.time_s = (timed[(n - 1) / 2].first + timed[n / 2].first) / 2;
  result.timeline = std::move(timed[(n - 1) / 2].second);
  for (std::size_t r = 0; r < state_->ranks.size(); ++r) {
    if (!state_->ranks[r]->device.red_zones_intact()) result.overrun_ranks.push_back(static_cast<int>(r));
  }
  return result;
}

}  // namespace cplab
