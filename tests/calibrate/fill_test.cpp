// What is done to measured numbers on their way into a machine, on numbers worked out by hand.
#include "calibrate/fill.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "cli/files/calibration_file.hpp"
#include "tests/calibrate/made_up.hpp"
#include "tests/contains.hpp"

using namespace cplab;
using cplab::testing::contains;
using measure::Measurement;

namespace {

Hardware base() {
  return base_machine("h200x4", made_up_machine());
}

std::vector<KernelTable> tables(const Hardware& hardware, OpKind kind, DType dtype) {
  std::vector<KernelTable> found;
  for (const KernelTable& table : hardware.kernels)
    if (table.kind == kind && table.dtype == dtype) found.push_back(table);
  return found;
}

}  // namespace

TEST_CASE("a base is assumed throughout, of the machine that is there") {
  const Hardware hardware = base();
  CHECK(hardware.node.gpus == 2);
  CHECK(hardware.gpu.capacity_bytes == 150'000'000'000);
  CHECK(std::none_of(hardware.kernels.begin(), hardware.kernels.end(),
                     [](const KernelTable& t) { return t.provenance.origin == Origin::measured; }));
  CHECK(contains(hardware.gpu.provenance.source, "from h200x4.toml: measured on 4 x NVIDIA H200"));
  CHECK(faults_of(hardware).empty());
}

TEST_CASE("times that fall are lowered to those of larger sizes, and fp16 is as bf16") {
  Hardware hardware = base();
  MadeUp made_up;
  CHECK(measure::take(made_up.measure("copies", 1, 0), made_up.machine(), hardware).empty());
  CHECK(hardware.gpu.copy_bytes_s == 4e12);
  CHECK(hardware.gpu.provenance.origin == Origin::measured);
  const auto bf16 = tables(hardware, OpKind::merge, DType::bf16),
             fp16 = tables(hardware, OpKind::merge, DType::fp16);
  REQUIRE(bf16.size() == 1);
  REQUIRE(fp16.size() == 1);
  CHECK(bf16[0].provenance.origin == Origin::measured);
  CHECK(fp16[0].provenance.origin == Origin::assumed);
  for (const KernelTable* table : {&bf16[0], &fp16[0]}) {
    REQUIRE(table->curve.size() == 3);
    CHECK(table->curve[0].seconds == 2.9e-6);  // 3e-6 measured, 2.9e-6 at twice the bytes
    CHECK(table->curve[1].seconds == 2.9e-6);
    CHECK(table->curve[2].seconds == 8e-5);
  }
}

TEST_CASE("noise above a fifth is said") {
  Hardware hardware = base();
  Measurement found;
  found.curves.push_back({"merge", "merge", "", {{65536, 4e-6}, {131072, 3e-6}}});
  const auto said = measure::take(found, made_up_machine(), hardware);
  REQUIRE(said.size() == 1);
  CHECK(contains(said[0], "by up to 33 %"));  // 4 / 3
}

TEST_CASE("measured attention takes the place of what was assumed of the same kernel, and points add up") {
  Hardware hardware = base();
  MadeUp made_up;
  (void)measure::take(made_up.measure("attention 128", 1, 0), made_up.machine(), hardware);
  const auto mine = [&] {
    std::vector<KernelTable> found;
    for (const KernelTable& table : tables(hardware, OpKind::attend, DType::bf16))
      if (table.variant == "attend hopper bf16 128" && !table.causal && table.head_size == 128 &&
          table.value_size == 128)
        found.push_back(table);
    return found;
  };
  REQUIRE(mine().size() == 1);
  CHECK(mine()[0].points.size() == 3);
  CHECK(mine()[0].points[1].seconds == doctest::Approx(made_up_attend_s(false, false, 4096)).epsilon(1e-5));
  Measurement finer;
  finer.attention.push_back({"attend",
                             "attend hopper bf16 128",
                             128,
                             false,
                             128,
                             {{1, 2048, 16, 1e-4, true}, {1, 4096, 16, 4e-4, true}}});
  (void)measure::take(finer, made_up.machine(), hardware);
  REQUIRE(mine().size() == 1);
  REQUIRE(mine()[0].points.size() == 4);
  CHECK(mine()[0].points[1].seconds == 1e-4);
  CHECK(mine()[0].points[2].seconds == 4e-4);  // measured again
  // Points at the highest clock have a table of their own where the machine has a burst, as this one has.
  REQUIRE(hardware.burst.seconds > 0);
  Measurement fast;
  fast.attention.push_back(
      {"attend", "attend hopper bf16 128", 128, false, 128, {{1, 512, 16, 1e-5, false}}});
  (void)measure::take(fast, made_up.machine(), hardware);
  REQUIRE(mine().size() == 2);
  CHECK_FALSE(mine()[1].sustained);
}

TEST_CASE("multiprocessors that NCCL takes are not counted twice") {
  Hardware hardware = base();
  Measurement found;
  found.interference = {{"attend", "nccl", {}, {}, 1.2, 16},
                        {"attend", "copy", {}, {}, 1.2, 0},
                        {"merge", "nccl", {}, {}, 1.2, 16}};
  (void)measure::take(found, made_up_machine(), hardware);
  const auto slowdown = [&](OpKind kind, Transport beside) {
    for (const InterferenceRow& row : hardware.interference)
      if (row.kind == kind && row.beside == beside) return row.slowdown;
    return 0.0;
  };
  CHECK(slowdown(OpKind::attend, Transport::nccl) == doctest::Approx(1.2 * (132 - 16) / 132).epsilon(1e-5));
  CHECK(slowdown(OpKind::attend, Transport::copy) == 1.2);
  CHECK(slowdown(OpKind::merge, Transport::nccl) == 1.2);
}

TEST_CASE("an exchange faster than the link raises it, and a table that cannot be is left out") {
  Hardware hardware = base();
  Measurement found;
  measure::MessageTable table;
  table.kind = "exchange";
  table.transport = "copy";
  table.group = 2;
  table.points = {{4096, 5e-6}, {268435456, 268435456 / 500e9}};
  found.messages.push_back(table);
  auto said = measure::take(found, made_up_machine(), hardware);
  CHECK(hardware.node.link_bytes_s == doctest::Approx(1.02 * 500e9).epsilon(1e-5));
  REQUIRE(said.size() == 1);
  CHECK(contains(said[0], "node.link_bytes_s: raised"));
  // 4 x 16 x 128 x 32768^2 FLOP in a millisecond are 8.8 PFLOP/s, of a GPU with 0.99.
  Measurement impossible;
  impossible.attention.push_back(
      {"attend", "attend hopper bf16 128", 128, false, 128, {{1, 32768, 16, 1e-3, true}}});
  said = measure::take(impossible, made_up_machine(), hardware);
  REQUIRE(said.size() == 2);  // bf16, and fp16 as bf16
  CHECK(contains(said[0], "no machine can have it"));
  CHECK(faults_of(hardware).empty());
}

TEST_CASE("host costs that were not measured stay, and the section says which") {
  Hardware hardware = base();
  const double before = hardware.host.communication_launch_s;
  Measurement found;
  found.host.push_back({3e-6, 2e-6, 0, 0, 0, 3e-6, 1e-6, 1e-6, 9e-6, 5e-6, 1e-6, 0});
  (void)measure::take(found, made_up_machine(), hardware);
  CHECK(hardware.host.kernel_launch_s == 3e-6);
  CHECK(hardware.host.launch_latency_s == 0);
  CHECK(hardware.host.communication_launch_s == before);
  CHECK(hardware.host.provenance.origin == Origin::assumed);
  CHECK(contains(hardware.host.provenance.source, "communication_launch_s, copy_launch_s from h200x4.toml"));
}

TEST_CASE("messages between nodes bring the network that carries them") {
  Hardware hardware = base_machine("h200x4", {});  // has none
  REQUIRE(hardware.network.fabric.empty());
  Measurement found;
  measure::MessageTable table;
  table.kind = "exchange";
  table.transport = "nccl";
  table.group = 2;
  table.inter = true;
  table.points = {{4096, 20e-6}, {268435456, 268435456 / 40e9}};
  found.messages.push_back(table);
  CHECK(measure::take(found, made_up_machine(), hardware).empty());
  CHECK(hardware.network.fabric == "non_blocking");
  CHECK(hardware.network.nics == hardware.node.gpus);
  CHECK(hardware.network.nic_bytes_s == doctest::Approx(1.02 * 40e9).epsilon(1e-5));
  CHECK(hardware.network.provenance.origin == Origin::assumed);
  CHECK(hardware.messages.back().path == Path::inter);
  CHECK(hardware.messages.back().provenance.origin == Origin::measured);
  CHECK(hardware.messages.back().channels > 0);
  CHECK(faults_of(hardware).empty());
}
