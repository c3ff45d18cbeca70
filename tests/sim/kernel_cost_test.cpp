// The standard kernel cost: tables, tiles and waves, worked out by hand on 100 multiprocessors.
#include "sim/kernel_cost.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "sim/attention_variant.hpp"
#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using sim_test::near;

KernelTable attention_table(OpKind kind, bool causal) {
  KernelTable t;
  t.kind = kind;
  t.variant = "library";
  t.head_size = t.value_size = 64;
  t.causal = causal;
  t.tile_rows = 128;
  t.provenance.origin = Origin::measured;
  // 1280 rows are 10 tiles a head: 10 heads fill the GPU exactly once; 5120 rows four times.
  t.points = {{1, 1280, 10, 100e-6}, {1, 5120, 10, 800e-6}};
  return t;
}

struct Fixture {
  Hardware hardware = sim_test::hand_machine(1);
  Plan plan;
  RankPlan rank;

  Fixture() {
    hardware.kernels_of = "library";
    hardware.kernels = {attention_table(OpKind::attend, false)};
    plan.scenario.problem.dtype = DType::bf16;
    plan.scenario.problem.head_size = plan.scenario.problem.value_size = 64;
  }

  static Segment full(std::int64_t rows, std::int64_t keys) { return {0, rows, 0, keys, 0, -1, -1}; }

  KernelCost attend(const std::vector<Segment>& segments, int heads, OpKind kind = OpKind::attend) {
    Operation op;
    op.kind = kind;
    sim_test::give_operands(rank, op, heads, static_cast<int>(plan.scenario.problem.head_size));
    op.segments = {static_cast<std::uint32_t>(rank.segments.size()),
                   static_cast<std::uint32_t>(segments.size())};
    rank.segments.insert(rank.segments.end(), segments.begin(), segments.end());
    return cost(op);
  }

  KernelCost cost(const Operation& op) const {
    return standard_kernel_cost(hardware)(plan, CallConverter(rank, plan.scenario.problem.dtype), op);
  }
};

}  // namespace

TEST_CASE("a point of the table is reproduced and measured") {
  Fixture f;
  const KernelCost cost = f.attend({Fixture::full(1280, 1280)}, 10);
  CHECK(near(cost.seconds, 100e-6));
  CHECK(cost.origin == Origin::measured);
  CHECK(cost.waves == 1);
  CHECK(cost.tail_sms == 100);
  const KernelCost large = f.attend({Fixture::full(5120, 5120)}, 10);
  CHECK(near(large.seconds, 800e-6));
  CHECK(large.waves == 4);
}

TEST_CASE("waves: a part of the GPU takes as long as all of it, one block more a whole wave more") {
  Fixture f;
  KernelCost cost = f.attend({Fixture::full(1280, 1280)}, 5);
  CHECK(near(cost.seconds, 100e-6));
  CHECK(cost.tail_sms == 50);
  CHECK(cost.origin == Origin::interpolated);
  cost = f.attend({Fixture::full(1280, 1280)}, 11);
  CHECK(near(cost.seconds, 200e-6));
  CHECK(cost.waves == 2);
  CHECK(cost.tail_sms == 10);
  // 1281 rows need an eleventh tile a head, of one row, which takes as long as the others: 110 thread blocks
  // in two waves of 100.
  cost = f.attend({Fixture::full(1281, 1280)}, 10);
  CHECK(near(cost.seconds, 200e-6));
}

TEST_CASE("between the points a wave takes longer in proportion to the keys that its rows walk over") {
  Fixture f;
  // A wave takes 100 us where rows walk over 1280 keys, and 200, a fourth of 800, where over 5120. 2560 are a
  // third of the way; 200 tiles are two waves.
  const KernelCost cost = f.attend({Fixture::full(2560, 2560)}, 10);
  CHECK(near(cost.seconds, 2 * (100e-6 + 100e-6 / 3)));
  CHECK(cost.origin == Origin::interpolated);
  // Above the last point in proportion: 2.5 times 200 us, and ten waves.
  const KernelCost outside = f.attend({Fixture::full(12800, 12800)}, 10);
  CHECK(near(outside.seconds, 10 * 500e-6));
  CHECK(outside.origin == Origin::extrapolated);
  // Below the first on the line through the first two, which meets 200 / 3 us where nothing is walked over.
  const KernelCost below = f.attend({Fixture::full(1280, 640)}, 10);
  CHECK(near(below.seconds, 100e-6 * (2.0 / 3 + 1.0 / 6)));
  CHECK(below.origin == Origin::extrapolated);
}

TEST_CASE("a launch of a library's kernel takes its own time once, whatever its waves") {
  // Of 100 us 10 are the launch. Two waves take 90 us more; so do two launches of one wave each, and 10 more.
  Fixture f;
  f.hardware.gpu.least_kernel_s = 10e-6;
  f.hardware.kernels[0].points = {{1, 1280, 10, 100e-6}};
  CHECK(near(f.attend({Fixture::full(1280, 1280)}, 10).seconds, 100e-6));
  CHECK(near(f.attend({Fixture::full(1280, 1280)}, 20).seconds, 190e-6));
  // One key is 1 / 1280 of 90 us.
  CHECK(near(f.attend({Fixture::full(1280, 1)}, 10).seconds, 10e-6 + 90e-6 / 1280));
}

TEST_CASE("the order of segments does not count, and unequal tiles make unequal waves") {
  // 100 tiles of 1280 keys, 100 us, and 100 of 640, 5 / 6 of that: two waves. With 50 of the long and 100 of
  // the short ones the first wave has all long ones, and is as long.
  Fixture f;
  const Segment both{0, 1280, 0, 1280, 0, -1, -1}, half{1280, 1280, 0, 640, 0, -1, -1};
  CHECK(near(f.attend({both, half}, 10).seconds, 100e-6 * (1 + 5.0 / 6)));
  CHECK(near(f.attend({half, both}, 10).seconds, 100e-6 * (1 + 5.0 / 6)));
  const Segment fewer{0, 640, 0, 1280, 0, -1, -1};
  CHECK(near(f.attend({fewer, half}, 10).seconds, 100e-6 * (1 + 5.0 / 6)));
  // Rows that two segments share are in one tile, which walks over the keys of both: 1280 and 640 are 1920, a
  // sixth of the way from 1280 to 5120.
  const Segment more{0, 1280, 1280, 640, 0, -1, -1};
  CHECK(near(f.attend({both, more}, 10).seconds, 100e-6 * (1 + 1.0 / 6)));
}

TEST_CASE("causal segments use the causal table, mixed lists both, and a missing one is extrapolated") {
  Fixture f;
  const Segment causal{0, 1280, 0, 1280, 0, -1, 0};
  CHECK(f.attend({causal}, 10).origin == Origin::extrapolated);
  f.hardware.kernels.push_back(attention_table(OpKind::attend, true));
  f.hardware.kernels.back().points = {{1, 1280, 10, 60e-6}};
  const KernelCost alone = f.attend({causal}, 10);
  CHECK(near(alone.seconds, 60e-6));
  CHECK(alone.origin == Origin::measured);
  // One causal and one full block of rows: 200 thread blocks, no partial wave: the sum.
  const KernelCost mixed = f.attend({causal, {1280, 1280, 0, 1280, 0, -1, -1}}, 10);
  CHECK(near(mixed.seconds, 160e-6));
  CHECK(mixed.origin == Origin::interpolated);
}

TEST_CASE("of kernels with different tiles that no table names the faster one is taken") {
  // A second kernel has tiles of half the height and is slower on a full GPU: 150 us where the first takes
  // 100.
  Fixture f;
  f.hardware.kernels.push_back(attention_table(OpKind::attend, false));
  f.hardware.kernels.back().tile_rows = 64;
  f.hardware.kernels.back().points = {{1, 1280, 5, 75e-6}};  // 20 tiles a head: full at 5 heads
  // 10 heads: 100 tiles of the first fill one wave; 200 of the second two of 75 us.
  const KernelCost full = f.attend({Fixture::full(1280, 1280)}, 10);
  CHECK(near(full.seconds, 100e-6));
  CHECK(full.waves == 1);
  // 5 heads: half a wave of the first, 100 us; one full wave of the second, 75 us.
  const KernelCost half = f.attend({Fixture::full(1280, 1280)}, 5);
  CHECK(near(half.seconds, 75e-6));
  CHECK(half.tail_sms == 100);
}

namespace {

// On Hopper, 10 heads of 64 by 1280 rows; k's rows may be in two runs, which Hopper's kernels do not follow.
KernelCost hopper_cost(std::vector<KernelTable> tables, bool in_runs, const char* kernels_of = "cuDNN") {
  Fixture f;
  f.hardware.kernels_of = kernels_of;
  f.hardware.gpu.sm_major = 9;
  f.hardware.kernels = std::move(tables);
  Operation op;
  sim_test::give_operands(f.rank, op, 10, 64);
  f.rank.views[1].ranges = {static_cast<std::uint32_t>(f.rank.row_ranges.size()), in_runs ? 2U : 1U};
  if (in_runs) f.rank.row_ranges.insert(f.rank.row_ranges.end(), {{0, 640, 1}, {2000, 640, 1}});
  if (!in_runs) f.rank.row_ranges.push_back({0, 1280, 1});
  // The other views have as many rows as the segment, so that no tile is without keys.
  const auto rows = static_cast<std::uint32_t>(f.rank.row_ranges.size());
  f.rank.row_ranges.push_back({0, 1280, 1});
  for (std::size_t i = 0; i < f.rank.views.size(); ++i)
    if (i != 1) f.rank.views[i].ranges = {rows, 1};
  op.segments = {0, 1};
  f.rank.segments.push_back(Fixture::full(1280, 1280));
  return f.cost(op);
}

KernelTable named(const char* variant, double seconds) {
  KernelTable t = attention_table(OpKind::attend, false);
  t.variant = variant;
  t.points = {{1, 1280, 10, seconds}};
  return t;
}

}  // namespace

TEST_CASE("an operation costs what the variant costs that run takes, never what a faster one does") {
  const KernelTable hopper = named("attend hopper bf16 64, 64 rows", 100e-6),
                    mma = named("attend mma bf16 64", 300e-6);
  CHECK(near(hopper_cost({hopper, mma}, false).seconds, 100e-6));
  CHECK(near(hopper_cost({mma, hopper}, true).seconds, 300e-6));
  CHECK(hopper_cost({mma, hopper}, true).origin == Origin::measured);
  // No table of the kernel that takes it: Hopper's, by what a FLOP takes in both at head size 128, and
  // assumed. A tile of 128 rows takes 1.40 us for 128 keys, 1.13 times that under load, and 3.222 us.
  const double slower = 3.222 / (1.13 * 1.40);
  const KernelCost guessed = hopper_cost({hopper}, true);
  CHECK(near(guessed.seconds, 100e-6 * slower));
  CHECK(guessed.origin == Origin::assumed);
  // A library's kernels stand for our fastest of that GPU; those that every architecture has are slower on
  // Hopper.
  for (const bool in_runs : {false, true}) {
    const KernelCost library = hopper_cost({named("cuDNN", 100e-6)}, in_runs);
    CHECK(near(library.seconds, in_runs ? 100e-6 * slower : 100e-6));
    CHECK(library.origin == (in_runs ? Origin::assumed : Origin::measured));
  }
  // Where the file is not meant to be of that library's kernels, nobody has measured those that run takes.
  for (const char* of : {"", "another"}) {
    const KernelCost ours = hopper_cost({named("cuDNN", 100e-6)}, false, of);
    CHECK(near(ours.seconds, 100e-6));
    CHECK(ours.origin == Origin::extrapolated);
  }
  // A file whose attention kernels are all portable is of a build without Hopper's.
  CHECK(near(hopper_cost({mma}, false).seconds, 300e-6));
  CHECK(hopper_cost({mma}, false).origin == Origin::measured);
}

namespace {

// 10 heads of 128 by 1280 rows on 100 multiprocessors of a Hopper, in tiles of 128 rows: one wave. By the
// model of tiles each takes (10 blocks of 128 keys + 1.32) * 1.40 us, and the launch 3.2: 19.048 us. A
// table that says 100 us makes that the measure of all calls.
struct HopperTiles {
  Fixture f;
  Operation op;

  explicit HopperTiles(WriteMode mode) {
    f.plan.scenario.problem.head_size = f.plan.scenario.problem.value_size = 128;
    f.hardware.gpu.sm_major = 9;
    f.hardware.kernels = {attention_table(OpKind::attend, false)};
    KernelTable& t = f.hardware.kernels.front();
    t.variant = "attend hopper bf16 128";
    t.head_size = t.value_size = 128;
    t.points = {{1, 1280, 10, 100e-6}};
    sim_test::give_operands(f.rank, op, 10, 128);
    const auto rows = static_cast<std::uint32_t>(f.rank.row_ranges.size());
    f.rank.row_ranges.push_back({0, 1280, 1});
    for (View& view : f.rank.views) view.ranges = {rows, 1};
    for (std::uint32_t i = 0; i < op.writes.count; ++i) f.rank.accesses[op.writes.first + i].mode = mode;
    op.segments = {0, 1};
    f.rank.segments.push_back(Fixture::full(1280, 1280));
  }
};

}  // namespace

TEST_CASE("a kernel that merges waits for what it merges with: as tiles 2.5 us longer, row by row 5") {
  const HopperTiles stored(WriteMode::store), merged(WriteMode::merge);
  HopperTiles wide(WriteMode::merge);
  wide.f.rank.buffers[3].role = Role::wide;  // q, k, v, out
  CHECK(near(stored.f.cost(stored.op).seconds, 100e-6));
  CHECK(stored.f.cost(stored.op).origin == Origin::measured);
  CHECK(near(merged.f.cost(merged.op).seconds, 100e-6 * (19.048 + 2.5) / 19.048));
  CHECK(near(wide.f.cost(wide.op).seconds, 100e-6 * (19.048 + 5) / 19.048));
}

TEST_CASE("a partial result in fp32 is stored row by row, without TMA: 5 us a tile longer") {
  HopperTiles wide(WriteMode::store);
  wide.f.rank.buffers[3].role = Role::wide;  // q, k, v, out
  CHECK(near(wide.f.cost(wide.op).seconds, 100e-6 * (19.048 + 5) / 19.048));
}

TEST_CASE("attention is faster at the highest clock, unless its table was measured there") {
  HopperTiles tiles(WriteMode::store);
  const auto seconds = [&](double lift) {
    const CallConverter calls(tiles.f.rank, DType::bf16);
    return standard_kernel_cost(tiles.f.hardware, {{lift}})(tiles.f.plan, calls, tiles.op).seconds;
  };
  CHECK(near(seconds(1), 100e-6));  // the file says nothing of clocks
  tiles.f.hardware.burst = {
      .seconds = 0.05, .speed = 1.25, .small_heads_speed = 1.25, .share = 0, .provenance = {}};
  CHECK(near(seconds(1), 80e-6));
  CHECK(near(seconds(0.4), 100e-6 / 1.1));
  CHECK(near(seconds(0), 100e-6));
  tiles.f.hardware.kernels.front().sustained = false;
  CHECK(near(seconds(1), 100e-6));
  CHECK(near(seconds(0), 125e-6));
}

TEST_CASE("a batch of equal squares is one point") {
  Fixture f;
  f.hardware.kernels[0].points = {{2, 1280, 5, 100e-6}};
  const KernelCost cost = f.attend({Fixture::full(1280, 1280), {1280, 1280, 1280, 1280, 0, -1, -1}}, 5);
  CHECK(near(cost.seconds, 100e-6));
  CHECK(cost.origin == Origin::measured);
}

TEST_CASE("a table says on how many multiprocessors it was measured") {
  Fixture f;
  f.hardware.kernels[0].sms = 100;
  f.hardware.gpu.sms = 50;
  // 100 thread blocks on half of the multiprocessors: two waves, twice the time.
  const KernelCost cost = f.attend({Fixture::full(1280, 1280)}, 10);
  CHECK(near(cost.seconds, 200e-6));
  CHECK(cost.waves == 2);
  CHECK(cost.origin == Origin::extrapolated);
}

TEST_CASE("another head size is extrapolated, another dtype is an error that names the table") {
  Fixture f;
  f.plan.scenario.problem.head_size = f.plan.scenario.problem.value_size = 128;
  const KernelCost cost = f.attend({Fixture::full(1280, 1280)}, 10);
  CHECK(near(cost.seconds, 200e-6));  // twice the FLOPs at the same rate
  CHECK(cost.origin == Origin::extrapolated);
  f.plan.scenario.problem.dtype = DType::fp16;
  try {
    f.attend({Fixture::full(1280, 1280)}, 10, OpKind::attend_backward);
    FAIL("no exception");
  } catch (const HardwareError& error) {
    CHECK(error.table == "kernel");
    CHECK(error.key == "class=attend_backward dtype=fp16");
  }
}

TEST_CASE("backward counts tiles of keys and its own FLOPs") {
  Fixture f;
  f.hardware.kernels = {attention_table(OpKind::attend_backward, false)};
  // 640 query rows against 1280 keys: as many tiles of keys as at the point, each over half of the queries. A
  // wave takes 100 us over 1280 and 200 over 5120, so over 640 on that line 83.3.
  CHECK(near(f.attend({Fixture::full(1280, 1280)}, 10, OpKind::attend_backward).seconds, 100e-6));
  CHECK(near(f.attend({Fixture::full(640, 1280)}, 10, OpKind::attend_backward).seconds, 100e-6 * 5 / 6));
}

namespace {

// The backward of a batch of equal sequences on a Hopper, of which the only table is a library's: what takes
// the call costs 100 us. dq is summed in fp32 and comes out rounded to bf16.
struct RoundedDq {
  Fixture f;
  Operation op;

  RoundedDq(std::int64_t batch, std::int64_t rows, int heads, int head_size) {
    f.plan.scenario.problem.head_size = f.plan.scenario.problem.value_size = head_size;
    f.hardware.gpu.sm_major = 9;
    f.hardware.kernels = {attention_table(OpKind::attend_backward, false)};
    f.hardware.kernels[0].head_size = f.hardware.kernels[0].value_size = head_size;
    f.hardware.kernels[0].points = {{batch, rows, heads, 100e-6}};
    op.kind = OpKind::attend_backward;
    sim_test::give_operands(f.rank, op, heads, head_size);
    const Access dq = *f.rank.find(op, Operand::dq);
    View rounded = f.rank.views[dq.view];
    rounded.buffer = static_cast<std::uint32_t>(f.rank.buffers.size());
    f.rank.buffers.push_back(f.rank.buffers[f.rank.views[dq.view].buffer]);
    f.rank.buffers[f.rank.views[dq.view].buffer].role = Role::wide;
    f.rank.accesses.push_back(
        {static_cast<std::uint32_t>(f.rank.views.size()), WriteMode::store, Operand::rounded_dq});
    f.rank.views.push_back(rounded);
    ++op.writes.count;
    const auto all = static_cast<std::uint32_t>(f.rank.row_ranges.size());
    f.rank.row_ranges.push_back({0, batch * rows, 1});
    for (View& view : f.rank.views) view.ranges = {all, 1};
    for (std::int64_t b = 0; b < batch; ++b)
      f.rank.segments.push_back({b * rows, rows, b * rows, rows, 0, -1, -1});
    op.segments = {0, static_cast<std::uint32_t>(batch)};
  }

  KernelCost cost() const { return f.cost(op); }
  std::string taken() const {
    const CallConverter calls(f.rank, DType::bf16);
    return std::string(AttentionVariants(f.hardware).of(calls, op, 0).name);
  }
};

}  // namespace

TEST_CASE("a rounded dq costs nothing where the kernel that takes the call rounds it") {
  const RoundedDq apart(64, 256, 16, 128), chains(64, 256, 32, 64);
  REQUIRE(apart.taken() == "attend_backward hopper bf16 128");
  CHECK(near(apart.cost().seconds, 100e-6));
  CHECK(apart.cost().origin == Origin::measured);
  REQUIRE(chains.taken() == "attend_backward hopper chains bf16 64");
  CHECK(near(chains.cost().seconds, 100e-6));
  CHECK(chains.cost().origin == Origin::measured);
}

// 8192 rows of 10 heads of 128 are 10,485,760 numbers, of which a cast reads 4 bytes and writes 2: 62,914,560
// bytes, 62.91456 us at the 1 TB/s of a copy.
TEST_CASE("a rounded dq costs a cast behind the fused kernel: (4 + 2) bytes a number") {
  RoundedDq fused(1, 8192, 10, 128);
  REQUIRE(fused.taken() == "attend_backward hopper fused bf16 128");
  // A library's call rounds what it gives back.
  CHECK(near(fused.cost().seconds, 100e-6));
  CHECK(fused.cost().origin == Origin::measured);
  // Of the fused kernel, the model says what its tiles take; a cast behind it is no part of them. It moves
  // its bytes at the bandwidth of a copy; or, with a curve, 2 TB/s and 4 us beside the bytes. Most of the
  // time is the tiles', which are interpolated from the table: what is of the cast counts apart.
  fused.f.hardware.kernels[0].variant = "attend_backward hopper fused bf16 128";
  const KernelCost rounding = fused.cost();
  KernelTable cast;
  cast.kind = OpKind::cast;
  cast.curve = {{30e6, 19e-6}, {90e6, 49e-6}};
  cast.provenance.origin = Origin::measured;
  fused.f.hardware.kernels.push_back(cast);
  const double by_curve = fused.cost().seconds;
  --fused.op.writes.count;
  REQUIRE(fused.taken() == "attend_backward hopper fused bf16 128");
  const double tiles = fused.cost().seconds;
  CHECK(near(rounding.seconds - tiles, 62.91456e-6));
  CHECK(near(rounding.parts.of(Origin::extrapolated), 62.91456e-6));
  CHECK(near(rounding.parts.of(Origin::measured), tiles));
  CHECK(rounding.origin == Origin::measured);
  CHECK(near(by_curve - tiles, 4e-6 + 62.91456e-6 / 2));
}

TEST_CASE("memory-bound kernels: bytes at the speed of a copy, or their own curve") {
  Fixture f;
  Operation op;
  op.kind = OpKind::copy;
  op.bytes = 2'000'000;
  KernelCost cost = f.cost(op);
  CHECK(near(cost.seconds, 2e-6));  // 1 TB/s
  CHECK(cost.origin == Origin::interpolated);
  op.kind = OpKind::merge;
  CHECK(f.cost(op).origin == Origin::extrapolated);
  KernelTable merge;
  merge.kind = OpKind::merge;
  merge.curve = {{1e6, 3e-6}, {3e6, 5e-6}};
  merge.provenance.origin = Origin::measured;
  f.hardware.kernels.push_back(merge);
  cost = f.cost(op);
  CHECK(near(cost.seconds, 4e-6));
  CHECK(cost.origin == Origin::interpolated);
}

TEST_CASE("what an operation adds to is read as well") {
  Fixture f;
  f.rank.buffers.push_back({"out", Role::wide, Category::working, Layout::rows_first, 1, 1000, 1, 1});
  f.rank.row_ranges.push_back({0, 1000, 1});
  View view;
  view.ranges = {0, 1};
  f.rank.views.push_back(view);
  Operation op;
  op.kind = OpKind::attend;
  sim_test::give_operands(f.rank, op, 10, 64);
  f.rank.accesses[op.writes.first] = {0, WriteMode::merge, Operand::out};
  op.segments = {0, 1};
  f.rank.segments.push_back(Fixture::full(1280, 1280));
  // 1000 fp32 values: 4000 bytes at 1 TB/s.
  CHECK(near(f.cost(op).seconds, 100e-6 + 4e-9));
}

}  // namespace cplab
