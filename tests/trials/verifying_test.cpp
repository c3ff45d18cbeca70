// cplab verify: limits of time, inputs that see each feature, results of others.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/verify/npy.hpp"
#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"
#include "tests/trials/inputs.hpp"

using cplab::testing::contains;

TEST_CASE("a time limit of verify that ran out is no finding: exit 3, with how far it came") {
  const std::vector<std::string> slow{"verify",    "faults/ring", "--set", "problem.sequence=512",
                                      "--timeout", "0.001"};
  const ProgramResult up = run_cplab(slow);
  CHECK(up.code == 3);
  CHECK(contains(up.err, "the time is up after "));
  CHECK(contains(up.err, " operations; unfinished ranks: rank 0: "));
  CHECK(contains(up.err, "/forward/"));
  CHECK(contains(up.err, "--timeout 0.001"));
  CHECK_FALSE(contains(up.err + up.out, "deadlock"));
  CHECK_FALSE(contains(up.err + up.out, "wrong:"));
  // What the checker found stands.
  std::vector<std::string> faulty = slow;
  faulty.insert(faulty.end(), {"--inject", "ring-slot-reuse"});
  const ProgramResult found = run_cplab(faulty);
  CHECK(found.code == 1);
  CHECK(contains(found.out, "race"));
  CHECK(contains(found.out, "the execution did not end: the time is up after "));
  // Where nothing can move any more it is a deadlock, and known at once.
  const ProgramResult hang = run_cplab({"verify", "faults/ring", "--inject", "dropped-receive"});
  CHECK(hang.code == 1);
  CHECK(contains(hang.out, "execution hangs: "));
}

TEST_CASE("progress off a terminal: a line now and then, none with --quiet") {
  setenv("CPLAB_TEST_PROGRESS_LINES_S", "0.05", 1);
  const std::vector<std::string> work{"verify", "ring-small", "--set", "problem.sequence=1024"};
  const ProgramResult talks = run_cplab(work);
  std::vector<std::string> quiet = work;
  quiet.push_back("--quiet");
  const ProgramResult silent = run_cplab(quiet);
  unsetenv("CPLAB_TEST_PROGRESS_LINES_S");
  CHECK(talks.code == 0);
  CHECK(contains(talks.err, ", 0 s\n"));
  CHECK_FALSE(contains(talks.err, "\033["));
  CHECK(silent.err.empty());
}

TEST_CASE("random inputs see a softcap of 50 in bf16: a kernel that forgets it does not pass") {
  const TemporaryFolder folder;
  const std::string file = folder.path("plan.json");
  REQUIRE(run_cplab({"show", trial("03-by-dynamic-mask.toml"), "--json", file, "--quiet"}).code == 0);
  CHECK(run_cplab({"verify", "--plan", file}).code == 0);
  nlohmann::json plan = nlohmann::json::parse(read_file(file));
  for (nlohmann::json& rank : plan.at("ranks"))
    for (nlohmann::json& operation : rank.at("operations")) operation.erase("softcap");
  const nlohmann::json result = json_of({"verify", "--plan", folder.write("uncapped.json", plan.dump())}, 1);
  for (const nlohmann::json& tensor : result.at("tensors")) {
    CAPTURE(tensor.at("tensor"));
    CHECK_FALSE(tensor.at("ok").get<bool>());
    CHECK(tensor.at("rel_l2").get<double>() > 5 * tensor.at("tolerance").get<double>());
  }
}

TEST_CASE("verify says which feature its inputs cannot see, and leaves those of the caller alone") {
  const std::string capped = trial("03-by-dynamic-mask.toml");
  const ProgramResult enlarged = run_cplab({"verify", capped});
  CHECK(enlarged.code == 0);
  CHECK(contains(enlarged.err, "times standard normal, so that results show softcap 50"));
  const ProgramResult blind = run_cplab({"verify", capped, "--set", "problem.softcap=1e6"});
  CHECK(blind.code == 0);
  CHECK(contains(blind.err, "softcap 1e+06 changes out"));
  CHECK(contains(blind.err, "a kernel that forgets it could pass there"));
  // Without such a feature nothing is said, and nothing changes.
  CHECK(run_cplab({"verify", "faults/ring"}).err.empty());
}

TEST_CASE(
    "--save writes inputs, results and the reference, and --against compares results of others with it") {
  const TemporaryFolder folder;
  const std::string saved = folder.path("saved");
  const std::vector<std::string> problem{"faults/ring", "--set", "problem.max_logit=true"};
  const auto verify = [&](std::vector<std::string> more) {
    more.insert(more.begin(), problem.begin(), problem.end());
    more.insert(more.begin(), "verify");
    return run_cplab(more);
  };
  REQUIRE(verify({"--save", saved}).code == 0);
  const std::vector<std::string> both{"--inputs", saved, "--against", saved};
  const ProgramResult own = verify(both);
  CHECK(own.code == 0);
  CHECK(own.err.empty());
  CHECK(contains(own.out, "ok: " + saved + " is equal to the dense reference within tolerance"));
  CHECK(verify({"--inputs", saved, "--against", saved + "/reference"}).code == 0);
  CHECK(verify({"--against", saved}).code == 0);  // drawn from the same seed
  // Of dk the rows 37 and 38 of head 1 are wrong.
  const std::string path = saved + "/dk.npy";
  cplab::NpyArray dk = cplab::read_npy(path);
  dk.values[(37 * 2 + 1) * 8] += 1;
  dk.values[(38 * 2 + 1) * 8] += 9;
  std::ofstream(path, std::ios::binary) << cplab::format_npy(dk.shape, dk.values, false);
  const ProgramResult wrong = verify(both);
  CHECK(wrong.code == 1);
  CHECK(contains(wrong.out, "dk: 2 of "));
  CHECK(contains(wrong.out, "the first in sequence 0, position 37, head 1; "));
  CHECK(contains(wrong.out, "the worst: sequence 0, position 38, head 1"));
  // What is not there, or does not fit, is said.
  dk.shape = {64, 2, 8};
  std::ofstream(path, std::ios::binary) << cplab::format_npy(dk.shape, dk.values, false);
  CHECK(contains(verify(both).err, "dk.npy: has shape [64, 2, 8]; the scenario asks for [1, 64, 2, 8]"));
  std::filesystem::remove(path);
  CHECK(verify(both).code == 2);
  CHECK(verify({"--against", saved, "--inject", "stale-kv"}).code == 2);
}
