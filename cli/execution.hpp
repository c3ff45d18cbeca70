// What run and verify share: device, order, inputs.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/arguments.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/verify/tensors.hpp"
#include "exec/cpu/executor.hpp"
#include "exec/gpu/executor.hpp"
#include "exec/processes/rendezvous.hpp"
#include "plan/plan.hpp"
#include "plan/problem.hpp"

namespace cplab {

// --device. Throws EnvironmentError for gpu if this build has no GPU device, with how to get on.
bool on_gpu(const Arguments&, const char* default_device);

// How this process takes part: alone with all ranks, or with one rank of several processes (torchrun, mpirun,
// srun), of which rank 0 speaks.
struct Participation {
  std::unique_ptr<Rendezvous> rendezvous;  // null: alone
  int local_rank = 0, local_world = 1;
  bool speaks() const { return rendezvous == nullptr || rendezvous->rank() == 0; }
};
// Throws EnvironmentError if the others do not come.
Participation participate(double timeout_s);

// How long a GPU that was idle runs before it is measured: until its clocks are those of one under load.
constexpr double clocks_settle_s = 0.4;

int ranks_per_gpu(const Arguments&);  // --ranks-per-gpu

// Throws InputError for what only the CPU executes.
void require_gpu_kernels(const Problem&);

// --ranks-per-gpu, --allocator, --jitter, --timeout. `with` outlives the execution.
GpuOptions gpu_options(const Arguments&, const Participation& with);
double timeout_of(const Arguments&);  // without the option: of meetings

// --timeout of an execution; without it 300 s and what slow tiles would take for the plan's FLOPs and
// operations, so often.
double time_limit(const Arguments&, const Plan&, bool gpu, int repetitions);
// "the time is up after 12 of 40 operations; ...": with the limit, and how to move it.
std::string out_of_time(const Arguments&, double limit_s, const std::string& what);

// Executes on inputs that are made on the GPUs, in no global order: for runs whose results nobody reads.
ExecutionResult run_with_random_inputs(const Plan&, std::uint64_t seed, GpuExecutor&);

// What transport = "auto" decides by, of the GPUs that the ranks will have. Throws EnvironmentError.
void take_islands(const Arguments&, const Participation&, ScenarioFile&);

// --order; the time limit is to be set when the plan is known.
CpuOptions cpu_options(const Arguments&);

// --save names the folder of --inputs.
bool saves_into_inputs(const Arguments&);

// What of --inputs DIR is not read (dout of a forward pass, other files), and which options of the schedule
// set for this command have no meaning on the CPU: a sentence each, into the notes of the file.
void note_unused_of_execution(const Arguments&, bool gpu, ScenarioFile&);

// --inputs DIR, or random data from --seed that can see what the problem asks for; what of it they cannot see
// is said.
Inputs inputs_of(const Arguments&, const Problem&, const std::function<void(const std::string&)>& note);

}  // namespace cplab
