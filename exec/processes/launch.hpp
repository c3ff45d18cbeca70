// Which ranks this process executes: all of them as threads, or one of several processes that torchrun,
// mpirun or srun started. Read from their environment variables; nothing is asked of MPI or SLURM itself.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace cplab {

// world is the number of processes, local_world how many of them are on this host. Without a launcher, or
// under one that started a single process, `processes` is false and the process executes all ranks of the
// plan: rank 0, world 1. master_address and master_port are where rank 0 listens for the others (exec/
// rendezvous); empty and 0 when there are no others. A launch on one host always meets on 127.0.0.1.
struct Launch {
  int rank = 0;
  int world = 1;
  int local_rank = 0;
  int local_world = 1;
  std::string master_address;
  int master_port = 0;     // ours: CPLAB_PORT, else MASTER_PORT + 1 (torchrun holds MASTER_PORT), else 29511
  bool processes = false;  // one process per rank
  std::string source;      // "torchrun", "mpirun", "srun", "none"
  std::string job;         // the launcher's name of this run, to tell it from an older one on the same port
  // CPLAB_TOKEN: a process that does not present it is refused. Empty: all ranks are on this host, and rank 0
  // makes one that only processes of its user can read (exec/processes/shared_token).
  std::string token;
};

// A variable is missing, no number, or contradicts another; what() names it.
struct LaunchError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Like std::getenv: null if the variable is not set. An empty value counts as not set.
using Environment = std::function<const char*(const char* name)>;

// Looks for torchrun's variables first, then mpirun's (Open MPI, then Hydra: MPICH and Intel MPI), then
// srun's, because the outer launcher's variables are inherited by the inner one's processes. Variables of a
// SLURM allocation alone (no SLURM_STEP_ID: a batch script or an interactive shell) start no processes.
// Several hosts need CPLAB_TOKEN. Throws LaunchError.
Launch discover_launch(const Environment& environment);
Launch discover_launch();  // of this process

}  // namespace cplab
