// Which transports a plan takes, and who says so: simulate, run, show.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

using nlohmann::json;

using cplab::testing::contains;

namespace {

ProgramResult run_transport(const char* command, const std::vector<std::string>& sets,
                            const std::vector<std::string>& options = {}) {
  std::vector<std::string> arguments{command, some_scenario};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_cplab(arguments);
}

json transports(const char* command, const std::vector<std::string>& sets,
                const std::vector<std::string>& options = {}) {
  std::vector<std::string> all = options;
  all.insert(all.end(), {"--json", "-", "--quiet"});
  const ProgramResult result = run_transport(command, sets, all);
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  return json::parse(result.out).at("transports");
}

}  // namespace

TEST_CASE("auto within a node: everything is copied, and simulate says so in text and JSON") {
  const json used = transports("simulate", {"problem.direction=forward"});
  REQUIRE(used.size() == 1);
  CHECK(used[0].at("transport") == "copy");
  CHECK(used[0].at("messages") == 56);  // P (P - 1)
  // K and V of 16K rows, 8 heads, 128 + 128 columns of 2 bytes: 64 MiB a message.
  CHECK(used[0].at("bytes") == std::int64_t{56} * 64 * 1024 * 1024);
  CHECK(contains(run_transport("simulate", {"problem.direction=forward"}).out, "56 by copy of 3.50 GiB"));
}

TEST_CASE("auto over two nodes: copies within each, NCCL between them") {
  const std::vector<std::string> far{"hardware.file=h100x64", "parallel.ranks=16",
                                     "problem.direction=forward"};
  const json used = transports("simulate", far);
  REQUIRE(used.size() == 2);
  // Of the 16 hops of each of the 15 rounds two cross nodes.
  CHECK(used[0].at("transport") == "nccl");
  CHECK(used[0].at("messages") == 30);
  CHECK(used[1].at("messages") == 15 * 14);
  CHECK(contains(run_transport("simulate", far).out, "30 by nccl of"));
  CHECK(run_transport("check", far).code == 0);
  CHECK(transports("run",
                   {"hardware.file=h100x64", "parallel.ranks=16", "problem.sequence=256",
                    "problem.direction=forward"},
                   {"--device", "cpu", "--iterations", "1"}) ==
        transports("simulate", {"hardware.file=h100x64", "parallel.ranks=16", "problem.sequence=256",
                                "problem.direction=forward"}));
}

TEST_CASE("copy over two nodes is refused with what does it") {
  const ProgramResult refused =
      run_transport("simulate", {"hardware.file=h100x64", "parallel.ranks=16", "schedule.transport=copy"});
  CHECK(refused.code == 2);
  CHECK(
      contains(refused.err, "schedule.transport=\"auto\" copies within a node and takes NCCL between nodes"));
}

TEST_CASE("show recommends auto where something could be copied, and only there") {
  const std::string idea = "transport auto copies within a node";
  // Short steps on a long way: the link binds.
  const std::vector<std::string> bound{"problem.sequence=8K", "schedule.transport=nccl"};
  CHECK(contains(run_transport("show", bound).out, idea));
  CHECK(!contains(run_transport("show", {"problem.sequence=8K"}).out, idea));
  // A GPU a node: there is nothing to copy.
  CHECK(!contains(
      run_transport("show", {"problem.sequence=8K", "schedule.transport=nccl", "hardware.file=h100x64",
                             "hardware.node.gpus=1", "hardware.network.nics=1"})
          .out,
      idea));
}

TEST_CASE("a machine whose file has no copies takes NCCL") {
  std::string text = read_file(CPLAB_TEST_SCENARIOS "/hardware/h100x8.toml");
  // Of every table of copies its path becomes that of another transport.
  const std::string copies = "kind = \"exchange\"\ntransport = \"copy\"";
  const std::size_t at = text.find(copies);
  REQUIRE(at != std::string::npos);
  text.replace(at, copies.size(), "kind = \"barrier\"\ntransport = \"copy\"");
  const TemporaryFolder folder;
  const std::string path = folder.write("machine.toml", text);
  const json used = transports("simulate", {"hardware.file=" + path});
  REQUIRE(used.size() == 1);
  CHECK(used[0].at("transport") == "nccl");
}
