// Results of every rank, each row against the reference on its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/progress.hpp"
#include "cli/verify/roundings.hpp"
#include "cli/verify/row_sample.hpp"
#include "cli/verify/tensors.hpp"
#include "exec/executor.hpp"
#include "exec/gpu/executor.hpp"
#include "plan/finding.hpp"
#include "plan/plan.hpp"
#include "report/results.hpp"

namespace cplab {

struct VerifyResult {
  // For every rank the outputs of the problem (plan/tensors.hpp), then its states (states.hpp). rel_l2 and
  // tolerance are those of the head that uses most of its tolerance, max_abs is over all heads. Empty if the
  // execution did not end.
  std::vector<TensorFigures> tensors;
  // The checker's, then the execution's (a deadlock on the CPU, or what made the plan impossible to execute),
  // then one of kind numerics for every tensor that is not ok.
  std::vector<Finding> findings;
  std::optional<Outputs> outputs;    // in global order; unset if the execution did not end
  std::optional<Outputs> reference;  // what is right, likewise, if it was asked for
  std::optional<GpuRun> gpu;         // of an execution on GPUs that ended
  std::vector<std::string> notes;    // which kernels were slower ones, and why (report/variants.hpp)
  // The execution did not end, and that says nothing of the plan: the time was up, or a rank's process is
  // gone. What was waited for. There are no tensors then.
  std::optional<std::string> gave_up;
  bool ok() const { return findings.empty() && !gave_up; }
};

struct ComparisonOptions {
  // Results of somebody else (GivenResults): those that are there, no states, one max_logit for all replicas.
  const Outputs* given = nullptr;
  Outputs* reference = nullptr;         // is told what is right
  Progress* progress = nullptr;         // is told the stages
  const SampledRows* sample = nullptr;  // of tensors with tokens these rows alone
  bool on_gpu = false;                  // executed there (PlanRoundings::by_blocks)
  DeclaredSums sums = {};               // of results of somebody else
};

// The comparison alone, of a finished execution: appends to tensors and findings of `result`.
//
// A tensor is ok if for every head the relative error ||error|| / max(||reference||, ||terms||) is within
// its tolerance (cli/verify/tolerance.hpp), no single element is further off than its own tolerance, and
// nothing is NaN or of the wrong infinity.
void compare_with_reference(const Plan& plan, const Inputs& inputs, const Executor& executor,
                            VerifyResult& result, const ComparisonOptions& options = {});

}  // namespace cplab
