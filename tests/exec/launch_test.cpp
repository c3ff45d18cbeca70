// Discovery of ranks: what each launcher sets, what a mere allocation sets, and what is refused by name.
#include "exec/processes/launch.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <tuple>

#include "tests/contains.hpp"

namespace cplab {
namespace {

using testing::contains;
using Variables = std::map<std::string, std::string>;

// Launches over several hosts need a token: this one, unless the variables have another.
const std::string usual_token = "0123456789abcdef";

Launch discover(const Variables& variables) {
  return discover_launch([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    if (found == variables.end() && name == std::string("CPLAB_TOKEN")) return usual_token.c_str();
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

// The message of the LaunchError, "" if there is none.
std::string launch_refusal(const Variables& variables) {
  try {
    discover(variables);
  } catch (const LaunchError& error) {
    return error.what();
  }
  return "";
}

Variables with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

const Variables torchrun = {{"RANK", "5"},
                            {"WORLD_SIZE", "8"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "4"},
                            {"MASTER_ADDR", "node7"},
                            {"MASTER_PORT", "29400"}};
const Variables mpirun = {{"OMPI_COMM_WORLD_RANK", "3"},
                          {"OMPI_COMM_WORLD_SIZE", "4"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Variables srun = {{"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "2"}, {"SLURM_PROCID", "2"},
                        {"SLURM_NTASKS", "4"},  {"SLURM_LOCALID", "2"}, {"SLURM_NNODES", "1"},
                        {"SLURM_NODEID", "0"}};
const Variables srun_nodes = {{"SLURM_STEP_ID", "0"},
                              {"SLURM_PROCID", "9"},
                              {"SLURM_NTASKS", "11"},
                              {"SLURM_LOCALID", "1"},
                              {"SLURM_NNODES", "3"},
                              {"SLURM_NODEID", "2"},
                              {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"},
                              {"MASTER_ADDR", "n0"}};

TEST_CASE("without a launcher one process has all ranks") {
  const Launch launch = discover({{"MASTER_ADDR", "somewhere"}, {"MASTER_PORT", "1234"}});
  CHECK(launch.source == "none");
  CHECK_FALSE(launch.processes);
  CHECK(launch.rank == 0);
  CHECK(launch.world == 1);
  CHECK(launch.local_world == 1);
  CHECK(launch.master_address.empty());
}

TEST_CASE("torchrun's variables") {
  const Launch launch = discover(torchrun);
  CHECK(launch.source == "torchrun");
  CHECK(launch.processes);
  CHECK(launch.rank == 5);
  CHECK(launch.world == 8);
  CHECK(launch.local_rank == 1);
  CHECK(launch.local_world == 4);
  CHECK(launch.master_address == "node7");
  CHECK(launch.master_port == 29401);  // torchrun itself listens at MASTER_PORT
  CHECK(discover(with(torchrun, {{"CPLAB_PORT", "4000"}})).master_port == 4000);
  CHECK(discover(with(torchrun, {{"MASTER_PORT", ""}})).master_port == 29511);

  // One host meets on its loopback interface, whatever it calls itself.
  CHECK(discover(with(torchrun, {{"LOCAL_WORLD_SIZE", "8"}})).master_address == "127.0.0.1");

  const Launch one = discover({{"RANK", "0"},
                               {"WORLD_SIZE", "1"},
                               {"LOCAL_RANK", "0"},
                               {"LOCAL_WORLD_SIZE", "1"},
                               {"MASTER_PORT", "29400"}});
  CHECK_FALSE(one.processes);

  // Launches that share a port are told apart, and so are a launch and its restart.
  const Variables run = with(torchrun, {{"TORCHELASTIC_RUN_ID", "a"}, {"TORCHELASTIC_RESTART_COUNT", "0"}});
  CHECK(discover(run).job == discover(with(run, {{"RANK", "6"}})).job);
  CHECK(discover(run).job != discover(with(run, {{"TORCHELASTIC_RUN_ID", "b"}})).job);
  CHECK(discover(run).job != discover(with(run, {{"TORCHELASTIC_RESTART_COUNT", "1"}})).job);
}

TEST_CASE("mpirun's variables") {
  const Launch launch = discover(mpirun);
  CHECK(launch.source == "mpirun");
  CHECK(launch.processes);
  CHECK(launch.rank == 3);
  CHECK(launch.world == 4);
  CHECK(launch.local_rank == 3);
  CHECK(launch.local_world == 4);
  CHECK(launch.master_address == "127.0.0.1");
  CHECK(launch.master_port == 29511);

  const Variables nodes =
      with(mpirun, {{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  CHECK(contains(launch_refusal(nodes), "MASTER_ADDR is not set; set it"));
  CHECK(discover(with(nodes, {{"MASTER_ADDR", "10.0.0.1"}})).master_address == "10.0.0.1");

  const Launch hydra =
      discover({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  CHECK(hydra.source == "mpirun");
  CHECK(hydra.rank == 1);
  CHECK(hydra.world == 2);
}

TEST_CASE("srun's variables, and those of a mere allocation") {
  const Launch launch = discover(srun);
  CHECK(launch.source == "srun");
  CHECK(launch.processes);
  CHECK(launch.rank == 2);
  CHECK(launch.world == 4);
  CHECK(launch.local_rank == 2);
  CHECK(launch.local_world == 4);
  CHECK(launch.master_address == "127.0.0.1");
  CHECK(launch.job == "77.2");

  const Launch nodes = discover(srun_nodes);
  CHECK(nodes.local_world == 3);
  CHECK(nodes.local_rank == 1);
  CHECK(nodes.master_address == "n0");
  CHECK(discover(with(srun_nodes, {{"SLURM_NODEID", "1"}})).local_world == 4);
  CHECK(contains(launch_refusal(with(srun_nodes, {{"MASTER_ADDR", ""}})), "MASTER_ADDR is not set; set it"));
  CHECK(contains(launch_refusal(with(srun_nodes, {{"SLURM_STEP_TASKS_PER_NODE", ""}})),
                 "SLURM_STEP_TASKS_PER_NODE"));
  CHECK(contains(launch_refusal(with(srun_nodes, {{"SLURM_STEP_TASKS_PER_NODE", "4(x2"}})),
                 "SLURM_STEP_TASKS_PER_NODE"));
  CHECK(contains(launch_refusal(with(srun_nodes, {{"SLURM_STEP_TASKS_PER_NODE", "4,"}})),
                 "SLURM_STEP_TASKS_PER_NODE"));
  CHECK(contains(launch_refusal(with(srun_nodes, {{"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}})), "SLURM_NODEID"));

  CHECK_FALSE(discover(with(srun, {{"SLURM_STEP_ID", ""}})).processes);            // a batch script
  CHECK_FALSE(discover(with(srun, {{"SLURM_STEP_ID", "4294967290"}})).processes);  // a shell of salloc
  CHECK_FALSE(discover(with(srun, {{"SLURM_NTASKS", "1"}})).processes);
  CHECK_FALSE(discover(with(srun, {{"SLURM_STEP_NUM_TASKS", "1"}})).processes);
}

TEST_CASE("the launcher within another one decides") {
  CHECK(discover(with(srun, torchrun)).source == "torchrun");
  CHECK(discover(with(srun, mpirun)).source == "mpirun");
  // SLURM's PMI sets these for its tasks, and in a batch script they mean nothing.
  CHECK(discover(with(srun, {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}})).source == "srun");
  CHECK(discover({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}}).source == "none");
}

TEST_CASE("a launch over several hosts needs a token, one on a single host makes its own") {
  CHECK(discover(torchrun).token == usual_token);
  for (const Variables& nodes : {torchrun, srun_nodes}) {
    const std::string message = launch_refusal(with(nodes, {{"CPLAB_TOKEN", ""}}));
    CHECK(contains(message, "CPLAB_TOKEN is not set"));
    CHECK(contains(message, "runs on several hosts"));
    CHECK(contains(message, "export CPLAB_TOKEN=$(openssl rand -hex 16)"));
  }
  const Variables here = with(torchrun, {{"LOCAL_WORLD_SIZE", "8"}});
  CHECK(discover(with(here, {{"CPLAB_TOKEN", ""}})).token.empty());
  CHECK(discover(here).token == usual_token);
  for (const std::size_t length : {std::size_t{1}, std::size_t{15}, std::size_t{257}}) {
    const std::string message = launch_refusal(with(here, {{"CPLAB_TOKEN", std::string(length, 'x')}}));
    CHECK(contains(message, "CPLAB_TOKEN has " + std::to_string(length) + " characters; 16 to 256"));
    CHECK_FALSE(contains(message, "xx"));  // it is a secret
  }
  CHECK(discover(with(here, {{"CPLAB_TOKEN", std::string(256, 'x')}})).token.size() == 256);
  CHECK(contains(launch_refusal(with(here, {{"TORCHELASTIC_RUN_ID", std::string(2000, 'j')}})),
                 "name of this run has 2002 characters"));
}

TEST_CASE("variables that are wrong are named") {
  for (const auto& [scheme, name, value] :
       std::initializer_list<std::tuple<Variables, const char*, const char*>>{
           {torchrun, "RANK", "8"},
           {torchrun, "RANK", "-1"},
           {torchrun, "RANK", "two"},
           {torchrun, "RANK", "2x"},
           {torchrun, "RANK", ""},
           {torchrun, "WORLD_SIZE", "0"},
           {torchrun, "WORLD_SIZE", ""},
           {torchrun, "LOCAL_RANK", "4"},
           {torchrun, "LOCAL_RANK", ""},
           {torchrun, "LOCAL_WORLD_SIZE", "9"},
           {torchrun, "LOCAL_WORLD_SIZE", "99999999999"},
           {torchrun, "MASTER_PORT", "65535"},
           {torchrun, "MASTER_PORT", "http"},
           {torchrun, "MASTER_ADDR", ""},
           {torchrun, "CPLAB_PORT", "0"},
           {torchrun, "CPLAB_PORT", "65536"},
           {mpirun, "OMPI_COMM_WORLD_SIZE", ""},
           {mpirun, "OMPI_COMM_WORLD_LOCAL_RANK", " 3"},
           {srun, "SLURM_PROCID", "4"},
           {srun, "SLURM_LOCALID", ""},
           {srun, "SLURM_NTASKS", "0"},
           {srun, "SLURM_NNODES", "one"}}) {
    CAPTURE(name);
    CAPTURE(value);
    CHECK(contains(launch_refusal(with(scheme, {{name, value}})), name));
  }
}

}  // namespace
}  // namespace cplab
