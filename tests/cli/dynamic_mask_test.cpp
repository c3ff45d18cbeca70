// Dynamic mask attention through the program: files in and out, plans that are read back, what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/files/scenario_file.hpp"
#include "cli/verify/npy.hpp"
#include "cli/verify/tensors.hpp"
#include "tests/cli/program.hpp"

using nlohmann::json;
using namespace cplab;

namespace {

// Packed, with padding; `keys` of [problem].
std::string masked_scenario(const std::string& keys, const std::string& algorithm) {
  return "[problem]\nattention = \"dynamic_mask\"\n" + keys +
         "\nlengths = [21, 0, 30]\npadded_lengths = [24, 3, 30]\nheads = 6\nkv_heads = 2\nhead_size = 8\n"
         "value_size = 4\ndtype = \"bf16\"\nmask = \"causal\"\n[parallel]\nranks = 3\nalgorithm = \"" +
         algorithm + "\"\n";
}

}  // namespace

TEST_CASE("dynamic mask: verify reads biases and writes their gradients, on every algorithm that has them") {
  using Shape = std::vector<std::int64_t>;
  for (const auto& [bias, shape] : {std::pair{"full", Shape{57, 6, 30}}, {"keys", Shape{57, 2}}}) {
    std::vector<std::vector<double>> gradients;
    for (const char* algorithm : {"ring", "all_gather", "all_to_all"}) {
      const TemporaryFolder folder;
      const std::string file = folder.write(
          "x.toml",
          masked_scenario("bias = \"" + std::string(bias) + "\"\nkeep = \"top_k\"\ntop_k = 7", algorithm));
      const std::string in = folder.path("in"), out = folder.path("out");
      std::filesystem::create_directories(in);
      const Problem p = read_scenario(file, {}).scenario.problem;
      Inputs inputs = random_inputs(p, 4);
      // Keys that are padding: any number.
      if (shape.size() == 3)
        for (std::size_t j = 21; j < 30; ++j)
          inputs["bias"].values[j] = std::numeric_limits<double>::quiet_NaN();
      for (const char* name : {"q", "k", "v", "dout", "bias"}) {
        const Tensor& values = inputs[name];
        std::ofstream(in + "/" + npy_file(name), std::ios::binary)
            << format_npy(values.shape, values.values, false);
      }
      const ProgramResult result = run_cplab({"verify", file, "--inputs", in, "--save", out});
      CAPTURE(result.out);
      CAPTURE(result.err);
      REQUIRE(result.code == 0);
      const NpyArray dbias = read_npy(out + "/dbias.npy");
      CHECK(dbias.shape == shape);
      CHECK(!std::filesystem::exists(out + "/keep.npy"));
      const std::size_t row = dbias.values.size() / 57;
      for (std::size_t i = 0; i < row; ++i) CHECK(dbias.values[22 * row + i] == 0);  // padding
      double most = 0;
      for (const double value : dbias.values) most = std::max(most, std::abs(value));
      CHECK(most > 0.01);
      std::filesystem::remove(in + "/bias.npy");
      const ProgramResult missing = run_cplab({"verify", file, "--inputs", in});
      CHECK(missing.code == 2);
      CHECK(missing.err.find("bias.npy") != std::string::npos);
    }
  }
}

TEST_CASE("dynamic mask: a plan is written and read back, and is wrong with the columns of other keys") {
  const TemporaryFolder folder;
  const std::string file =
      folder.write("x.toml", masked_scenario("bias = \"full\"\nkeep = \"relu\"\nsoftcap = 3.0", "ring"));
  const std::string plan = folder.path("plan.json");
  REQUIRE(run_cplab({"show", file, "--json", plan}).code == 0);
  const ProgramResult right = run_cplab({"check", "--plan", plan, "--json", "-"});
  CAPTURE(right.err);
  REQUIRE(right.code == 0);
  json root;
  std::ifstream(plan) >> root;
  const auto wrong = [&](auto change) {
    json changed = root;
    for (json& op : changed.at("ranks").at(0).at("operations")) {
      if (op.at("kind") != "attend") continue;
      change(op);
      break;
    }
    const std::string path = folder.write("wrong.json", changed.dump());
    const ProgramResult result = run_cplab({"check", "--plan", path, "--json", "-"});
    CAPTURE(result.out);
    CHECK(result.code == 1);
    return json::parse(result.out).at("findings").at(0).at("message").get<std::string>();
  };
  const std::string shifted = wrong([](json& op) {
    json& first = op.at("columns").at(0);
    first.at(0) = first.at(0).get<int>() + 1;
  });
  CHECK(shifted.find("reads the biases of other keys") != std::string::npos);
  const std::string few = wrong([](json& op) { op.at("columns").erase(op.at("columns").size() - 1); });
  CHECK(few.find("one column for each row") != std::string::npos);
  const std::string capped = wrong([](json& op) { op.at("softcap") = 2.0; });
  CHECK(capped.find("caps the logits") != std::string::npos);
  const std::string bare = wrong([](json& op) {
    json reads = json::array();
    for (const json& read : op.at("reads"))
      if (read.at("operand") != "keep") reads.push_back(read);
    op.at("reads") = reads;
  });
  CHECK(bare.find("leaves out the bias or the keep mask") != std::string::npos);
}

TEST_CASE("dynamic mask: what a scenario cannot have is refused with what would be legal") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& keys, const std::string& algorithm, const char* key,
                           const char* says) {
    const std::string file = folder.write("x.toml", masked_scenario(keys, algorithm));
    const ProgramResult result = run_cplab({"check", file});
    CAPTURE(keys);
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK(result.err.find(key) != std::string::npos);
    CHECK(result.err.find(says) != std::string::npos);
  };
  refused("keep = \"top_k\"\ntop_k = 3", "ring", "problem.keep", "needs bias");
  refused("bias = \"keys\"\nkeep = \"top_k\"", "ring", "problem.top_k", "missing");
  refused("bias = \"keys\"\nkeep = \"top_k\"\ntop_k = 0", "ring", "problem.top_k", "from 1");
  refused("bias = \"keys\"\nkeep = \"relu\"\ntop_k = 4", "ring", "problem.top_k", "above 0");
  refused("bias = \"keys\"\nblock = 4", "ring", "problem.block", "there is none");
  refused("bias = \"pairs\"", "ring", "problem.bias", "\"full\"");
  refused("softcap = -1.0", "ring", "problem.softcap", "from 0 on");
  refused("max_logit = true", "ring", "problem.max_logit", "false");
  refused("bias = \"keys\"", "usp", "problem.attention", "ring, all_gather and all_to_all");
  refused("bias = \"keys\"\nslopes = \"alibi\"", "ring", "problem.slopes", "linear");
  refused("bias = \"alibi\"", "ring", "problem.bias", "\"full\"");
  refused("sink = \"head\"", "ring", "problem.sink", "no key");
  const std::string file = folder.write("x.toml", masked_scenario("bias = \"keys\"", "ring"));
  const ProgramResult other = run_cplab({"check", "ring-small", "--set", "problem.keep=\"relu\""});
  CHECK(other.code == 2);
  CHECK(other.err.find("legal with attention = \"dynamic_mask\" alone") != std::string::npos);
  CHECK(run_cplab({"run", file, "--device", "cpu"}).code == 0);
}

TEST_CASE("dynamic mask: run and simulate say that keys are selected before, and where none are do not") {
  const TemporaryFolder folder;
  const std::string machine = "[hardware]\nfile = \"hardware/h100x8.toml\"\n";
  for (const bool selects : {true, false}) {
    const std::string keys =
        std::string("bias = \"keys\"") + (selects ? "\nkeep = \"top_k\"\ntop_k = 3" : "");
    const std::string file = folder.write("x.toml", masked_scenario(keys, "ring") + machine);
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"simulate", file}, {"run", file, "--device", "cpu"}}) {
      CAPTURE(command.front());
      const ProgramResult result = run_cplab(command);
      CAPTURE(result.err);
      CHECK(result.code == 0);
      const bool said = result.err.find("selected by their biases before the plan") != std::string::npos;
      CHECK(said == selects);
    }
  }
}
