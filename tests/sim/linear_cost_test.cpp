// Kernels of linear attention: thread blocks, steps and bytes of every cut worked out by hand on 100
// multiprocessors; the roofline; tables.
#include "sim/linear_cost.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "cli/files/hardware_file.hpp"
#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using sim_test::near;
using enum Operand;

// D = 128, E = 64, 10 heads; the points' operands stand for an operation's.
KernelTable cut_table(OpKind kind, ChunkWork cut, std::int64_t chunk, std::vector<Operand> states = {},
                      std::int64_t sequences = 1) {
  KernelTable t;
  t.kind = kind;
  t.head_size = 128;
  t.value_size = 64;
  t.cut = cut;
  t.chunk = chunk;
  t.sequences = sequences;
  t.states = std::move(states);
  t.provenance.origin = Origin::measured;
  return t;
}

RankPlan rank_of(const KernelTable& t, std::int64_t tokens, std::int64_t heads = 10) {
  return linear_point(t, {1, tokens, heads, 0});
}

// On a GPU with 100 multiprocessors whose kernels are those that every GPU has (0), or Hopper's too (9). The
// general ones take fp32.
LinearWork work_of(const RankPlan& rank, DType dtype = DType::bf16, int sm_major = 0) {
  GpuSpec gpu;
  gpu.sms = 100;
  gpu.sm_major = sm_major;
  return linear_work(CallConverter(rank, dtype), rank.operations.front(), dtype, gpu);
}

LinearLaunch launch_of(const KernelTable& t, std::int64_t tokens, DType dtype = DType::bf16,
                       int sm_major = 0) {
  const RankPlan rank = rank_of(t, tokens);
  return linear_launch(work_of(rank, dtype, sm_major));
}

// 1 TB/s, 100 TFLOP/s in bf16, 2 us a step, 1 us a kernel.
Hardware linear_machine() {
  Hardware hardware = sim_test::hand_machine(1);
  hardware.gpu.peak_flops = {{"bf16", 100e12}};
  hardware.linear.step_s = 2e-6;
  hardware.linear.floor_s = 1e-6;
  return hardware;
}

// Bytes of one operand of `tokens` rows, 10 heads, bf16: with the width of q, and of v.
double key_bytes(double tokens) {
  return tokens * 10 * 128 * 2;
}
double value_bytes(double tokens) {
  return tokens * 10 * 64 * 2;
}
constexpr double state_bytes = 128 * 64 * 10 * 4;

}  // namespace

TEST_CASE("local, blocked: a thread block for every chunk and head, operands once") {
  // 4096 tokens in chunks of 256: 16 x 10 thread blocks of one part (E = 64), 4 steps of 64 tokens each.
  const LinearLaunch launch = launch_of(cut_table(OpKind::local, ChunkWork::blocked, 256), 4096);
  CHECK(launch.blocks == 160);
  CHECK(launch.steps == 4);
  CHECK(launch.bytes == 2 * key_bytes(4096) + 2 * value_bytes(4096));
}

TEST_CASE("local, serial: 32 columns of E a thread block, which reads all of q and k") {
  // 8 sequences of 512 tokens, each one chunk: 8 x 10 x 2 thread blocks, 8 steps; q and k are read twice.
  const LinearLaunch launch =
      launch_of(cut_table(OpKind::local, ChunkWork::serial, 0, {final_state}, 8), 4096);
  CHECK(launch.blocks == 160);
  CHECK(launch.steps == 8);
  CHECK(launch.bytes == 4 * key_bytes(4096) + 2 * value_bytes(4096) + 8 * state_bytes);
}

TEST_CASE("local, sliced: slices of 64 rows of D read v again and add to out") {
  // One slice of E, two of D: v twice; out is written, then read and written by the second slice.
  const LinearLaunch launch =
      launch_of(cut_table(OpKind::local, ChunkWork::sliced, 0, {carry, final_state}, 8), 4096);
  CHECK(launch.blocks == 8 * 10 * 2);
  CHECK(launch.steps == 8);
  CHECK(launch.bytes == 2 * key_bytes(4096) + 2 * value_bytes(4096) + value_bytes(4096) +
                            2 * value_bytes(4096) + 2 * 8 * state_bytes);
}

TEST_CASE("local_backward walks twice, parts of three results read all operands") {
  // Blocked: one part of dv (64 columns), two each of dq and dk: 5 parts, which read q, k, v and dout.
  const LinearLaunch blocked = launch_of(cut_table(OpKind::local_backward, ChunkWork::blocked, 256), 4096);
  CHECK(blocked.blocks == 160 * 5);
  CHECK(blocked.steps == 8);
  const double once = 4 * key_bytes(4096) + 3 * value_bytes(4096);
  CHECK(blocked.bytes == once + 4 * 2 * (key_bytes(4096) + value_bytes(4096)));
  // Serial: two parts of 32 columns of E. Sliced: two slices of D, one of E: v, dout and partial dv again.
  const LinearLaunch serial = launch_of(cut_table(OpKind::local_backward, ChunkWork::serial, 0, {}, 8), 4096);
  CHECK(serial.blocks == 160);
  CHECK(serial.steps == 16);
  CHECK(serial.bytes == once + 2 * (key_bytes(4096) + value_bytes(4096)));
  const LinearLaunch sliced = launch_of(cut_table(OpKind::local_backward, ChunkWork::sliced, 0, {}, 8), 4096);
  CHECK(sliced.blocks == 160);
  CHECK(sliced.bytes == once + 4 * value_bytes(4096));
}

TEST_CASE("state and inter: a ragged last chunk counts as it is, the longest one is walked") {
  // 1000 tokens in chunks of 256: 4 chunks, the last of 232. State: two parts of D read v twice.
  const LinearLaunch states = launch_of(cut_table(OpKind::state, ChunkWork::blocked, 256, {state}), 1000);
  CHECK(states.blocks == 4 * 10 * 2);
  CHECK(states.steps == 4);
  CHECK(states.bytes == key_bytes(1000) + 2 * value_bytes(1000) + 4 * state_bytes);
  CHECK(states.flops == 2.0 * 1000 * 10 * 128 * 64);
  // inter: thread blocks of 64 tokens; out is added to: read and written.
  const LinearLaunch inter = launch_of(cut_table(OpKind::inter, ChunkWork::blocked, 256, {state}), 1000);
  CHECK(inter.blocks == 4 * 10 * 4);
  CHECK(inter.steps == 1);
  CHECK(inter.bytes == key_bytes(1000) + 2 * value_bytes(1000) + 4 * state_bytes);
}

TEST_CASE("scan and combine: 1024 elements of a state a thread block, runs of a scan side by side") {
  // Two runs of 4 states of 128 x 64, 10 heads: 2 x 10 x 8 thread blocks; states are read and written.
  KernelTable t = cut_table(OpKind::state, ChunkWork::blocked, 64, {state}, 2);
  RankPlan rank = rank_of(t, 512);
  Operation& op = rank.operations.front();
  op.kind = OpKind::scan;
  op.reads.count = 0;
  op.writes = {2, 1};
  rank.accesses[2].mode = WriteMode::add;
  const LinearLaunch scan = linear_launch(work_of(rank));
  CHECK(scan.blocks == 2 * 10 * 8);
  CHECK(scan.bytes == 2 * 8 * state_bytes);
  CHECK(scan.scan_steps == 4);
  CHECK(scan.steps == 0);
  // As a combine: every state has thread blocks of its own; both views are the same here, from is read.
  op.kind = OpKind::combine;
  rank.accesses.push_back({rank.accesses[2].view, WriteMode::store, from});
  rank.accesses.push_back({rank.accesses[2].view, WriteMode::add, into});
  op.reads = {3, 1};
  op.writes = {4, 1};
  const LinearLaunch combine = linear_launch(work_of(rank));
  CHECK(combine.blocks == 8 * 10 * 8);
  CHECK(combine.bytes == 3 * 8 * state_bytes);
  CHECK(combine.scan_steps == 0);
  CHECK(combine.flops == 2.0 * 8 * 10 * 128 * 64);
}

TEST_CASE("a scan walks its run state by state, unless the bytes take longer") {
  // 1.05 us a state on 100 multiprocessors that hold two thread blocks each.
  const Hardware hardware = linear_machine();
  LinearLaunch launch{DType::bf16, 200, 0, 3e6, 0};
  launch.scan_steps = 10;
  CHECK(near(linear_roofline(hardware, launch).seconds, 10.5e-6));
  launch.blocks = 201;
  CHECK(near(linear_roofline(hardware, launch).seconds, 21e-6));
  launch.bytes = 30e6;
  CHECK(near(linear_roofline(hardware, launch).seconds, 30e-6));
  launch = {DType::bf16, 200, 0, 0, 0};
  launch.scan_steps = 1;
  CHECK(near(linear_roofline(hardware, launch).seconds, 1.05e-6));
}

TEST_CASE("the shipped H200: scans as measured, within a fifth") {
  // scenarios/measured/h200-2026-11-22-linear-attention.json and, of 8 states from 65536 tokens,
  // linear-attention-beside-fla.json: one run of states, 16 heads, D = 128. One state takes from 0.89 us to
  // 1.25 us, and one constant stands for both: 1.05 us, off by 1.25 / 1.05 = 1.19 at the most. It was fitted
  // to these times: this says how well one constant can do, not how others are predicted.
  const Hardware hardware = read_hardware(CPLAB_TEST_SCENARIOS "/hardware/h200x4.toml");
  const auto check = [&](std::int64_t tokens, std::int64_t chunk, std::int64_t value_size, double seconds) {
    KernelTable t = cut_table(OpKind::state, ChunkWork::blocked, chunk, {state});
    t.value_size = value_size;
    RankPlan rank = rank_of(t, tokens, 16);
    Operation& op = rank.operations.front();
    op.kind = OpKind::scan;
    op.reads.count = 0;
    op.writes = {2, 1};
    rank.accesses[2].mode = WriteMode::add;
    const LinearWork work = linear_work(CallConverter(rank, DType::bf16), op, DType::bf16, hardware.gpu);
    CHECK(work.longest_group == tokens / chunk);
    CHECK(work.variant == "linear_scan fp32");
    const double predicted = linear_roofline(hardware, linear_launch(work)).seconds;
    CAPTURE(predicted);
    CAPTURE(seconds);
    CHECK(std::max(predicted / seconds, seconds / predicted) < 1.2);
  };
  check(4096, 512, 128, 8.48e-6);
  check(65536, 8192, 128, 9.92e-6);
  check(1048576, 16384, 128, 76.42e-6);
  check(4096, 256, 64, 14.23e-6);
  check(65536, 4096, 64, 15.03e-6);
  check(1048576, 16384, 64, 72.58e-6);
}

TEST_CASE("the roofline: what is moved, computed or walked, or the floor") {
  const Hardware hardware = linear_machine();
  const auto seconds = [&](const LinearLaunch& launch) { return linear_roofline(hardware, launch).seconds; };
  CHECK(near(seconds({DType::bf16, 100, 0, 3e6, 0}), 3e-6));
  CHECK(near(seconds({DType::bf16, 100, 0, 3e6, 5e8}), 5e-6));
  CHECK(near(seconds({DType::fp32, 100, 0, 3e6, 5e8}), 3e-6));  // whose peak the machine does not say
  CHECK(near(seconds({DType::bf16, 100, 4, 3e6, 5e8}), 8e-6));
  CHECK(near(seconds({DType::bf16, 101, 4, 3e6, 5e8}), 16e-6));  // a thread block too many: two waves
  CHECK(near(seconds({DType::bf16, 1, 0, 0, 0}), 1e-6));
  const KernelCost walked = linear_roofline(hardware, {DType::bf16, 130, 4, 0, 0});
  CHECK(walked.waves == 2);
  CHECK(walked.tail_sms == 30);
  CHECK(walked.useful_sms == 100);
  CHECK(walked.origin == Origin::assumed);
  CHECK(linear_roofline(hardware, {DType::bf16, 100, 1, 9e6, 0}).useful_sms == 50);
}

TEST_CASE("a table is exact at its points, and corrects the roofline between them") {
  Hardware hardware = linear_machine();
  KernelTable t = cut_table(OpKind::local, ChunkWork::blocked, 64);
  t.points = {{1, 4096, 10, 50e-6}, {1, 65536, 10, 400e-6}};
  hardware.kernels = {t};
  const LinearCost cost(hardware);
  const auto of = [&](const RankPlan& rank) {
    return cost(CallConverter(rank, DType::bf16), rank.operations.front(), DType::bf16);
  };
  CHECK(near(of(rank_of(t, 4096)).seconds, 50e-6));
  CHECK(of(rank_of(t, 4096)).origin == Origin::measured);
  CHECK(near(of(rank_of(t, 65536)).seconds, 400e-6));
  // All three move bytes, 4096 tokens x 10 x (4 x 128 + 4 x 64) = 31.5 us of them: 16384 lies half way in the
  // logarithm of the roofline, and so of the time: sqrt(50 x 400).
  CHECK(near(of(rank_of(t, 16384)).seconds, std::sqrt(50e-6 * 400e-6)));
  CHECK(of(rank_of(t, 16384)).origin == Origin::interpolated);
  // Twice the heads cost what twice the tokens do. Longer than all points, or another cut: extrapolated.
  CHECK(near(of(rank_of(t, 4096, 20)).seconds, of(rank_of(t, 8192)).seconds));
  CHECK(of(rank_of(t, 4096, 20)).origin == Origin::interpolated);
  CHECK(near(of(rank_of(t, 131072)).seconds, 2 * 400e-6));
  CHECK(of(rank_of(t, 131072)).origin == Origin::extrapolated);
  CHECK(of(rank_of(cut_table(OpKind::local, ChunkWork::serial, 0), 4096)).origin == Origin::extrapolated);
  CHECK(of(rank_of(cut_table(OpKind::state, ChunkWork::blocked, 64, {state}), 4096)).origin ==
        Origin::assumed);
}

TEST_CASE("Hopper's kernels: a thread block for every chunk and head, which stays") {
  // 4096 tokens in chunks of 256, 10 heads, 4 steps of 64 tokens. local of E = 64: a multiprocessor holds
  // two.
  const LinearLaunch local =
      launch_of(cut_table(OpKind::local, ChunkWork::blocked, 256, {state}), 4096, DType::bf16, 9);
  CHECK(local.blocks == 160);
  CHECK(local.steps == 0);
  CHECK(local.paired_steps == 4);
  CHECK(local.persistent);
  CHECK(local.bytes == 2 * key_bytes(4096) + 2 * value_bytes(4096) + 16 * state_bytes);
  // state of D = 128: one. The general kernels have two parts of D, which read v twice.
  const LinearLaunch states =
      launch_of(cut_table(OpKind::state, ChunkWork::blocked, 256, {state}), 4096, DType::bf16, 9);
  CHECK(states.blocks == 160);
  CHECK(states.steps == 4);
  CHECK(states.paired_steps == 0);
  CHECK(states.bytes == key_bytes(4096) + value_bytes(4096) + 16 * state_bytes);
  // Backward: one kernel for dq (D = 128 wide: one thread block a multiprocessor), then one for dk and dv; v,
  // dout and k are read by both.
  const LinearLaunch backward = launch_of(
      cut_table(OpKind::local_backward, ChunkWork::blocked, 256, {state, dstate}), 4096, DType::bf16, 9);
  CHECK(backward.blocks == 160);
  CHECK(backward.steps == 8);
  CHECK(backward.paired_steps == 0);
  CHECK(backward.bytes == 5 * key_bytes(4096) + 5 * value_bytes(4096) + 2 * 16 * state_bytes);
  // D = 64: two of the first kernel.
  KernelTable narrow = cut_table(OpKind::local_backward, ChunkWork::blocked, 256, {state, dstate});
  narrow.head_size = 64;
  const LinearLaunch mixed = launch_of(narrow, 4096, DType::bf16, 9);
  CHECK(mixed.steps == 4);
  CHECK(mixed.paired_steps == 4);
}

TEST_CASE("the variant is the one that run takes: Hopper's where they fit, tensor cores, general") {
  const auto variant = [](const KernelTable& t, DType dtype, int sm_major) {
    const RankPlan rank = rank_of(t, 4096);
    return work_of(rank, dtype, sm_major).variant;
  };
  const KernelTable local = cut_table(OpKind::local, ChunkWork::blocked, 256, {state});
  CHECK(variant(local, DType::bf16, 9) == "linear_local hopper bf16 128x64");
  CHECK(variant(local, DType::fp16, 9) == "linear_local hopper fp16 128x64");
  CHECK(variant(local, DType::bf16, 8) == "linear_local mma bf16");
  CHECK(variant(local, DType::bf16, 0) == "linear_local mma bf16");
  CHECK(variant(local, DType::fp32, 9) == "linear_local general fp32");
  CHECK(variant(local, DType::fp64, 9) == "linear_local general fp64");
  // Serial and sliced work, and a call that makes a final state: not on Hopper's.
  CHECK(variant(cut_table(OpKind::local, ChunkWork::serial, 0), DType::bf16, 9) == "linear_local mma bf16");
  CHECK(variant(cut_table(OpKind::local, ChunkWork::blocked, 256, {final_state}), DType::bf16, 9) ==
        "linear_local mma bf16");
  CHECK(variant(cut_table(OpKind::state, ChunkWork::blocked, 256, {state}), DType::bf16, 9) ==
        "linear_state hopper bf16 128x64");
  CHECK(variant(cut_table(OpKind::state, ChunkWork::blocked, 256, {state}), DType::bf16, 0) ==
        "linear_state general fp32");
  CHECK(variant(cut_table(OpKind::inter, ChunkWork::blocked, 256, {state}), DType::bf16, 9) ==
        "linear_inter general fp32");
}

TEST_CASE(
    "the roofline of kernels that stay: one wave, two thread blocks a multiprocessor where it holds them") {
  const Hardware hardware = linear_machine();
  // 250 thread blocks on 100 multiprocessors: three rounds of one each, or two of two.
  LinearLaunch launch{DType::bf16, 250, 4, 0, 0};
  launch.persistent = true;
  CHECK(near(linear_roofline(hardware, launch).seconds, 3 * 4 * 2e-6));
  CHECK(linear_roofline(hardware, launch).waves == 1);
  CHECK(linear_roofline(hardware, launch).tail_sms == 100);
  launch.paired_steps = 5;
  CHECK(near(linear_roofline(hardware, launch).seconds, (3 * 4 + 2 * 5) * 2e-6));
  launch.blocks = 30;
  CHECK(linear_roofline(hardware, launch).tail_sms == 30);
}

TEST_CASE("transitions of every token: kernels over blocks of 64 tokens, and walks over the states between") {
  LinearWork work;
  work.kind = OpKind::local_backward;
  work.heads = 32, work.D = work.E = 128;
  work.tokens = work.longest = 65536, work.chunks = 1;
  kernels::cuda::GatedCut cut;
  cut.D = cut.E = 128, cut.blocks = 1024, cut.value_slices = 4;
  cut.scratch.values = 0, cut.scratch.bytes = 1000;
  work.gated = cut;
  const LinearLaunch backward = linear_launch(work);
  REQUIRE(backward.gated);
  CHECK(backward.gated->blocks == 32768);
  CHECK(backward.gated->walks == 128);
  CHECK(backward.gated->steps == 1024);
  CHECK(backward.gated->forward);
  CHECK(backward.gated->reverse);
  CHECK(backward.gated->differentiates);
  CHECK(!backward.gated->reads);
  CHECK(backward.bytes == 2000);
  const Hardware machine = linear_machine();
  const double seconds = linear_roofline(machine, backward).seconds;
  // Half as many tokens: half as many blocks, and walks of half as many steps.
  work.longest = 32768, work.gated->blocks = 512;
  const double half = linear_roofline(machine, linear_launch(work)).seconds;
  CHECK(seconds > 1.95 * half);
  CHECK(seconds < 2.05 * half);
  work.gate_columns = true;
  CHECK(linear_roofline(machine, linear_launch(work)).seconds > half);
  // A forward has no walk from the right and no gradients.
  work.gate_columns = false;
  work.kind = OpKind::local;
  const LinearLaunch forward = linear_launch(work);
  CHECK(forward.gated->reads);
  CHECK(!forward.gated->reverse);
  CHECK(linear_roofline(machine, forward).seconds < half);
}

TEST_CASE("tables of several lengths of chunks are one table: every point is exact") {
  Hardware hardware = linear_machine();
  KernelTable shorter = cut_table(OpKind::local, ChunkWork::blocked, 64, {state}), longer = shorter;
  shorter.points = {{1, 4096, 10, 50e-6}};
  longer.chunk = 1024;
  longer.points = {{1, 65536, 10, 600e-6}};
  longer.provenance.origin = Origin::assumed;
  hardware.kernels = {shorter, longer};
  const LinearCost cost(hardware);
  const auto of = [&](const RankPlan& rank) {
    return cost(CallConverter(rank, DType::bf16), rank.operations.front(), DType::bf16);
  };
  CHECK(near(of(rank_of(shorter, 4096)).seconds, 50e-6));
  CHECK(of(rank_of(shorter, 4096)).origin == Origin::measured);
  CHECK(near(of(rank_of(longer, 65536)).seconds, 600e-6));
  CHECK(of(rank_of(longer, 65536)).origin == Origin::assumed);
  CHECK(of(rank_of(shorter, 16384)).origin == Origin::assumed);  // between the two
}

TEST_CASE("the shipped H200: linear attention part by part as measured") {
  // scenarios/measured/h200-2026-11-22-linear-attention.json: 65536 tokens, 16 heads, D = 128, E = 64, chunks
  // of 4096.
  const Hardware hardware = read_hardware(CPLAB_TEST_SCENARIOS "/hardware/h200x4.toml");
  const LinearCost cost(hardware);
  const auto check = [&](const KernelTable& t, double seconds) {
    const RankPlan rank = rank_of(t, 65536, 16);
    const KernelCost found = cost(CallConverter(rank, DType::bf16), rank.operations.front(), DType::bf16);
    CHECK(found.seconds == doctest::Approx(seconds).epsilon(1e-4));  // the file has five digits
    CHECK(found.origin == Origin::measured);
  };
  check(cut_table(OpKind::state, ChunkWork::blocked, 4096, {state}), 0.000104632);
  check(cut_table(OpKind::state, ChunkWork::blocked, 4096, {dstate}), 0.000103624);
  check(cut_table(OpKind::local, ChunkWork::blocked, 4096, {state}), 0.000206912);
  check(cut_table(OpKind::local_backward, ChunkWork::blocked, 4096, {state, dstate}), 0.00051288);
}

}  // namespace cplab
