// Executes a plan on the CPU: all ranks and lanes in one thread, one ready thing after the other. The order
// among ready things is free, so every order that the plan permits can be had; a plan that forgot an edge
// gives a wrong number in some of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/plan.hpp"
#include "exec/bind.hpp"
#include "exec/memory_log.hpp"
#include "kernels/kernels.hpp"
#include "report/timeline.hpp"

namespace cplab {

// program: the ready operation that comes first in its rank's program, data moved as soon as both ends are
// posted. random: any ready operation or data movement, drawn from the seed, some lanes made to lag.
struct ExecutionOrder {
  bool random = false;
  std::uint64_t seed = 0;
};
// "program" or "random:SEED"; nothing if it is neither.
std::optional<ExecutionOrder> parse_order(std::string_view text);

struct CpuOptions {
  ExecutionOrder order;
  const kernels::Tiles* tiles = nullptr;  // null: kernels::cpu_tiles()
  double timeout_s = 600;                 // for all repetitions together
  int warmup = 0;                         // repetitions before those that are timed
  int iterations = 1;
  bool keep_log = true;  // MemoryLog of the first repetition
};

// Nothing is ready but the plan is not finished, or the time is up. `operations` holds the ids that are
// waited in, what() a line for each rank.
struct ExecutionHang : std::runtime_error {
  ExecutionHang(bool timed_out_, std::vector<int> ranks_, std::vector<std::string> operations_,
                const std::string& message)
      : std::runtime_error(message),
        timed_out(timed_out_),
        ranks(std::move(ranks_)),
        operations(std::move(operations_)) {}
  bool timed_out;
  std::vector<int> ranks;               // global, unfinished
  std::vector<std::string> operations;  // by entry of `ranks`
};

// The arenas of all ranks together do not fit into this machine's memory.
struct NotEnoughMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct ExecutionResult {
  std::vector<double> times_s;     // per timed repetition
  double time_s = 0;               // their median
  Timeline timeline;               // of the repetition whose time is the (lower) median
  std::vector<MemoryLog> memory;   // by rank; empty without keep_log
  std::vector<int> overrun_ranks;  // whose red zones were written: a tile left its views
};

class CpuExecutor {
 public:
  // Throws BadPlan if the plan cannot be executed, NotEnoughMemory. The plan outlives the executor.
  CpuExecutor(const Plan& plan, const CpuOptions& options);
  ~CpuExecutor();
  CpuExecutor(const CpuExecutor&) = delete;
  CpuExecutor& operator=(const CpuExecutor&) = delete;

  bool has(int rank, std::string_view buffer) const;
  // A whole buffer as [slots, rows, heads, width] in C order, whatever its layout and planes; values are
  // rounded to its dtype. Throws BadPlan if the rank has no such buffer, std::invalid_argument if the size
  // is wrong.
  void write(int rank, std::string_view buffer, std::span<const double> values);
  std::vector<double> read(int rank, std::string_view buffer) const;

  // Inputs are to be written before. Throws BadPlan and ExecutionHang; what was computed until then can still
  // be read.
  ExecutionResult run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cplab
