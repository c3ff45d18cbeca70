// Element-wise kernels slower than a copy, attention that neither adds nor merges, and backwards whose rate
// goes by rows of both sides: worked out by hand on 100 multiprocessors and memory of 1 TB/s.
#include <doctest/doctest.h>

#include <cmath>

#include "cli/files/hardware_file.hpp"
#include "cli/files/text_file.hpp"
#include "sim/kernel_cost.hpp"
#include "tests/contains.hpp"
#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using namespace sim_test;
using testing::contains;

struct Machine {
  Hardware hardware = hand_machine(1);
  Plan plan;
  RankPlan rank;

  Machine() {
    plan.scenario.problem.dtype = DType::bf16;
    plan.scenario.problem.head_size = plan.scenario.problem.value_size = 64;
    hardware.elementwise.provenance.origin = Origin::measured;
  }
  KernelCost cost(const Operation& op) const {
    return standard_kernel_cost(hardware)(plan, CallConverter(rank, DType::bf16), op);
  }
  KernelCost of_bytes(OpKind kind, std::int64_t bytes) const {
    Operation op;
    op.kind = kind;
    op.bytes = bytes;
    return cost(op);
  }
};

// 1280 rows are 10 tiles a head: 10 heads fill the GPU once, 5120 rows four times. The rate of 5120 is twice
// that of 1280.
KernelTable table(OpKind kind) {
  KernelTable t;
  t.kind = kind;
  t.variant = "a library";
  t.head_size = t.value_size = 64;
  t.provenance.origin = Origin::measured;
  t.points = {{1, 1280, 10, 100e-6}, {1, 5120, 10, 800e-6}};
  return t;
}

Operation attention(Machine& m, OpKind kind, std::int64_t queries, std::int64_t keys) {
  Operation op;
  op.kind = kind;
  give_operands(m.rank, op, 10, 64);
  op.segments = {static_cast<std::uint32_t>(m.rank.segments.size()), 1};
  m.rank.segments.push_back({0, queries, 0, keys, 0, -1, -1});
  return op;
}

std::string error_of(const std::string& section) {
  const std::string path = CPLAB_TEST_SCENARIOS "/hardware/h100x64.toml";
  try {
    parse_hardware(read_text_file(path) + "\n[elementwise]\n" + section, path);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a class of element-wise kernels moves its part of what a copy does") {
  Machine m;
  CHECK(near(m.of_bytes(OpKind::merge, 3 * mega).seconds, 3e-6));
  CHECK(m.of_bytes(OpKind::merge, 3 * mega).origin == Origin::extrapolated);
  m.hardware.elementwise.efficiency = {{OpKind::merge, 0.25}, {OpKind::add, 0.5}};
  CHECK(near(m.of_bytes(OpKind::merge, 3 * mega).seconds, 12e-6));
  CHECK(near(m.of_bytes(OpKind::add, 3 * mega).seconds, 6e-6));
  CHECK(near(m.of_bytes(OpKind::cast, 3 * mega).seconds, 3e-6));
  // Measured, but at one size of which this is not one.
  CHECK(m.of_bytes(OpKind::merge, 3 * mega).origin == Origin::interpolated);
  m.hardware.elementwise.provenance.origin = Origin::assumed;
  CHECK(m.of_bytes(OpKind::merge, 3 * mega).origin == Origin::assumed);
  CHECK(m.of_bytes(OpKind::cast, 3 * mega).origin == Origin::extrapolated);
  // A curve of the class says how long its kernels take.
  KernelTable curve;
  curve.kind = OpKind::merge;
  curve.provenance.origin = Origin::measured;
  curve.curve = {{1e6, 2e-6}, {3e6, 5e-6}};
  m.hardware.kernels.push_back(curve);
  CHECK(near(m.of_bytes(OpKind::merge, 3 * mega).seconds, 5e-6));
}

TEST_CASE("attention that only stores: an element-wise kernel adds or merges behind it") {
  Machine m;
  m.hardware.kernels = {table(OpKind::attend), table(OpKind::attend_backward)};
  m.hardware.elementwise.apart = true;
  m.hardware.elementwise.efficiency = {{OpKind::merge, 0.25}, {OpKind::add, 0.5}};
  Operation stored = attention(m, OpKind::attend_backward, 1280, 1280);
  CHECK(near(m.cost(stored).seconds, 100e-6));
  // dq: 2^20 rows x 10 heads x 64 in bf16, 1342.17728 MB, read twice and written once at 0.5 TB/s.
  const double bytes = 1048576.0 * 10 * 64 * 2;
  for (std::uint32_t i = stored.writes.first; i < stored.writes.first + stored.writes.count; ++i)
    if (m.rank.accesses[i].operand == Operand::dq) m.rank.accesses[i].mode = WriteMode::add;
  CHECK(near(m.cost(stored).seconds, 100e-6 + 3 * bytes / 0.5e12));
  // A forward that merges, at 0.25 TB/s.
  Operation merged = attention(m, OpKind::attend, 1280, 1280);
  for (std::uint32_t i = merged.writes.first; i < merged.writes.first + merged.writes.count; ++i)
    if (m.rank.accesses[i].operand == Operand::out) m.rank.accesses[i].mode = WriteMode::merge;
  CHECK(near(m.cost(merged).seconds, 100e-6 + 3 * bytes / 0.25e12));
  // Kernels that add by themselves read what is there, once.
  m.hardware.elementwise.apart = false;
  CHECK(near(m.cost(merged).seconds, 100e-6 + bytes / 1e12));
}

TEST_CASE("attention of a program for any lengths: operands are gathered, results scattered into zeros") {
  Machine m;
  m.hardware.kernels = {table(OpKind::attend), table(OpKind::attend_backward)};
  m.hardware.elementwise.gathers = true;
  m.hardware.elementwise.efficiency = {{OpKind::copy, 0.5}};
  // 1280 rows of 10 heads of 64 in bf16 are 1.6384 MB: q, k, v twice, out three times; at 0.5 TB/s.
  const double operand = 1280 * 10 * 64 * 2;
  CHECK(near(m.cost(attention(m, OpKind::attend, 1280, 1280)).seconds,
             100e-6 + (3 * 2 + 3) * operand / 0.5e12));
  // q, k, v, out, dout twice, three gradients three times; 5120 keys are four times the bytes of k, v, dk,
  // dv.
  CHECK(near(m.cost(attention(m, OpKind::attend_backward, 1280, 1280)).seconds,
             100e-6 + (5 * 2 + 3 * 3) * operand / 0.5e12));
  const double long_keys = m.cost(attention(m, OpKind::attend_backward, 1280, 5120)).seconds;
  m.hardware.elementwise.gathers = false;
  CHECK(near(long_keys - m.cost(attention(m, OpKind::attend_backward, 1280, 5120)).seconds,
             ((3 * 2 + 3) + 4 * (2 * 2 + 2 * 3)) * operand / 0.5e12));
}

TEST_CASE("a backward's rate by rows of both sides") {
  // Full, 10 heads: 5120 queries of 1280 keys, which are one wave of tiles of keys. Tiles of 5120 rows walk
  // over them at the rate of the square of 5120: one of its four waves, 200 us.
  Machine m;
  m.hardware.kernels = {table(OpKind::attend_backward)};
  const Operation tall = attention(m, OpKind::attend_backward, 5120, 1280);
  CHECK(near(m.cost(tall).seconds, 200e-6));
  // Both sides: 2 x 5120 x 1280 / 6400 = 2048 rows, a fifth of the way from 1280 to 5120: a wave of 120 us
  // there, and 2.5 times as much of it.
  m.hardware.kernels[0].both_sides = true;
  CHECK(near(m.cost(tall).seconds, 2.5 * 120e-6));
  // A square has as many of both.
  CHECK(near(m.cost(attention(m, OpKind::attend_backward, 5120, 5120)).seconds, 800e-6));
  CHECK(near(m.cost(attention(m, OpKind::attend_backward, 1280, 1280)).seconds, 100e-6));
}

TEST_CASE("[elementwise] of a hardware file") {
  const std::string path = CPLAB_TEST_SCENARIOS "/hardware/h100x64.toml";
  const std::string from = "origin = \"assumed\"\nsource = \"test\"\n";
  const Hardware hardware = parse_hardware(
      read_text_file(path) + "\n[elementwise]\nmerge = 0.15\nrow_dot = 0.5\napart = true\n" + from, path);
  CHECK(hardware.elementwise.of(OpKind::merge) == 0.15);
  CHECK(hardware.elementwise.of(OpKind::row_dot) == 0.5);
  CHECK(hardware.elementwise.of(OpKind::copy) == 1);
  CHECK(hardware.elementwise.apart);
  CHECK(!read_hardware(path).elementwise.apart);
  CHECK(contains(error_of("merge = 0\n" + from),
                 "elementwise.merge: must be from 0.001 to 20 of gpu.copy_bytes_s, but is 0"));
  CHECK(contains(error_of("merge = 25\n" + from), "elementwise.merge: must be from 0.001 to 20"));
  CHECK(contains(error_of("attend = 0.5\n" + from), "elementwise.attend"));
  CHECK(contains(error_of("merge = 0.5\n"), "elementwise.origin: missing"));
  // Set by hand it is assumed.
  const Hardware set = read_hardware(path, {{"elementwise.merge", "0.3"}});
  CHECK(set.elementwise.of(OpKind::merge) == 0.3);
  CHECK(set.elementwise.provenance.origin == Origin::assumed);
}

}  // namespace cplab
