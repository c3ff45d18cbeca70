// Is the plan right? It is checked without a clock, executed, and every rank's results are compared with the
// double-precision reference (dense attention, or the recurrence of linear attention) on the rank's own rows;
// max_logit on every rank with that of its replica; states of linear attention at the edges of the rank.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "check/check.hpp"
#include "cli/progress.hpp"
#include "cli/verify/tensors.hpp"
#include "exec/cpu/executor.hpp"
#include "exec/gpu/executor.hpp"
#include "plan/plan.hpp"
#include "report/results.hpp"

namespace cplab {

struct VerifyOptions {
  CpuOptions execution;                          // order, tiles (a substitute's, for faults), timeout
  std::optional<GpuOptions> gpu = std::nullopt;  // on GPUs instead
  std::size_t max_findings = 100;
  Progress* progress = nullptr;  // is told the stages
};

struct VerifyResult {
  // For every rank the outputs of the problem (plan/tensors.hpp), then its states (states.hpp). rel_l2 and
  // tolerance are those of the head that uses most of its tolerance, max_abs is over all heads. Empty if the
  // execution did not end.
  std::vector<TensorFigures> tensors;
  // The checker's, then the execution's (a deadlock on the CPU, or what made the plan impossible to execute),
  // then one of kind numerics for every tensor that is not ok.
  std::vector<Finding> findings;
  std::optional<Outputs> outputs;  // in global order; unset if the execution did not end
  std::optional<GpuRun> gpu;       // of an execution on GPUs that ended
  // The execution did not end, and that says nothing of the plan: the time was up, or a rank's process is
  // gone. What was waited for. There are no tensors then.
  std::optional<std::string> gave_up;
  bool ok() const { return findings.empty() && !gave_up; }
};

// `inputs` as random_inputs or read_inputs give them. The plan is executed whatever the checker finds. Throws
// NotEnoughMemory, and GpuError if the machine cannot execute it.
VerifyResult verify(const Plan& plan, const Inputs& inputs, const VerifyOptions& options);

// hang.what(), which has a line for each rank, in one line: "...: rank 0: ...; rank 1: ...".
std::string one_sentence(const std::exception& hang);

// The comparison alone, of a finished execution: appends to tensors and findings of `result`.
//
// A tensor is ok if for every head the relative error ||error|| / max(||reference||, ||terms||) is within
// its tolerance (cli/verify/tolerance.hpp), no single element is further off than its own tolerance, and
// nothing is NaN or of the wrong infinity.
void compare_with_reference(const Plan& plan, const Inputs& inputs, const Executor& executor,
                            VerifyResult& result, Progress* progress = nullptr);

}  // namespace cplab
