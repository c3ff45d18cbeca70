// Rules and look-ups of hardware tables, and the files that are shipped.
#include "sim/hardware.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <tuple>

#include "cli/files/hardware_file.hpp"
#include "cli/files/toml_table.hpp"
#include "sim/simulate.hpp"
#include "tests/contains.hpp"
#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using cplab::testing::contains;
using sim_test::hand_machine;
using sim_test::HandPlan;
using sim_test::near;

std::string shipped(const char* name) {
  return std::string(CPLAB_TEST_SCENARIOS "/hardware/") + name;
}

// The smallest complete file.
const char* const small_file = R"([node]
gpus = 2
link_bytes_s = 100e9
origin = "assumed"
source = "test"
[gpu]
name = "small"
sms = 100
capacity_bytes = "1G"
copy_bytes_s = 1e12
origin = "assumed"
source = "test"
[host]
kernel_launch_s = 1e-6
communication_launch_s = 2e-6
copy_launch_s = 1e-6
launch_latency_s = 1e-6
dependency_s = 1e-6
sync_s = 1e-6
graph_launch_s = 1e-6
graph_node_s = 1e-6
origin = "assumed"
source = "test"
[fixed]
bytes = 0
origin = "assumed"
source = "test"
)";

std::string parse_error(const std::string& text) {
  try {
    parse_hardware(text, "small.toml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("look-up in a curve: points, between, below, above") {
  const std::vector<CurvePoint> points = {{100, 10}, {300, 20}};
  CHECK(lookup(points, 100, Origin::measured).seconds == 10);
  CHECK(lookup(points, 100, Origin::measured).origin == Origin::measured);
  CHECK(lookup(points, 150, Origin::measured).seconds == 12.5);
  CHECK(lookup(points, 150, Origin::measured).origin == Origin::interpolated);
  CHECK(lookup(points, 150, Origin::assumed).origin == Origin::assumed);
  CHECK(lookup(points, 10, Origin::measured).seconds == 10);
  CHECK(lookup(points, 10, Origin::measured).origin == Origin::extrapolated);
  CHECK(lookup(points, 600, Origin::measured).seconds == 40);
  CHECK(lookup(points, 600, Origin::measured).origin == Origin::extrapolated);
}

TEST_CASE("validate names the table and the key") {
  struct Case {
    const char* table;
    const char* key;
    std::function<void(Hardware&)> spoil;
  };
  const char* const exchange = "kind=exchange transport=nccl path=intra";
  const std::vector<Case> cases = {
      {"node", "gpus", [](Hardware& h) { h.node.gpus = 0; }},
      {"gpu", "sms", [](Hardware& h) { h.gpu.sms = 0; }},
      {"gpu", "copy_bytes_s", [](Hardware& h) { h.gpu.copy_bytes_s = -1; }},
      {"gpu", "copy_bytes_s", [](Hardware& h) { h.gpu.copy_bytes_s = 2e18; }},
      {"gpu", "capacity_bytes", [](Hardware& h) { h.gpu.capacity_bytes = -1; }},
      {"gpu", "peak_flops.bf16",
       [](Hardware& h) {
         h.gpu.peak_flops = {{"bf16", -1.0}};
       }},
      {"fixed", "bytes", [](Hardware& h) { h.fixed_bytes = -1; }},
      {"node", "link_bytes_s", [](Hardware& h) { h.node.link_bytes_s = 2e18; }},
      {"network", "nic_bytes_s", [](Hardware& h) { h.network.nic_bytes_s = 0; }},
      {"host", "kernel_launch_s", [](Hardware& h) { h.host.kernel_launch_s = 1e18; }},
      {"host", "launch_latency_s", [](Hardware& h) { h.host.launch_latency_s = 2e6; }},
      {"message", exchange, [](Hardware& h) { h.messages[0].points.back().seconds = 1e7; }},
      {"host", "sync_s", [](Hardware& h) { h.host.sync_s = -1; }},
      {"host", "run_ahead", [](Hardware& h) { h.host.run_ahead = 0; }},
      {"network", "nics", [](Hardware& h) { h.network.nics = 3; }},
      {"network", "levels",
       [](Hardware& h) {
         h.network.levels = {{2, 1e9}};
       }},
      {"network", "levels", [](Hardware& h) { h.network.fabric = "fat_tree"; }},
      {"network", "levels",
       [](Hardware& h) {
         h.network.fabric = "fat_tree";
         h.network.levels = {{2, 1e9}, {3, 1e9}};
       }},
      {"network", "levels",
       [](Hardware& h) {
         h.network.fabric = "fat_tree";
         h.network.levels = {{2, 0}};
       }},
      {"network", "levels",
       [](Hardware& h) {
         h.network.fabric = "rails";
         h.network.levels = {{2, 1e9}, {4, 1e9}};
       }},
      {"network", "fabric", [](Hardware& h) { h.network.fabric = "star"; }},
      {"message", exchange, [](Hardware& h) { h.messages[0].points.clear(); }},
      {"message", exchange, [](Hardware& h) { h.messages[0].points[1].bytes = 1; }},
      {"message", exchange, [](Hardware& h) { h.messages[0].channels = 100; }},
      // 1 MB in 5 us is 200 GB/s over a link of 100 GB/s.
      {"message", exchange,
       [](Hardware& h) {
         h.messages[0].points = {{1e6, 5e-6}};
       }},
      {"interference", "class=attend",
       [](Hardware& h) {
         h.interference = {{OpKind::attend, Transport::nccl, 0.9, {}}};
       }},
  };
  CHECK_NOTHROW(validate(hand_machine(4)));
  for (const Case& c : cases) {
    Hardware hardware = hand_machine(4);
    c.spoil(hardware);
    CAPTURE(c.table);
    CAPTURE(c.key);
    try {
      validate(hardware);
      FAIL_CHECK("no exception");
    } catch (const HardwareError& error) {
      CHECK(error.table == c.table);
      CHECK(error.key == c.key);
    }
  }
}

TEST_CASE("start-up: what the curve keeps when the link carries the rest") {
  MessageTable table;
  table.points = {{1000, 11e-6}, {1e6, 15e-6}, {1e7, 200e-6}};
  // At 100 GB/s: 11 - 0.01, 15 - 10, 200 - 100.
  CHECK(near(startup_s(table, 100e9), 5e-6));
}

TEST_CASE("the shipped files are read, and what nobody measured is assumed") {
  const Hardware h200 = read_hardware(shipped("h200x4-cudnn.toml"));
  CHECK(h200.node.gpus == 4);
  CHECK(h200.gpu.sms == 132);
  CHECK(h200.host.provenance.origin == Origin::assumed);
  int measured = 0;
  for (const MessageTable& table : h200.messages) measured += table.provenance.origin == Origin::measured;
  CHECK(measured == 5);
  const Hardware h100 = read_hardware(shipped("h100x8.toml"));
  CHECK(h100.node.gpus == 8);
  for (const MessageTable& table : h100.messages) {
    // Collectives of at least 16 MiB were measured by others.
    const bool published = table.kind != OpKind::exchange && table.points.front().bytes > 1e7;
    CHECK(table.provenance.origin == (published ? Origin::measured : Origin::assumed));
  }
  const Hardware cluster = read_hardware(shipped("h100x64.toml"));
  CHECK(cluster.network.fabric == "non_blocking");
  CHECK_NOTHROW(require_ranks(cluster, 1024));
  CHECK_NOTHROW(require_ranks(h100, 8));
  CHECK_THROWS_AS(require_ranks(h100, 9), HardwareError);
}

TEST_CASE("the shipped H200 shift is reproduced at every measured size, both transports") {
  const Hardware hardware = read_hardware(shipped("h200x4-cudnn.toml"));
  for (const MessageTable& table : hardware.messages) {
    if (table.kind != OpKind::exchange || table.cuda_graph) continue;
    for (const CurvePoint& point : table.points) {
      HandPlan p(4);
      const auto bytes = static_cast<std::int64_t>(point.bytes);
      for (int r = 0; r < 4; ++r)
        p.exchange(r, {HandPlan::send((r + 1) % 4, bytes), HandPlan::receive((r + 3) % 4, bytes)}, {},
                   table.transport);
      const Simulation s = simulate(p.plan, hardware);
      for (const auto& rank : s.timeline.ranks) {
        CHECK(near(rank[0].end_s - rank[0].start_s, point.seconds));
        CHECK(rank[0].origin == Origin::measured);
      }
    }
  }
}

TEST_CASE("kernel times of the shipped files: cuDNN's rates as measured") {
  // B=1, S=4096, H=16, D=128 full on H200: 668 TFLOP/s; 4 B H S^2 D FLOPs. The file holds five digits.
  const Hardware hardware = read_hardware(shipped("h200x4-cudnn.toml"));
  Plan plan;
  plan.scenario.problem.head_size = plan.scenario.problem.value_size = 128;
  RankPlan rank;
  rank.segments.push_back({0, 4096, 0, 4096, 0, -1, -1});
  Operation op;
  sim_test::give_operands(rank, op, 16, 128);
  op.segments = {0, 1};
  const KernelCost cost =
      standard_kernel_cost(hardware)(plan, CallConverter(rank, plan.scenario.problem.dtype), op);
  CHECK(cost.seconds == doctest::Approx(4.0 * 16 * 4096 * 4096 * 128 / 668e12).epsilon(1e-4));
  CHECK(cost.origin == Origin::measured);
}

TEST_CASE("a hardware file is read strictly") {
  CHECK(parse_error(small_file) == "");
  std::string text = std::string(small_file) + "[network]\nfabric = \"star\"\n";
  CHECK(contains(parse_error(text), "non_blocking"));
  text = std::string(small_file);
  text.replace(text.find("sms"), 3, "smz");
  CHECK(contains(parse_error(text), "sms"));
  text = std::string(small_file) + "surprise = 1\n";
  CHECK(contains(parse_error(text), "surprise"));
  // Measured without saying how.
  text = std::string(small_file);
  text.replace(text.find("assumed"), 7, "measured");
  CHECK(contains(parse_error(text), "tool"));
  // Curves whose columns differ in length, and a class that is no kernel.
  const std::string message =
      "[[message]]\nkind = \"exchange\"\ntransport = \"nccl\"\npath = \"intra\"\ngroup = 2\nchannels = 4\n"
      "origin = \"assumed\"\nsource = \"test\"\n";
  CHECK(contains(parse_error(small_file + message + "bytes = [1000]\nseconds = [1e-5, 2e-5]\n"), "bytes"));
  CHECK(parse_error(small_file + message + "bytes = [1000]\nseconds = [1e-5]\n") == "");
  CHECK(contains(parse_error(small_file + message + "bytes = [1000000]\nseconds = [1e-6]\n"),
                 "faster than the link"));
  CHECK(contains(parse_error(std::string(small_file) + "[[kernel]]\nclass = \"exchange\"\n"), "attend"));
}

TEST_CASE("what --set made impossible is blamed on --set, what the file has on its line") {
  const auto error_with = [](const HardwareOverrides& overrides) -> std::string {
    try {
      read_hardware(shipped("h200x4-cudnn.toml"), overrides);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(contains(error_with({{"host.sync_s", "1e18"}}), "--set host.sync_s: host.sync_s: must be from 0 to"));
  // What is named is the message, what was set the multiprocessors; of two, those of the section.
  const std::string few = error_with({{"gpu.sms", "2"}});
  CHECK(few.rfind("--set gpu.sms: message kind=", 0) == 0);
  CHECK(contains(few, "channels must be from 0 to 1 (gpu.sms - 1), but is "));
  CHECK(error_with({{"gpu.sms", "100"}, {"message.0.channels", "500"}})
            .rfind("--set message.0.channels: ", 0) == 0);
  std::string text = small_file;
  text.replace(text.find("1e12"), 4, "1e19");
  CHECK(parse_error(text).rfind("small.toml:10: gpu.copy_bytes_s: must be from 1 to 1e+18 bytes/s", 0) == 0);
  text = std::string(small_file) +
         "[[interference]]\nclass = \"attend\"\nbeside = \"nccl\"\nslowdown = 0.5\n" +
         "origin = \"assumed\"\nsource = \"test\"\n";
  const std::string slow = parse_error(text);
  CHECK(slow.rfind("small.toml:", 0) == 0);
  CHECK(contains(slow, "interference[0]: class=attend: slowdown must be from 1 to"));
  CHECK(contains(parse_error("[node]\ngpus = 1\n"), "node.link_bytes_s: missing; must be a number"));
}

TEST_CASE("a missing table is named with those that are there") {
  const Hardware h200 = read_hardware(shipped("h200x4-cudnn.toml"));
  try {
    find_flow(h200, {.path = Path::inter, .group = 8});
    FAIL_CHECK("no exception");
  } catch (const HardwareError& error) {
    CHECK(error.key == "kind=exchange transport=nccl path=inter");
    CHECK(contains(error.what(), "there is transport="));
    CHECK(contains(error.what(), "path=intra"));
    CHECK_FALSE(contains(error.what(), "path=inter"));
  }
  try {
    find_flow(Hardware{}, {.transport = Transport::copy});
    FAIL_CHECK("no exception");
  } catch (const HardwareError& error) {
    CHECK(contains(error.what(), "none at all"));
  }
}

TEST_CASE("what is set by hand is assumed") {
  const Hardware hardware =
      read_hardware(shipped("h200x4-cudnn.toml"), {{"gpu.sms", "114"}, {"node.gpus", "2"}});
  CHECK(hardware.gpu.sms == 114);
  CHECK(hardware.gpu.provenance.origin == Origin::assumed);
  CHECK(hardware.node.gpus == 2);
  CHECK(hardware.gpu.sm_major == 9);
  const Hardware other =
      read_hardware(shipped("h200x4-cudnn.toml"), {{"gpu.compute_capability", "\"10.3\""}});
  CHECK(other.gpu.sm_major == 10);
  // Without quotes too, as a shell leaves it.
  for (const auto& [text, major, minor] :
       {std::tuple{"9.0", 9, 0}, {"10.0", 10, 0}, {"8.9", 8, 9}, {"12.1", 12, 1}}) {
    const Hardware bare = read_hardware(shipped("h200x4-cudnn.toml"), {{"gpu.compute_capability", text}});
    CHECK(bare.gpu.sm_major == major);
    CHECK(bare.gpu.sm_minor == minor);
  }
  CHECK(other.gpu.provenance.origin == Origin::assumed);
  for (const char* wrong : {"\"hopper\"", "\"9\"", "\"9.\"", "\"0.0\"", "\"9.0a\"", "9", "9.05"})
    CHECK_THROWS_AS(read_hardware(shipped("h200x4-cudnn.toml"), {{"gpu.compute_capability", wrong}}),
                    InputError);
  CHECK_THROWS_AS(read_hardware(shipped("h200x4-cudnn.toml"), {{"gpu.smz", "114"}}), InputError);
}

}  // namespace cplab
