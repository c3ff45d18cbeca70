// Scenario files that are right: what every key becomes, defaults, groups, sizes, --set, look-up of files.
#include "cli/files/scenario_file.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "tests/cli/program.hpp"

using namespace cplab;

namespace {

const char* const minimal = R"([problem]
batch = 3
sequence = "2K"
heads = 8
head_size = 64
dtype = "bf16"
mask = "causal"
[parallel]
ranks = 4
algorithm = "p2p"
)";

ScenarioFile parse(const std::string& text, const std::vector<std::string>& sets = {}) {
  setenv("CPLAB_SCENARIOS", CPLAB_TEST_SCENARIOS, 1);
  return parse_scenario(text, "x.toml", sets);
}

}  // namespace

TEST_CASE("scenario defaults") {
  const ScenarioFile file = parse(minimal);
  const Problem& problem = file.scenario.problem;
  CHECK(problem.attention == Attention::softmax);
  CHECK(problem.format == Format::bshd);
  CHECK_FALSE(problem.packed);
  CHECK(problem.batch == 3);
  CHECK(problem.sequence == 2048);
  CHECK(problem.lengths == std::vector<std::int64_t>(3, 2048));
  CHECK(problem.padded_lengths == problem.lengths);
  CHECK(problem.heads == 8);
  CHECK(problem.kv_heads == 8);
  CHECK(problem.head_size == 64);
  CHECK(problem.value_size == 64);
  CHECK(problem.dtype == DType::bf16);
  CHECK(problem.causal);
  CHECK(problem.window == Window{-1, -1});
  CHECK(problem.scale == 0.125);
  CHECK(problem.direction == Direction::forward_backward);
  CHECK(file.scenario.parallel.ranks == 4);
  CHECK(file.scenario.parallel.replicas == 1);
  CHECK(file.scenario.parallel.groups == std::vector<std::vector<int>>{{0, 1, 2, 3}});
  CHECK(file.scenario.algorithm == "ring");  // the alias resolved
  CHECK_FALSE(file.scenario.placement.empty());
  CHECK(file.scenario.schedule.find("kv_slots") != nullptr);  // the algorithm's defaults filled in
  CHECK_FALSE(file.simulate.stepwise);
  CHECK_FALSE(file.simulate.cuda_graph);
  CHECK(file.simulate.run_ahead == 0);
  CHECK(file.simulate.engine == FlowEngineChoice::automatic);
  CHECK(file.hardware.empty());
}

TEST_CASE("scenario with every key") {
  const ScenarioFile file = parse(R"(
[problem]
attention = "softmax"
lengths = ["1K", 0, 7]
padded_lengths = [1024, 0, 16]
heads = 8
kv_heads = 2
head_size = 16
value_size = 32
dtype = "fp64"
format = "thd"
mask = "full"
window = [5, -1]
scale = 0.5
direction = "forward"
[parallel]
ranks = 2
replicas = 3
groups = "strided"
algorithm = "ring"
placement = "head-tail"
[schedule]
kv_slots = "all"
overlap = false
compute_lanes = 1
[simulate]
collective_model = "stepwise"
cuda_graph = true
run_ahead = 12
engine = "simgrid"
)");
  const Problem& problem = file.scenario.problem;
  CHECK(problem.packed);
  CHECK(problem.format == Format::thd);
  CHECK(problem.batch == 0);
  CHECK(problem.lengths == std::vector<std::int64_t>{1024, 0, 7});
  CHECK(problem.padded_lengths == std::vector<std::int64_t>{1024, 0, 16});
  CHECK(problem.kv_heads == 2);
  CHECK(problem.value_size == 32);
  CHECK(problem.dtype == DType::fp64);
  CHECK_FALSE(problem.causal);
  CHECK(problem.window == Window{5, -1});
  CHECK(problem.scale == 0.5);
  CHECK(problem.direction == Direction::forward);
  CHECK(file.scenario.parallel.groups == std::vector<std::vector<int>>{{0, 3}, {1, 4}, {2, 5}});
  CHECK(file.scenario.placement == "zigzag");
  CHECK(file.scenario.schedule.is_word("kv_slots", "all"));
  CHECK_FALSE(file.scenario.schedule.is_on("overlap"));
  CHECK(file.simulate.stepwise);
  CHECK(file.simulate.cuda_graph);
  CHECK(file.simulate.run_ahead == 12);
  CHECK(file.simulate.engine == FlowEngineChoice::simgrid);
}

TEST_CASE("scenario --set changes and adds keys") {
  const ScenarioFile file =
      parse(minimal, {"problem.sequence=4M", "parallel.replicas=2", "parallel.groups=[[0,2,4,6],[7,5,3,1]]",
                      "schedule.kv_slots=3", "problem.mask=full", "problem.format=thd",
                      "hardware.node.gpus=16", "hardware.gpu.name=\"x\""});
  CHECK(file.scenario.problem.sequence == 4 << 20);
  CHECK(file.scenario.parallel.groups == std::vector<std::vector<int>>{{0, 2, 4, 6}, {7, 5, 3, 1}});
  CHECK(file.scenario.schedule.count("kv_slots") == 3);
  CHECK_FALSE(file.scenario.problem.causal);
  CHECK(file.scenario.problem.format == Format::thd);  // without lengths: sequences in [B,S,...] files
  CHECK_FALSE(file.scenario.problem.packed);
  CHECK(file.hardware_overrides ==
        std::vector<std::pair<std::string, std::string>>{{"node.gpus", "16"}, {"gpu.name", "\"x\""}});
}

TEST_CASE("hardware files are looked up beside the scenario, then in scenarios/") {
  const TemporaryFolder folder;
  const std::string beside = folder.write("machines/mine.toml", "# mine\n");
  const std::string scenario =
      folder.write("s.toml", std::string(minimal) + "[hardware]\nfile = \"machines/mine.toml\"\n");
  setenv("CPLAB_SCENARIOS", CPLAB_TEST_SCENARIOS, 1);
  const ScenarioFile file = read_scenario(scenario, {});
  CHECK(file.hardware == beside);
  CHECK(file.hardware_given == "machines/mine.toml");
  const ScenarioFile shipped = read_scenario(scenario, {"hardware.file=hardware/h100x8.toml"});
  CHECK(shipped.hardware == std::string(CPLAB_TEST_SCENARIOS) + "/hardware/h100x8.toml");
  CHECK(shipped.hardware_overrides.empty());
}

TEST_CASE("scenarios are paths or names in scenarios/") {
  setenv("CPLAB_SCENARIOS", CPLAB_TEST_SCENARIOS, 1);
  CHECK(read_scenario("ring-small.toml", {}).scenario.parallel.ranks == 4);
  CHECK(read_scenario("ring-small", {}).scenario.parallel.ranks == 4);
  CHECK(read_scenario("faults/ring", {}).scenario.parallel.ranks == 4);
  CHECK(read_scenario(std::string(CPLAB_TEST_SCENARIOS) + "/ring-small.toml", {}).scenario.problem.batch ==
        2);
}

TEST_CASE("all shipped scenarios are read") {
  setenv("CPLAB_SCENARIOS", CPLAB_TEST_SCENARIOS, 1);
  std::size_t count = 0;
  for (const char* folder : {"", "faults"}) {
    for (const std::string& name : scenario_names(folder)) {
      CAPTURE(name);
      CHECK_NOTHROW(read_scenario(name, {}));
      ++count;
    }
  }
  CHECK(count >= 8);
}
