// Which slow kernels a plan or a build has, for commands that have no clock: check and kernels.
#pragma once

#include <string>
#include <vector>

#include "cli/files/scenario_file.hpp"
#include "kernels/families/variants.hpp"
#include "plan/plan.hpp"

namespace cplab {

// The notes of `run` and `simulate` (report/variants.hpp) about slower kernels, of the first ranks, on the
// GPU of the scenario's machine, or else on one of compute capability 9.0; or why `run` refuses the plan
// there. Of a plan that is right.
std::vector<std::string> kernel_notes(const ScenarioFile&, const Plan&);

// Which head sizes have kernels on tensor cores in that build, and how much slower all others are; a
// sentence for forward and backward each, and one about fp64.
std::vector<std::string> head_size_notes(const kernels::cuda::KernelBuild&);

}  // namespace cplab
