// Hardware files: where they are looked for, what they may leave to an include, how errors are told.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include <nlohmann/json.hpp>

#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"
#include "tests/trials/inputs.hpp"

using cplab::testing::contains;

namespace {

const std::string small_machine =
    "[node]\ngpus = 8\nlink_bytes_s = \"450GB/s\"\norigin = \"assumed\"\nsource = \"test\"\n"
    "[gpu]\nname = \"small\"\nsms = 100\ncapacity_bytes = \"80G\"\ncopy_bytes_s = \"3TB/s\"\n"
    "compute_capability = 9.0\norigin = \"assumed\"\nsource = \"test\"\n"
    "[host]\nkernel_launch_s = 1e-6\ncommunication_launch_s = 2e-6\ncopy_launch_s = 1e-6\n"
    "launch_latency_s = 1e-6\ndependency_s = 1e-6\nsync_s = 1e-6\ngraph_launch_s = 1e-6\n"
    "graph_node_s = 1e-6\norigin = \"assumed\"\nsource = \"test\"\n"
    "[fixed]\nbytes = \"500M\"\norigin = \"assumed\"\nsource = \"test\"\n";

ProgramResult simulated(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"simulate", "ring-small"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_cplab(arguments);
}

double time_with(const std::vector<std::string>& sets, const char* scenario = "ring-small") {
  std::vector<std::string> arguments{"simulate", scenario, "--quiet"};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  return json_of(arguments).at("time_s").get<double>();
}

// The current folder, for as long as it lives.
struct InFolder {
  explicit InFolder(const std::string& folder) : before(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~InFolder() { std::filesystem::current_path(before); }
  std::filesystem::path before;
};

}  // namespace

TEST_CASE("a hardware path on the command line is relative to the current folder") {
  const TemporaryFolder folder;
  const std::string machine = "include = \"h100x8.toml\"\n";
  folder.write("my.toml", machine);
  std::filesystem::create_directory(folder.path("sub"));
  folder.write("sub/other.toml", machine);
  const InFolder here(folder.path("."));
  for (const char* given : {"./my.toml", "my.toml", "sub/other.toml", "h100x8"}) {
    CAPTURE(given);
    CHECK(simulated({"--set", std::string("hardware.file=") + given}).code == 0);
    CHECK(simulated({"--hardware", given}).code == 0);
  }
  const ProgramResult none = simulated({"--hardware", "./none.toml"});
  CHECK(none.code == 2);
  CHECK(contains(none.err, "--hardware: \"./none.toml\" is not there; looked for: "));
  CHECK(simulated({"--hardware", "h100x8", "--set", "hardware.file=h100x8"}).code == 2);
}

TEST_CASE("without a folder of scenarios names are exit 3, and CPLAB_SCENARIOS is named") {
  // run_cplab sets the variable itself: the program as a user has it.
  const std::string program = CPLAB_TEST_PROGRAM;
  const auto code = [&](const std::string& arguments) {
    const std::string line = "CPLAB_SCENARIOS=/nonexistent " + program + " " + arguments +
                             " 2>&1 >/dev/null | grep -q CPLAB_SCENARIOS";
    const std::string bare = "CPLAB_SCENARIOS=/nonexistent " + program + " " + arguments + " >/dev/null 2>&1";
    CHECK(std::system(line.c_str()) == 0);
    return WEXITSTATUS(std::system(bare.c_str()));
  };
  for (const char* arguments :
       {"list", "list scenarios", "list hardware --json /dev/null", "simulate ring", "demo"})
    CHECK(code(arguments) == 3);
  CHECK(contains(run_cplab({"--help"}).out, "CPLAB_SCENARIOS"));
}

TEST_CASE("sizes and rates have one grammar, in files and by --set") {
  const std::vector<std::string> wide{"parallel.ranks=16", "hardware.file=h100x64"};
  const auto nic = [&](const std::string& value) {
    return time_with({wide[0], wide[1], "hardware.network.nic_bytes_s=" + value});
  };
  for (const char* same : {"10G", "80Gb/s", "10GB/s", "\"10 GB/s\""}) CHECK(nic(same) == nic("10e9"));
  CHECK(time_with({"problem.sequence=4K"}) == time_with({"problem.sequence=4096"}));
  CHECK(time_with({"hardware.gpu.compute_capability=9.0"}) ==
        time_with({"hardware.gpu.compute_capability=\"9.0\""}));
  for (const auto& [set, meant] : {std::pair<std::string, std::string>{"problem.sequence=4k", "\"4K\""},
                                   {"problem.sequence=8KB", "\"8K\""},
                                   {"hardware.gpu.capacity_bytes=79g", "\"79G\""},
                                   {"hardware.node.link_bytes_s=450gb/s", "\"450GB/s\" or \"450Gb/s\""},
                                   {"hardware.node.link_bytes_s=400Gbps", "\"400Gb/s\""},
                                   {"hardware.gpu.compute_capability=9", "9.0"},
                                   {"problem.sequence=4096.0", "write 4096"}}) {
    const ProgramResult result = simulated({"--set", set});
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK(contains(result.err, meant));
  }
  const TemporaryFolder folder;
  const std::string file = folder.write("s.toml", "[problem]\nsequence = 8K\n");
  CHECK(contains(run_cplab({"show", file}).err, "a size stands in quotes: \"8K\""));
}

TEST_CASE("all errors of a hardware file are told at once") {
  const TemporaryFolder folder;
  std::string text = small_machine;
  const auto spoil = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  spoil("gpus = 8", "gpus = 0");
  spoil("sms = 100", "smz = 100");
  spoil("\"3TB/s\"", "3.35");
  spoil("sync_s = 1e-6", "sync_s = \"fast\"");
  const ProgramResult result = simulated({"--hardware", folder.write("m.toml", text)});
  CAPTURE(result.err);
  CHECK(result.code == 2);
  for (const char* part : {"m.toml:2: node.gpus", "m.toml:8: gpu.smz: unknown key", "gpu.sms: missing",
                           "m.toml:20: host.sync_s: must be a number"})
    CHECK(contains(result.err, part));
}

TEST_CASE("a machine without a network says so, and names the key that is none") {
  for (const char* set : {"hardware.network.nic_gbps=400", "hardware.network.nic_bytes_s=0"}) {
    const ProgramResult result = simulated({"--set", set});
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK(contains(result.err, "this machine has no network"));
    CHECK(contains(result.err, std::string(set).substr(0, std::string(set).find('='))));
  }
  CHECK(contains(simulated({"--set", "hardware.network.nic_gbps=400"}).err, "did you mean \"nic"));
}

TEST_CASE("fewer NICs and slower links bound tables that were measured with more") {
  const auto nics = [](const char* count) {
    return time_with({"hardware.file=h100x64", "parallel.ranks=16", "parallel.algorithm=all_gather",
                      std::string("hardware.network.nics=") + count});
  };
  CHECK(nics("4") > nics("8"));
  CHECK(nics("2") > nics("4"));
  CHECK(nics("1") > nics("2"));
  // A GPU with two NICs gathers no slower; a ring has one flow out of a node, which one NIC carries as well.
  CHECK(nics("16") <= nics("8"));
  const auto ring = [](const char* count) {
    return time_with(
        {"hardware.file=h100x64", "parallel.ranks=16", std::string("hardware.network.nics=") + count},
        "ring");
  };
  CHECK(ring("1") < 1.001 * ring("8"));
  const ProgramResult three =
      simulated({"--set", "hardware.file=h100x64", "--set", "hardware.network.nics=3"});
  CHECK(three.code == 2);
  CHECK(contains(three.err,
                 "--set hardware.network.nics: network.nics: must divide the GPUs of a node or be a "
                 "multiple of them, but is 3; legal for 8 GPUs: 1, 2, 4, 8, 16, 24, ..."));
  const auto link = [](const char* rate) {
    return time_with({"parallel.algorithm=all_gather", "schedule.transport=nccl",
                      std::string("hardware.node.link_bytes_s=") + rate},
                     "ring");
  };
  CHECK(link("50GB/s") > link("450GB/s"));
}

TEST_CASE("a hardware file includes another one and overrides it") {
  const TemporaryFolder folder;
  const std::string same = folder.write("same.toml", "include = \"h100x8.toml\"\n");
  CHECK(time_with({"hardware.file=" + same}) == time_with({}));
  // A message table replaces those of its conditions; a changed section is assumed.
  const std::string slow = folder.write(
      "slow.toml",
      "include = \"same.toml\"\n[host]\nkernel_launch_s = 1e-3\n[[message]]\nkind = \"exchange\"\n"
      "transport = \"nccl\"\npath = \"intra\"\ngroup = 8\nchannels = 2\nbytes = [\"4K\", \"1M\"]\n"
      "seconds = [1e-3, 2e-3]\norigin = \"assumed\"\nsource = \"test\"\n");
  CHECK(time_with({"hardware.file=" + slow}) > 2 * time_with({}));
  folder.write("a.toml", "include = \"b.toml\"\n");
  folder.write("b.toml", "include = \"a.toml\"\n");
  folder.write("c.toml", "\ninclude = \"gone.toml\"\n");
  folder.write("d.toml", "include = \"c.toml\"\n");
  const ProgramResult circle = simulated({"--hardware", folder.path("a.toml")});
  CHECK(circle.code == 2);
  CHECK(contains(circle.err, "a.toml includes " + folder.path("b.toml") + " includes "));
  const ProgramResult gone = simulated({"--hardware", folder.path("d.toml")});
  CHECK(gone.code == 2);
  CHECK(contains(gone.err, folder.path("c.toml") + ":2: include: \"gone.toml\" is not there"));
  CHECK(contains(gone.err, "d.toml includes "));
  CHECK(simulated({"--hardware", "h200x64", "--set", "parallel.ranks=64"}).code == 0);
}

TEST_CASE("a hardware file says whose kernels it times, and old names say what they now are") {
  const auto notes = [](const char* machine) {
    std::string text;
    const auto result = json_of({"simulate", "ring-small", "--quiet", "--hardware", machine});
    for (const auto& note : result.at("notes")) text += note.get<std::string>() + "\n";
    return text;
  };
  CHECK(contains(notes("h100x8"), "cuDNN"));
  CHECK(contains(notes("h100x64"), "cuDNN"));
  CHECK(!contains(notes("h200x64"), "cuDNN"));
  const auto of_four = [](const char* machine) {
    return time_with({"parallel.ranks=4", std::string("hardware.file=") + machine});
  };
  for (const auto& [old, now] :
       {std::pair{"h200x4-hopper", "h200x4"}, {"h200x4-measured", "h200x4-2026-11-21"}}) {
    CHECK(of_four(old) == of_four(now));
    CHECK(contains(simulated({"--hardware", old, "--set", "parallel.ranks=4"}).err,
                   std::string("an old name of ") + now));
  }
}

TEST_CASE("a hardware file of a newer schema is refused with words") {
  const TemporaryFolder folder;
  const auto with = [&](const std::string& schema) {
    return simulated(
        {"--hardware", folder.write("m.toml", "schema = \"" + schema + "\"\ninclude = \"h100x8\"\n")});
  };
  CHECK(with("cplab.hardware.1").code == 0);
  CHECK(contains(with("cplab.hardware.2").err, "is newer than this program"));
  CHECK(contains(with("hardware").err, "legal is \"cplab.hardware.1\""));
}
