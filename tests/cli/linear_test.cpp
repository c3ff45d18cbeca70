// Linear attention through the program: files in and out, states in the results, plans that are read back.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/files/scenario_file.hpp"
#include "cli/verify/npy.hpp"
#include "cli/verify/tensors.hpp"
#include "tests/cli/program.hpp"

using nlohmann::json;
using namespace cplab;

namespace {

std::string linear_scenario(const std::string& transition, const std::string& algorithm) {
  return "[problem]\nattention = \"linear\"\ntransition = \"" + transition +
         "\"\nlengths = [21, 0, 30]\npadded_lengths = [24, 3, 30]\nheads = 2\nhead_size = 8\nvalue_size = 4\n"
         "dtype = \"bf16\"\nmask = \"causal\"\n[parallel]\nranks = 3\nalgorithm = \"" +
         algorithm + "\"\n";
}

void write_inputs(const std::string& scenario, const std::string& folder) {
  const Problem p = read_scenario(scenario, {}).scenario.problem;
  std::filesystem::create_directories(folder);
  const Inputs inputs = random_inputs(p, 4);
  for (const ProblemTensor& tensor : tensors_of(p, Category::input)) {
    const Tensor& values = inputs[tensor.name];
    std::ofstream(folder + "/" + npy_file(tensor.name), std::ios::binary)
        << format_npy(values.shape, values.values, false);
  }
}

}  // namespace

TEST_CASE("linear attention: verify reads and writes its tensors, and compares states that no file holds") {
  const TemporaryFolder folder;
  const std::string file = folder.write("x.toml", linear_scenario("matrix", "affine_all_gather"));
  const std::string in = folder.path("in"), out = folder.path("out");
  write_inputs(file, in);
  const ProgramResult result = run_cplab({"verify", file, "--inputs", in, "--save", out, "--json", "-"});
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const json report = json::parse(result.out);
  std::set<std::string> names, files;
  for (const json& tensor : report.at("tensors")) names.insert(tensor.at("tensor"));
  CHECK(names == std::set<std::string>{"out", "dq", "dk", "dv", "dg", "dbeta", "state", "dstate"});
  for (const auto& each : std::filesystem::directory_iterator(out + "/reference"))
    files.insert(each.path().filename());
  CHECK(files == std::set<std::string>{"out.npy", "dq.npy", "dk.npy", "dv.npy", "dg.npy", "dbeta.npy"});
  for (const std::string& name : files) CHECK(std::filesystem::exists(out + "/" + name));
  using Shape = std::vector<std::int64_t>;
  CHECK(read_npy(out + "/dg.npy").shape == Shape{57, 2, 8});
  CHECK(read_npy(out + "/dbeta.npy").shape == Shape{57, 2});
  CHECK(read_npy(out + "/dbeta.npy").values[2 * 22] == 0);  // padding

  std::filesystem::remove(in + "/beta.npy");
  const ProgramResult missing = run_cplab({"verify", file, "--inputs", in});
  CHECK(missing.code == 2);
  CHECK(missing.err.find("beta.npy: no such file") != std::string::npos);
  const ProgramResult unused = run_cplab({"verify", file, "--inputs", in, "--set", "problem.transition=decay",
                                          "--set", "parallel.algorithm=lasp_fuse"});
  CHECK(unused.code == 0);
  CHECK(unused.err.find("--inputs: not read: log_decay.npy") != std::string::npos);
}

TEST_CASE("linear attention: a plan is written and read back with its slopes and transition") {
  const TemporaryFolder folder;
  for (const auto& [transition, algorithm] :
       {std::pair{"decay", "lasp_blelloch"}, {"column", "affine_all_gather"}}) {
    const std::string file = folder.write("x.toml", linear_scenario(transition, algorithm));
    const std::string plan = folder.path("plan.json");
    REQUIRE(run_cplab({"show", file, "--json", plan}).code == 0);
    const json problem = json::parse(read_file(plan)).at("scenario").at("problem");
    CHECK(problem.at("transition") == transition);
    CHECK_FALSE(problem.contains("scale"));
    CHECK(problem.at("slopes").size() == (std::string(transition) == "decay" ? 2u : 0u));
    const ProgramResult verified = run_cplab({"verify", "--plan", plan});
    CAPTURE(verified.err);
    CHECK(verified.code == 0);
    CHECK(verified.out.find("linear attention (" + std::string(transition) + ")") != std::string::npos);
    CHECK(verified.out.find("equal to the recurrence in double within tolerance") != std::string::npos);
    json scaled = json::parse(read_file(plan));
    scaled["scenario"]["problem"]["scale"] = 2;
    const ProgramResult refused = run_cplab({"check", "--plan", folder.write("scaled.json", scaled.dump())});
    CHECK(refused.code == 2);
    CHECK(refused.err.find("linear attention has no scale") != std::string::npos);
  }
}

TEST_CASE("linear attention: chunks of an operation that has none are refused") {
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json");
  REQUIRE(run_cplab({"show", "ring-small", "--json", plan}).code == 0);
  for (const auto& [key, value] :
       {std::pair<std::string, json>{"chunks", json::array()}, {"work", "serial"}, {"reverse", true}}) {
    json edited = json::parse(read_file(plan));
    edited["ranks"][0]["operations"][0][key] = value;
    const ProgramResult refused = run_cplab({"check", "--plan", folder.write("edited.json", edited.dump())});
    CHECK(refused.code == 2);
    CHECK(refused.err.find("only operations of linear attention have it") != std::string::npos);
  }
}

TEST_CASE("linear attention: results of other slopes are not compared") {
  const TemporaryFolder folder;
  const std::string file = folder.write("x.toml", linear_scenario("decay", "lasp_fuse"));
  const auto run = [&](const char* name, const char* slopes) {
    const ProgramResult result =
        run_cplab({"run", file, "--device", "cpu", "--operations", "--iterations", "1", "--warmup", "0",
                   "--set", std::string("problem.slopes=") + slopes, "--json", folder.path(name)});
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    return folder.path(name);
  };
  const ProgramResult result = run_cplab({"compare", run("a.json", "0.5"), run("b.json", "[0.5, 0.25]")});
  CHECK(result.code == 2);
  CHECK(result.err.find("problem.slopes[1] is 0.5 in") != std::string::npos);
}
