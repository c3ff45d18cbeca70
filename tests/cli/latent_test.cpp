// Latent keys and values through the program: files in and out, plans that are read back, what is refused.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/verify/npy.hpp"
#include "tests/cli/program.hpp"

using nlohmann::json;
using namespace cplab;

namespace {

// Packed, with padding.
std::string latent_scenario(const std::string& algorithm, const std::string& travels) {
  return "[problem]\nlengths = [21, 0, 30]\npadded_lengths = [24, 3, 30]\nheads = 4\nhead_size = 12\n"
         "value_size = 8\nkv_latent = 16\nrope_size = 4\ndtype = \"bf16\"\nmask = \"causal\"\n"
         "[parallel]\nranks = 3\nalgorithm = \"" +
         algorithm + "\"\n[schedule]\ntravels = \"" + travels +
         "\"\n[hardware]\nfile = \"hardware/h100x8.toml\"\n";
}

}  // namespace

TEST_CASE("latents: verify reads and writes their files, and compares somebody's with what is right") {
  using Shape = std::vector<std::int64_t>;
  for (const char* travels : {"kv", "latent"}) {
    const TemporaryFolder folder;
    const std::string file = folder.write("x.toml", latent_scenario("all_gather", travels));
    const std::string out = folder.path("out");
    const ProgramResult drawn = run_cplab({"verify", file, "--save", out});
    CAPTURE(drawn.err);
    REQUIRE(drawn.code == 0);
    for (const auto& [name, shape] : {std::pair<std::string, Shape>{"latent", {57, 1, 16}},
                                      {"rope_key", {57, 1, 4}},
                                      {"key_weights", {4, 16, 8}},
                                      {"value_weights", {4, 16, 8}},
                                      {"dlatent", {57, 1, 16}},
                                      {"drope_key", {57, 1, 4}},
                                      {"dkey_weights", {4, 16, 8}},
                                      {"dvalue_weights", {4, 16, 8}}}) {
      CAPTURE(name);
      CHECK(read_npy(out + "/" + name + ".npy").shape == shape);
    }
    CHECK_FALSE(std::filesystem::exists(out + "/k.npy"));
    CHECK(run_cplab({"verify", file, "--inputs", out, "--against", out}).code == 0);
    // What is right of other heads is wrong.
    std::filesystem::copy_file(out + "/dvalue_weights.npy", out + "/dkey_weights.npy",
                               std::filesystem::copy_options::overwrite_existing);
    const ProgramResult wrong = run_cplab({"verify", file, "--inputs", out, "--against", out});
    CHECK(wrong.code == 1);
    CHECK(wrong.out.find("dkey_weights") != std::string::npos);
  }
}

TEST_CASE("latents: a plan that is read back is right, runs and takes as long") {
  for (const char* algorithm : {"ring", "all_gather"}) {
    const TemporaryFolder folder;
    const std::string file = folder.write("x.toml", latent_scenario(algorithm, "latent")),
                      plan = folder.path("plan.json"), a = folder.path("a.json"), b = folder.path("b.json");
    REQUIRE(run_cplab({"show", file, "--json", plan, "--quiet"}).code == 0);
    CHECK(run_cplab({"check", "--plan", plan}).code == 0);
    CHECK(run_cplab({"verify", "--plan", plan}).code == 0);
    REQUIRE(run_cplab({"simulate", file, "--json", a, "--quiet"}).code == 0);
    REQUIRE(run_cplab({"simulate", "--plan", plan, "--json", b, "--quiet"}).code == 0);
    const auto time = [](const std::string& path) {
      return json::parse(read_file(path))["time_s"].get<double>();
    };
    CHECK(time(a) == doctest::Approx(time(b)));
    CHECK(time(a) > 0);
  }
}

TEST_CASE("latents: what a scenario cannot ask for names its key and what is legal") {
  const TemporaryFolder folder;
  const std::string file = folder.write("x.toml", latent_scenario("ring", "latent"));
  const auto refused = [&](const std::vector<std::string>& sets, const char* key, const char* says) {
    std::vector<std::string> command{"check", file};
    for (const std::string& set : sets) command.insert(command.end(), {"--set", set});
    const ProgramResult result = run_cplab(command);
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK(result.err.find(key) != std::string::npos);
    CHECK(result.err.find(says) != std::string::npos);
  };
  refused({"problem.rope_size=12"}, "problem.rope_size", "1 to 11");
  refused({"problem.kv_heads=2"}, "problem.kv_heads", "legal: 4");
  refused({"problem.bias=keys"}, "problem.bias", "\"alibi\"");
  refused({"problem.attention=dynamic_mask"}, "problem.kv_latent", "softmax");
  refused({"schedule.tile_inputs=copy"}, "schedule.tile_inputs", "\"view\"");
  refused({"schedule.travels=keys"}, "schedule.travels", "\"latent\"");
  CHECK(run_cplab({"verify", file, "--sample", "4"}).code == 2);
  const ProgramResult unset = run_cplab({"check", file, "--unset", "problem.kv_latent"});
  CHECK(unset.code == 2);
  CHECK(unset.err.find("problem.rope_size") != std::string::npos);
}
