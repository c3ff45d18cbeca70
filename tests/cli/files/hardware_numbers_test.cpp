// Numbers of hardware files as a user meets them: implausible ones by file and by --set, and which of them a
// time depends on.
#include <algorithm>
#include <cstdlib>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "cli/files/hardware_file.hpp"
#include "cli/subject.hpp"
#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

using nlohmann::json;

using cplab::testing::contains;

namespace {

json simulated_with(const std::vector<std::string>& sets) {
  std::vector<std::string> arguments{"simulate", some_scenario, "--quiet"};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  return json_of(arguments);
}

}  // namespace

TEST_CASE("an implausible number names its place and what was meant, by --set and in a file") {
  for (const auto& [set, meant] :
       {std::pair<std::string, std::string>{"hardware.node.link_bytes_s=450", "450e9"},
        {"hardware.gpu.capacity_bytes=80", "80e9"},
        {"hardware.gpu.peak_flops.bf16=989", "989e12"},
        {"hardware.host.kernel_launch_s=3", "3e-6"},
        {"hardware.gpu.copy_bytes_s=3.35", "3.35e12"}}) {
    const ProgramResult result = run_cplab({"simulate", some_scenario, "--set", set});
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK(result.err.find("cplab: --set " + set.substr(0, set.find('=')) + ": ") == 0);
    CHECK(contains(result.err, "did you mean " + meant + " ("));
  }
  std::string text = read_file(CPLAB_TEST_SCENARIOS "/hardware/h100x8.toml");
  const auto replace = [&](const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    return std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
  };
  const TemporaryFolder folder;
  const auto error = [&] {
    const std::string file = folder.write("machine.toml", text);
    const ProgramResult result = run_cplab({"simulate", some_scenario, "--set", "hardware.file=" + file});
    CHECK(result.code == 2);
    return result.err.substr(7 + file.size());
  };
  const auto line = replace("link_bytes_s = 450e9", "link_bytes_s = 450");
  CHECK(error().find(":" + std::to_string(line) + ": node.link_bytes_s: 450 bytes/s is in no machine") == 0);
  replace("link_bytes_s = 450 ", "link_bytes_s = 450e9 ");
  // A row: the first table of attend ten thousand times as fast.
  replace("seconds = [4.4051e-04, 1.6890e-03, 1.4444e-02]", "seconds = [4.4051e-08, 1.6890e-07, 1.4444e-06]");
  const std::string row = error();
  CAPTURE(row);
  CHECK(contains(row, "kernel[0]: class=attend dtype=bf16: batch 8, sequence 2048, heads 16"));
  CHECK(contains(row, "beyond the peak of 989 TFLOP/s (gpu.peak_flops.bf16)"));
}

TEST_CASE("only numbers that a time depends on become assumed times") {
  const json base = simulated_with({});
  for (const char* set : {"hardware.gpu.capacity_bytes=40G", "hardware.gpu.name=\"other\"",
                          "hardware.gpu.source=\"me\"", "hardware.fixed.bytes=1G", "hardware.name=\"other\"",
                          "hardware.environment.driver=\"1\"", "hardware.kernel.0.variant=\"mine\"",
                          "hardware.message.0.source=\"mine\"", "hardware.network.max_nodes=3"}) {
    CAPTURE(set);
    std::vector<std::string> sets{set};
    const bool network = contains(set, "network");
    if (network) sets.insert(sets.end(), {"hardware.file=h100x64"});
    const json result = simulated_with(sets);
    const json& beside = network ? simulated_with({"hardware.file=h100x64"}) : base;
    CHECK(result.at("time_s") == beside.at("time_s"));
    CHECK(result.at("low_s") == beside.at("low_s"));
    CHECK(result.at("high_s") == beside.at("high_s"));
    CHECK(result.at("origins") == beside.at("origins"));
  }
  // What fits does depend on them.
  CHECK(simulated_with({"hardware.gpu.capacity_bytes=40G"}).at("headroom_bytes") < base.at("headroom_bytes"));
  // Those that times depend on widen the band.
  for (const char* set : {"hardware.gpu.copy_bytes_s=2e12", "hardware.gpu.peak_flops.bf16=2e15",
                          "hardware.kernel.0.seconds=[4.5e-4, 1.7e-3, 1.45e-2]"}) {
    CAPTURE(set);
    const json result = simulated_with({set});
    CHECK(result.at("origins").at("assumed") > base.at("origins").at("assumed"));
  }
}

TEST_CASE(
    "what a file assumed when it was held against runs widens no band of their kind, unless it is set") {
  const std::vector<std::string> machine{"hardware.file=h100x8-hopper", "parallel.ranks=2"};
  const auto half = [&](const std::vector<std::string>& sets) {
    std::vector<std::string> all = machine;
    all.insert(all.end(), sets.begin(), sets.end());
    const json result = simulated_with(all);
    CHECK(result.at("origins").at("measured") == 0);
    return std::pair(result.at("high_s").get<double>() / result.at("time_s").get<double>() - 1,
                     5e-6 / result.at("time_s").get<double>());
  };
  const auto width = [&](const char* kind) {
    const auto accuracy = cplab::read_hardware(CPLAB_TEST_SCENARIOS "/hardware/h100x8-hopper.toml").accuracy;
    return std::find_if(accuracy.begin(), accuracy.end(), [&](const auto& k) { return k.kind == kind; })
        ->half_width;
  };
  // Nine of ten held-out rings lay within it, and a call differs from the next by 5 us.
  const auto [ring, few_us] = half({"parallel.algorithm=ring"});
  CHECK(ring == doctest::Approx(width("ring") + few_us));
  CHECK(half({"parallel.algorithm=ring", "hardware.gpu.capacity_bytes=40G"}).first == doctest::Approx(ring));
  // No all-gather was run, and no ring on such a GPU: 40 % of what is assumed comes on top, which is all.
  CHECK(half({"parallel.algorithm=all_gather"}).first > width("ring") + 0.35);
  CHECK(half({"parallel.algorithm=ring", "hardware.gpu.copy_bytes_s=3.2e12"}).first > width("ring") + 0.35);
}

TEST_CASE("an entry of a list that is set by hand is assumed, the others stay") {
  using namespace cplab;
  const std::string path = CPLAB_TEST_SCENARIOS "/hardware/h200x4-2026-11-21.toml";
  const Hardware base = read_hardware(path);
  REQUIRE(base.messages.size() >= 2);
  REQUIRE(base.messages[0].provenance.origin == Origin::measured);
  const Hardware one = read_hardware(path, {{"message.0.channels", "8"}, {"kernel.0.tile_rows", "64"}});
  CHECK(one.messages[0].provenance.origin == Origin::assumed);
  CHECK(one.messages[1].provenance.origin == base.messages[1].provenance.origin);
  CHECK(one.kernels[0].provenance.origin == Origin::assumed);
  CHECK(one.kernels[1].provenance.origin == base.kernels[1].provenance.origin);
  const Hardware none = read_hardware(path, {{"kernel.0.l2", "warm"}});
  CHECK(none.kernels[0].provenance.origin == base.kernels[0].provenance.origin);
}

TEST_CASE("a hardware file is read once, for the scenario read again with other changes too") {
  using namespace cplab;
  setenv("CPLAB_SCENARIOS", CPLAB_TEST_SCENARIOS, 1);
  const ScenarioFile file = read_scenario(some_scenario, {});
  const Hardware& machine = machine_of(file);
  const ScenarioFile copy = file, again = reread(file, {"problem.batch=1"});
  CHECK(&machine_of(copy) == &machine);
  CHECK(&machine_of(again) == &machine);
  CHECK(machine_of(reread(file, {"hardware.gpu.sms=100"})).gpu.sms == 100);
  CHECK(machine_of(reread(file, {"hardware.file=h200x4"})).name != machine.name);
  CHECK(machine.gpu.sms == 132);
}

TEST_CASE("a bandwidth that was set moves the time both ways, and one that nothing uses is said to") {
  const auto with = [](std::vector<std::string> sets) {
    // Where messages are not hidden behind kernels.
    sets.insert(sets.end(), {"schedule.overlap=false", "problem.direction=forward"});
    return simulated_with(sets);
  };
  const auto notes = [&](const std::vector<std::string>& sets) {
    std::string text;
    const json result = with(sets);
    for (const json& note : result.at("notes")) {
      const bool of_machine = contains(note.get<std::string>(), "attention is timed by the kernels of cuDNN");
      if (!of_machine) text += note.get<std::string>() + "\n";
    }
    return text;
  };
  const auto time_s = [&](const std::vector<std::string>& sets) {
    return with(sets).at("time_s").get<double>();
  };
  const double as_measured_s = time_s({});
  CHECK(notes({"hardware.node.link_bytes_s=900e9"}).empty());
  CHECK(time_s({"hardware.node.link_bytes_s=900e9"}) < as_measured_s);
  CHECK(time_s({"hardware.node.link_bytes_s=225e9"}) > as_measured_s);
  CHECK(time_s({"hardware.node.link_bytes_s=450e9"}) == as_measured_s);
  CHECK(contains(notes({"hardware.file=h100x64", "hardware.network.nic_bytes_s=100e9"}),
                 "no message of this plan goes over the network"));
  const std::vector<std::string> far{"hardware.file=h100x64", "parallel.ranks=16"};
  const double over_network_s = time_s(far);
  CHECK(time_s({far[0], far[1], "hardware.network.nic_bytes_s=100e9"}) < over_network_s);
  CHECK(time_s({far[0], far[1], "hardware.network.nic_bytes_s=25e9"}) > over_network_s);
  CHECK(time_s({far[0], far[1], "hardware.network.nics=16"}) < over_network_s);
  CHECK(notes({far[0], far[1], "hardware.network.nics=16"}).empty());
  // A flat ring has one flow out of a node: with a NIC for two GPUs it goes as fast.
  CHECK(time_s({far[0], far[1], "hardware.network.nics=4"}) == doctest::Approx(over_network_s));
  // On stderr too.
  const ProgramResult said =
      run_cplab({"simulate", some_scenario, "--set", "hardware.network.nic_bytes_s=100e9", "--set",
                 "hardware.file=h100x64"});
  CHECK(contains(said.err, "note: hardware.network.nic_bytes_s=100e9 changes no time"));
}

TEST_CASE("a table of linear attention: its keys are read, and what is wrong with them is named") {
  const std::string machine = read_file(CPLAB_TEST_SCENARIOS "/hardware/h100x8.toml");
  const auto with = [&](const std::string& keys) {
    return cplab::parse_hardware(
        machine + "\n[[kernel]]\n" + keys + "\norigin = \"assumed\"\nsource = \"by hand\"\n", "machine.toml");
  };
  const std::string point =
      "dtype = \"bf16\"\nhead_size = 128\nvalue_size = 64\ntokens = [4096, 65536]\n"
      "heads = [16, 16]\nseconds = [20e-6, 200e-6]\n";
  const cplab::Hardware hardware = with(
      "class = \"inter\"\ncut = \"serial\"\nchunk = 64\nsequences = 2\nstates = [\"carry\", \"state\"]\n" +
      point);
  const cplab::KernelTable& table = hardware.kernels.back();
  CHECK(table.kind == cplab::OpKind::inter);
  CHECK(table.cut == cplab::ChunkWork::serial);
  CHECK(table.chunk == 64);
  CHECK(table.sequences == 2);
  CHECK(table.states == std::vector{cplab::Operand::state, cplab::Operand::carry});
  CHECK(table.points.size() == 2);
  CHECK(table.points[1].sequence == 65536);
  const auto message = [&](const std::string& keys) {
    try {
      (void)with(keys + point);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(contains(message("class = \"inter\"\n"), "names the states that the class inter has"));
  CHECK(contains(message("class = \"local\"\nstates = [\"dstate\"]\n"), "\"dstate\" is not legal"));
  CHECK(contains(message("class = \"local\"\ncut = \"fused\"\n"),
                 "\"fused\" is not legal; legal are \"blocked\""));
  CHECK(contains(message("class = \"local\"\nsequences = 3\n"), "tokens must be a multiple of sequences"));
  CHECK(contains(message("class = \"combine\"\n"), "bytes"));
  CHECK(contains(message("class = \"scan\"\n"), "names the states that the class scan has"));
  CHECK(contains(message("class = \"scan\"\nstates = [\"final_state\"]\n"), "which a scan works on"));
  const std::string inter = "class = \"inter\"\nstates = [\"carry\"]\n";
  CHECK(message(inter + "results = [\"dq\"]\n").empty());
  CHECK(contains(message(inter + "results = [\"dk\"]\n"), "dk and dv \"dstate\" or \"dcarry\""));
  CHECK(contains(message(inter + "results = [\"out\", \"dq\"]\n"), "or the last three"));
}
