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
#include "cli/verify/comparison.hpp"
#include "cli/verify/row_sample.hpp"
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
  Progress* progress = nullptr;         // is told the stages
  bool reference = false;               // is wanted in the result
  const SampledRows* sample = nullptr;  // null: all rows are compared
};

// `inputs` as random_inputs or read_inputs give them. The plan is executed whatever the checker finds. Throws
// NotEnoughMemory, and GpuError if the machine cannot execute it.
VerifyResult verify(const Plan& plan, const Inputs& inputs, const VerifyOptions& options);

// hang.what(), which has a line for each rank, in one line: "...: rank 0: ...; rank 1: ...".
std::string one_sentence(const std::exception& hang);

// The caller's own results against the reference, nothing executed: `given` in global order, as read_outputs
// gives them. Tolerances are those of `plan`, whose ranks say where a finding is, with `sums` beside it.
VerifyResult verify_given(const Plan& plan, const Inputs& inputs, Outputs given, Progress* progress,
                          const SampledRows* sample = nullptr, const DeclaredSums& sums = {});

}  // namespace cplab
