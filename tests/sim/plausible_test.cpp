// Numbers that cannot be meant, and the unit in which they were.
#include "sim/plausible.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "sim/kernel_cost.hpp"
#include "tests/contains.hpp"
#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using namespace sim_test;
using testing::contains;

// A machine of today with a table of each kind: attention at 600 of 1000 TFLOP/s, messages at 200 of 450
// GB/s.
Hardware machine_of_today() {
  Hardware h = hand_machine(8);
  h.node.link_bytes_s = 450e9;
  h.network.fabric = "non_blocking";
  h.network.nics = 8;
  h.network.nic_bytes_s = 50e9;
  h.gpu.capacity_bytes = 80'000'000'000;
  h.gpu.copy_bytes_s = 3e12;
  h.gpu.sms = 132;
  h.gpu.peak_flops = {{"bf16", 1000e12}, {"fp64", 60e12}};
  h.fixed_bytes = 900'000'000;
  h.host.kernel_launch_s = 3e-6;
  h.interference = {{OpKind::attend, Transport::nccl, 1.05, {}}};
  h.kernels.clear();
  KernelTable attend;
  attend.kind = OpKind::attend;
  attend.head_size = attend.value_size = 128;
  attend.sms = 132;
  for (const std::int64_t sequence : {512, 4096, 32768}) {
    KernelPoint point{1, sequence, 16, 0};
    point.seconds = point_flops(attend, point) / 600e12;
    attend.points.push_back(point);
  }
  h.kernels.push_back(attend);
  KernelTable merge;
  merge.kind = OpKind::merge;
  merge.curve = {{1e5, 2e-6}, {1e9, 4e-4}};
  h.kernels.push_back(merge);
  h.messages.clear();
  MessageTable exchange;
  exchange.group = 8;
  exchange.channels = 8;
  exchange.points = {{4096, 20e-6}, {1e8, 520e-6}};
  h.messages.push_back(exchange);
  MessageTable gather = exchange;
  gather.kind = OpKind::all_gather;
  h.messages.push_back(gather);
  return h;
}

std::string spoilt_error(const std::function<void(Hardware&)>& spoil) {
  Hardware h = machine_of_today();
  spoil(h);
  for (const auto& faults : {implausible_numbers(h), faults_of(h), implausible_rows(h, {})})
    if (!faults.empty())
      return faults.front().table + "." + faults.front().key + ": " + faults.front().what();
  return "";
}

}  // namespace

TEST_CASE("a machine of today is plausible") {
  CHECK(spoilt_error([](Hardware&) {}) == "");
}

TEST_CASE("numbers out of range, with the unit that was meant") {
  struct Case {
    std::string place, idea;
    std::function<void(Hardware&)> spoil;
  };
  const std::vector<Case> cases{
      {"node.link_bytes_s: 450 bytes/s", "did you mean 450e9 (450 GB/s)?",
       [](Hardware& h) { h.node.link_bytes_s = 450; }},
      {"node.link_bytes_s: 0.9 bytes/s", "did you mean 0.9e12 (0.9 TB/s)?",
       [](Hardware& h) { h.node.link_bytes_s = 0.9; }},
      {"node.link_bytes_s: 450000 bytes/s", "did you mean 450000e6 (450000 MB/s)?",
       [](Hardware& h) { h.node.link_bytes_s = 450000; }},
      {"network.nic_bytes_s: 400 bytes/s", "did you mean 50e9 (400 Gb/s) or 400e9 (400 GB/s)?",
       [](Hardware& h) { h.network.nic_bytes_s = 400; }},
      {"network.level: 800 bytes/s", "did you mean 100e9 (800 Gb/s)",
       [](Hardware& h) {
         h.network.fabric = "fat_tree";
         h.network.levels = {{2, 800}};
       }},
      {"gpu.copy_bytes_s: 3.35 bytes/s", "did you mean 3.35e12 (3.35 TB/s)?",
       [](Hardware& h) { h.gpu.copy_bytes_s = 3.35; }},
      {"gpu.copy_bytes_s: 3350 bytes/s", "did you mean 3350e9 (3350 GB/s)?",
       [](Hardware& h) { h.gpu.copy_bytes_s = 3350; }},
      {"gpu.capacity_bytes: 80 bytes", "did you mean 80e9 (80 GB)?",
       [](Hardware& h) { h.gpu.capacity_bytes = 80; }},
      {"gpu.capacity_bytes: 81559 bytes", "did you mean 81559e6 (81559 MB)?",
       [](Hardware& h) { h.gpu.capacity_bytes = 81559; }},
      {"gpu.peak_flops.bf16: 989 FLOP/s", "did you mean 989e12 (989 TFLOP/s)?",
       [](Hardware& h) { h.gpu.peak_flops[0].second = 989; }},
      {"gpu.peak_flops.bf16: 2.25 FLOP/s", "did you mean 2.25e15 (2.25 PFLOP/s)?",
       [](Hardware& h) { h.gpu.peak_flops[0].second = 2.25; }},
      {"fixed.bytes: 900 bytes", "did you mean 900e6 (900 MB)?", [](Hardware& h) { h.fixed_bytes = 900; }},
      {"host.kernel_launch_s: 3 s", "did you mean 3e-6 (3 us)?",
       [](Hardware& h) { h.host.kernel_launch_s = 3; }},
      {"host.sync_s: 3000 s", "did you mean 3000e-9 (3000 ns)?", [](Hardware& h) { h.host.sync_s = 3000; }},
      {"gpu.sms: 132000", "", [](Hardware& h) { h.gpu.sms = 132000; }},
      {"node.gpus: 5000", "", [](Hardware& h) { h.node.gpus = 5000; }},
      {"interference.class=attend slowdown: 105", "did you mean 1.05 (105 percent)?",
       [](Hardware& h) { h.interference[0].slowdown = 105; }},
      {"message.kind=exchange transport=nccl path=intra bytes: 1e+14 bytes", "",
       [](Hardware& h) {
         h.messages[0].points.push_back({1e14, 1e4});
       }},
  };
  for (const Case& c : cases) {
    const std::string error = spoilt_error(c.spoil);
    CAPTURE(error);
    CHECK(error.find(c.place + " is in no machine: from ") == 0);
    CHECK(contains(error, c.idea));
    CHECK(contains(error, "?") == !c.idea.empty());
  }
}

TEST_CASE("every range takes its ends, gives a reason, and holds what is usual") {
  for (const PlausibleRange& range : plausible_ranges()) {
    CAPTURE(range.key);
    CHECK(range.low < range.high);
    CHECK(range.low <= range.usual_low);
    CHECK(range.usual_high <= range.high);
    CHECK(range.reason.size() > 10);
  }
  for (const double value : {1e6, 1e14}) {
    CHECK(spoilt_error([&](Hardware& h) {
            h.node.link_bytes_s = value;
            h.messages.clear();
          }) == "");
  }
  CHECK(spoilt_error([](Hardware& h) { h.node.link_bytes_s = 0.9e6; }) != "");
  CHECK(spoilt_error([](Hardware& h) { h.fixed_bytes = 0; }) == "");
  // Teaching machines: one core and a slow link.
  CHECK(spoilt_error([](Hardware& h) {
          h.node.link_bytes_s = 125e6;
          h.gpu.sms = 1;
          h.gpu.copy_bytes_s = 1e9;
          h.gpu.peak_flops = {{"bf16", 1e9}};
          h.gpu.capacity_bytes = 1 << 30;
          h.kernels.clear();
          h.messages = {h.messages[0]};
          h.messages[0].channels = 0;
          h.messages[0].transport = Transport::copy;
          h.messages[0].points = {{1000, 1e-4}, {1e6, 0.01}};
        }) == "");
}

TEST_CASE("attention rows against the peak of their dtype") {
  const auto with_factor = [](double factor) {
    return spoilt_error([&](Hardware& h) {
      for (KernelPoint& point : h.kernels[0].points) point.seconds *= factor;
    });
  };
  CHECK(with_factor(0.6) == "");  // at the peak
  CHECK(with_factor(100) == "");  // 6 TFLOP/s: a first kernel
  const std::string fast = with_factor(0.02);
  CHECK(contains(fast, "kernel.class=attend dtype=bf16: batch 1, sequence 512, heads 16 in "));
  CHECK(contains(fast, "is 30 PFLOP/s, beyond the peak of 1 PFLOP/s (gpu.peak_flops.bf16)"));
  CHECK(contains(with_factor(1e3), "less than a thousandth of the peak of 1 PFLOP/s"));
  CHECK(contains(with_factor(1e3), "e-3 ("));
  CHECK(contains(with_factor(1e6), " us)?"));
  // 88 PFLOP/s beside 2.25, as found.
  CHECK(contains(spoilt_error([](Hardware& h) {
                   h.gpu.peak_flops = {{"bf16", 2.25e15}};
                   h.kernels[0].points = {{1, 32768, 16, 0}};
                   h.kernels[0].points[0].seconds = point_flops(h.kernels[0], h.kernels[0].points[0]) / 88e15;
                 }),
                 "is 88 PFLOP/s, beyond the peak of 2.25 PFLOP/s"));
  // No peak for the dtype: nothing to compare with. A table of a larger GPU: its own peak.
  CHECK(spoilt_error([](Hardware& h) { h.gpu.peak_flops = {{"fp32", 1e12}}; }) == "");
  CHECK(spoilt_error([](Hardware& h) {
          h.gpu.sms = 66;
          h.gpu.peak_flops = {{"bf16", 500e12}};
        }) == "");
  CHECK(spoilt_error([](Hardware& h) { h.gpu.sms = 264; }) == "");
}

TEST_CASE("message and memory rows against links and memory") {
  const auto points = [](std::size_t message, std::vector<CurvePoint> rows) {
    return spoilt_error([&](Hardware& h) { h.messages[message].points = rows; });
  };
  // Seconds in milliseconds or microseconds.
  CHECK(contains(points(0, {{4096, 20e-3}, {1e8, 0.52}}), "did you mean 0.52e-3 (0.52 ms)?"));
  CHECK(contains(points(0, {{4096, 20}, {1e8, 520}}), " us)?"));
  // Bytes in MiB or KiB.
  CHECK(contains(points(0, {{1, 20e-6}, {256, 900e-6}}),
                 "did you mean MiB? Write bytes, such as 256 x 1048576"));
  CHECK(contains(points(0, {{4, 20e-6}, {65536, 900e-6}}), "did you mean KiB?"));
  // Faster than the link: an exchange never, a collective by what switches can save.
  CHECK(contains(points(0, {{1e9, 1e-3}}), "some point is faster than the link"));
  CHECK(points(1, {{1e9, 1e-3}}) == "");
  CHECK(contains(points(1, {{1e9, 1e-4}}), "10 TB/s, beyond the 450 GB/s of the link that carries it"));
  // A link that is slowed down on the command line: the curves are those of the file.
  CHECK(spoilt_error([](Hardware& h) {
          for (MessageTable& message : h.messages) message.link_bytes_s = h.node.link_bytes_s;
          h.node.link_bytes_s = 1e7;
        }) == "");
  const auto merge = [](std::vector<CurvePoint> rows) {
    return spoilt_error([&](Hardware& h) { h.kernels[1].curve = rows; });
  };
  CHECK(merge({{1e6, 1e-6 / 10}}) == "");  // 10 TB/s: in L2
  CHECK(contains(merge({{1e6, 1e-8}}), "beyond the 3 TB/s that memory has (gpu.copy_bytes_s)"));
  CHECK(contains(merge({{1e5, 2e-3}, {1e9, 0.4}}), "did you mean 0.4e-3 (0.4 ms)?"));
}

}  // namespace cplab
