// What executes a plan, whatever the device: tensors in and out of every rank's buffers, and timed runs.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/memory_log.hpp"
#include "report/figures.hpp"
#include "report/timeline.hpp"

namespace cplab {

// The execution cannot go on: nothing is ready although the plan is not finished, the timeout has passed, or
// the process of a rank is gone. what() has a line for each rank.
struct ExecutionHang : std::runtime_error {
  ExecutionHang(bool timed_out_, std::vector<int> ranks_, std::vector<std::string> operations_,
                const std::string& message)
      : std::runtime_error(message),
        timed_out(timed_out_),
        ranks(std::move(ranks_)),
        operations(std::move(operations_)) {}
  bool timed_out;
  std::vector<int> ranks;               // global, unfinished
  std::vector<std::string> operations;  // by entry of `ranks`: the id of the operation it waits in
};

// The arenas do not fit into the memory of this machine, or of its GPUs.
struct NotEnoughMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct ExecutionResult {
  std::vector<double> times_s;  // per timed repetition
  double time_s = 0;            // their median
  // Of the timed repetitions without events between operations: medians of the seconds until the forward had
  // ended on all ranks, and of those after. Empty where there is one phase, or nobody watched (a CUDA graph).
  std::vector<PhaseTime> phases;
  Timeline timeline;               // of one repetition (each executor says which)
  std::vector<MemoryLog> memory;   // by rank; empty unless asked for
  std::vector<int> overrun_ranks;  // whose red zones were written: a kernel wrote outside its views
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual bool has(int rank, std::string_view buffer) const = 0;
  // A whole buffer as [slots, rows, heads, width] in C order, whatever its layout and planes; values are
  // rounded to its dtype. Throws BadPlan if the rank has no such buffer, std::invalid_argument if the size
  // is wrong.
  virtual void write(int rank, std::string_view buffer, std::span<const double> values) = 0;
  virtual std::vector<double> read(int rank, std::string_view buffer) const = 0;
  // Inputs are to be written before. Throws BadPlan and ExecutionHang; what was computed until then can still
  // be read.
  virtual ExecutionResult run() = 0;
};

}  // namespace cplab
