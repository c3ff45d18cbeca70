// Executes a plan on the CPU: all ranks and lanes in one thread, one ready operation or data movement after
// the other; a large tile of attention takes all cores. Any of the ready ones may come next, so every order
// that the plan permits can be produced; a plan that lacks an edge gives a wrong number in some of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/bind.hpp"
#include "exec/executor.hpp"
#include "kernels/kernels.hpp"
#include "plan/plan.hpp"

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
  const kernels::Tiles* tiles = nullptr;               // null: kernels::cpu_tiles()
  const kernels::LinearTiles* linear_tiles = nullptr;  // null: kernels::cpu_linear_tiles()
  double timeout_s = 600;                              // for all repetitions together
  int warmup = 0;                                      // repetitions before those that are timed
  int iterations = 1;
  bool keep_log = true;  // MemoryLog of the first repetition
  // Called after every operation with those done and all, of all ranks and repetitions together.
  std::function<void(std::int64_t done, std::int64_t all)> progress;
};

// ExecutionResult::timeline is that of the repetition whose time is the (lower) median.
class CpuExecutor final : public Executor {
 public:
  // Throws BadPlan if the plan cannot be executed, NotEnoughMemory. The plan outlives the executor.
  CpuExecutor(const Plan& plan, const CpuOptions& options);
  ~CpuExecutor() override;
  CpuExecutor(const CpuExecutor&) = delete;
  CpuExecutor& operator=(const CpuExecutor&) = delete;

  bool has(int rank, std::string_view buffer) const override;
  void write(int rank, std::string_view buffer, std::span<const double> values) override;
  std::vector<double> read(int rank, std::string_view buffer) const override;
  ExecutionResult run() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cplab
