// What run and verify share: device, order, inputs.
#pragma once

#include "algorithms/problem.hpp"
#include "cli/arguments.hpp"
#include "cli/scenario_file.hpp"
#include "cli/tensors.hpp"
#include "exec/cpu_executor.hpp"

namespace cplab {

// Throws EnvironmentError for --device gpu, which this build does not have, with how to get on.
void require_cpu(const Arguments&, const char* default_device);

// --order and --timeout.
CpuOptions cpu_options(const Arguments&);

// Throws EnvironmentError before the execution of the plan and the tensors in global order would fill this
// machine's memory.
void require_memory(const ScenarioFile&, const Plan&);

// --inputs DIR, or random data from --seed.
Inputs inputs_of(const Arguments&, const Problem&);

}  // namespace cplab
