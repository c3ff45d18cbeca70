// The variables of each launcher, and what must hold among them.
#include "exec/processes/launch.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "exec/processes/frame.hpp"

namespace cplab {
namespace {

constexpr int default_port = 29511;
constexpr int max_port = 65535;

[[noreturn]] void refuse(const std::string& message) {
  throw LaunchError("launch: " + message);
}

// The environment as checked numbers and texts.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  std::optional<std::string> text(const char* name) const {
    const char* value = environment_(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  }
  bool has(const char* name) const { return text(name).has_value(); }

  std::optional<int> number(const char* name, int least, int most) const {
    const std::optional<std::string> value = text(name);
    if (!value) return std::nullopt;
    int result = 0;
    const char* end = value->data() + value->size();
    const auto [stop, error] = std::from_chars(value->data(), end, result);
    if (error != std::errc() || stop != end)
      refuse(std::string(name) + " is \"" + *value + "\", which is no whole number");
    if (result < least || result > most)
      refuse(std::string(name) + " is " + *value + "; it must be from " + std::to_string(least) + " to " +
             std::to_string(most));
    return result;
  }

  int required(const char* name, int least, int most, const char* launcher) const {
    const std::optional<int> value = number(name, least, most);
    if (!value) refuse(std::string(name) + " is not set, though other variables of " + launcher + " are");
    return *value;
  }

 private:
  const Environment& environment_;
};

constexpr int many = wire::max_ranks;  // larger values are a mistake: no machine has so many processes
constexpr std::size_t least_token = 16;

// A launcher that says all four numbers by name.
struct Scheme {
  const char* source;
  const char* launcher;
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;
  std::array<const char*, 2> job;  // the second tells restarts of one job apart
  bool any_variable;               // one of the four is enough to mean this launcher
};

constexpr std::array<Scheme, 2> outer_schemes = {{
    {"torchrun",
     "torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
     true},
    {"mpirun",
     "Open MPI's mpirun",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
     true},
}};
// SLURM's own PMI sets PMI_RANK and PMI_SIZE too: only Hydra counts the processes of a host.
constexpr Scheme hydra = {"mpirun",          "Hydra's mpirun",  "PMI_RANK",         "PMI_SIZE",
                          "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {nullptr, nullptr}, false};

bool applies(const Variables& variables, const Scheme& scheme) {
  if (!scheme.any_variable) return variables.has(scheme.local_world);
  for (const char* name : {scheme.rank, scheme.world, scheme.local_rank, scheme.local_world})
    if (variables.has(name)) return true;
  return false;
}

Launch read(const Variables& variables, const Scheme& scheme) {
  Launch launch;
  launch.source = scheme.source;
  launch.world = variables.required(scheme.world, 1, many, scheme.launcher);
  launch.rank = variables.required(scheme.rank, 0, launch.world - 1, scheme.launcher);
  launch.local_world = variables.required(scheme.local_world, 1, launch.world, scheme.launcher);
  launch.local_rank = variables.required(scheme.local_rank, 0, launch.local_world - 1, scheme.launcher);
  for (const char* name : scheme.job)
    if (name != nullptr) launch.job += variables.text(name).value_or("") + "/";
  return launch;
}

// SLURM_STEP_TASKS_PER_NODE, such as "4(x2),3": the tasks of node `node` of the step.
int tasks_of_node(std::string_view text, int node) {
  const std::string whole(text);
  const auto malformed = [&] { refuse("SLURM_STEP_TASKS_PER_NODE is \"" + whole + "\", not like 4(x2),3"); };
  const auto take = [&](int& value) {
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value < 1) malformed();
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  };
  int first = 0;  // node of the run being read
  while (true) {
    int tasks = 0;
    int nodes = 1;
    take(tasks);
    if (text.starts_with("(x")) {
      text.remove_prefix(2);
      take(nodes);
      if (!text.starts_with(")")) malformed();
      text.remove_prefix(1);
    }
    if (node - first < nodes) return tasks;
    first += nodes;
    if (text.empty())
      refuse("SLURM_NODEID is " + std::to_string(node) + ", but SLURM_STEP_TASKS_PER_NODE \"" + whole +
             "\" has " + std::to_string(first) + " nodes");
    if (!text.starts_with(",")) malformed();
    text.remove_prefix(1);
  }
}

// SLURM_INTERACTIVE_STEP of slurm.h: the shell that salloc opens; it has an id but started no tasks of ours.
constexpr std::string_view interactive_step = "4294967290";

std::optional<Launch> read_slurm(const Variables& variables) {
  const std::optional<std::string> step = variables.text("SLURM_STEP_ID");
  if (!step || *step == interactive_step) return std::nullopt;
  Launch launch;
  launch.source = "srun";
  // Both name the step's tasks within a step; SLURM_NTASKS may be the allocation's in one that narrows it.
  const char* world = variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  launch.world = variables.required(world, 1, many, "srun");
  if (launch.world == 1) return launch;
  launch.rank = variables.required("SLURM_PROCID", 0, launch.world - 1, "srun");
  std::optional<int> nodes;
  for (const char* name : {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"})
    if (!nodes) nodes = variables.number(name, 1, many);
  launch.local_world = launch.world;
  if (nodes.value_or(1) > 1) {
    const std::optional<std::string> tasks = variables.text("SLURM_STEP_TASKS_PER_NODE");
    if (!tasks) refuse("SLURM_STEP_TASKS_PER_NODE is not set, though srun runs on several nodes");
    launch.local_world = tasks_of_node(*tasks, variables.required("SLURM_NODEID", 0, *nodes - 1, "srun"));
    if (launch.local_world > launch.world)
      refuse("SLURM_STEP_TASKS_PER_NODE is \"" + *tasks + "\", more than the " +
             std::to_string(launch.world) + " tasks of " + world);
  }
  launch.local_rank = variables.required("SLURM_LOCALID", 0, launch.local_world - 1, "srun");
  launch.job = variables.text("SLURM_JOB_ID").value_or("") + "." + *step;
  return launch;
}

int port_of(const Variables& variables) {
  if (const auto port = variables.number("CPLAB_PORT", 1, max_port)) return *port;
  if (const auto port = variables.number("MASTER_PORT", 1, max_port - 1)) return *port + 1;
  return default_port;
}

constexpr const char* make_token =
    "; for example: export CPLAB_TOKEN=$(openssl rand -hex 16) where the job is submitted (torchrun: the "
    "same "
    "on every node; Open MPI's mpirun: with -x CPLAB_TOKEN)";

std::string token_of(const Variables& variables, const Launch& launch) {
  const std::optional<std::string> token = variables.text("CPLAB_TOKEN");
  if (!token) {
    if (launch.local_world == launch.world) return "";
    refuse("CPLAB_TOKEN is not set; " + launch.source +
           " runs on several hosts, and without a secret of the launch anybody in their network could take a "
           "rank of it. Set it to the same 16 to 256 characters for all processes" +
           make_token);
  }
  if (token->size() < least_token || token->size() > wire::max_token_bytes)
    refuse("CPLAB_TOKEN has " + std::to_string(token->size()) + " characters; 16 to 256 are needed" +
           make_token);
  return *token;
}

}  // namespace

Launch discover_launch(const Environment& environment) {
  const Variables variables(environment);
  std::optional<Launch> found;
  for (const Scheme& scheme : outer_schemes)
    if (!found && applies(variables, scheme)) found = read(variables, scheme);
  if (!found) found = read_slurm(variables);
  if (!found && applies(variables, hydra)) found = read(variables, hydra);
  if (!found) {
    Launch alone;
    alone.source = "none";
    return alone;
  }
  Launch launch = *found;
  if (launch.world == 1) return launch;

  launch.processes = true;
  launch.master_port = port_of(variables);
  if (launch.local_world == launch.world) {
    launch.master_address = "127.0.0.1";
  } else if (const std::optional<std::string> address = variables.text("MASTER_ADDR")) {
    launch.master_address = *address;
  } else {
    refuse("MASTER_ADDR is not set; set it to the host name or address of rank 0, because " + launch.source +
           " runs on several hosts");
  }
  launch.token = token_of(variables, launch);
  if (launch.job.size() > wire::max_job_bytes)
    refuse("the launcher's name of this run has " + std::to_string(launch.job.size()) +
           " characters; at most " + std::to_string(wire::max_job_bytes) + " are taken");
  return launch;
}

Launch discover_launch() {
  return discover_launch([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace cplab
