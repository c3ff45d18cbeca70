// The Hopper kernels on emulated thread blocks against brute force: every segment shape, NaN wherever nobody
// promises anything, threads in random order, products as late as allowed, copies as early or as late as
// possible.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/families/fits.hpp"
#include "tests/emulator/hopper_emulation.hpp"
#include "tests/kernels/oracle.hpp"
#include "tests/kernels/random_tile.hpp"
#include "tests/kernels/tile_cases.hpp"

namespace cplab::emulator {
namespace {

using kernels::DType;
using kernels::Write;

// How many of the cases, or seeds: all of them at night.
constexpr std::uint64_t at_night(std::uint64_t all, std::uint64_t by_day) {
  return every_kernel ? all : by_day;
}

bool ran(const testing::Report& report, const std::string& each) {
  return report.ran(each) || (!every_kernel && each.find("fp16 128") != std::string::npos);
}

void check_cases(testing::Report& report, std::uint64_t seed, std::int64_t first, std::int64_t last,
                 std::int64_t most_rows, Emulation emulation) {
  testing::TileRunner runner = emulation.runner();
  runner.most_rows = most_rows;
  for (std::int64_t number = first; number < last; ++number) {
    if (number == 7) continue;  // 4096 sequences: for a GPU
    CAPTURE(number);
    REQUIRE_NOTHROW(testing::attend_case(report, {.seed = seed, .number = number, .only = ""}, runner));
  }
}

void check_cases(std::uint64_t seed, std::int64_t first, std::int64_t last, std::int64_t most_rows,
                 std::optional<Emulation> emulation = {}) {
  testing::Report report;
  check_cases(report, seed, first, last, most_rows, emulation.value_or(Emulation(seed)));
  CHECK(report.summary());
}

void check_heads(testing::Report& report, const testing::HeadPair& pair, std::int64_t number,
                 std::uint64_t seed) {
  Emulation emulation(seed, 2);
  testing::TileRunner runner = emulation.runner();
  runner.tensor_core_dtypes = {DType::bf16};
  runner.tensor_core_sizes = {pair};
  CAPTURE(pair.keys);
  CAPTURE(number);
  REQUIRE_NOTHROW(testing::attend_case(report, {.seed = seed, .number = number, .only = ""}, runner));
}

TEST_CASE("hopper kernels: small tiles of every kind") {
  testing::Report report;
  check_cases(report, 1, 0, 24, 150, Emulation(1));
  CHECK(report.summary());
  for (const char* each :
       {"attend hopper bf16 128", "attend hopper bf16 64", "attend hopper fp16 128", "attend hopper fp16 64",
        "attend, tiles merged, hopper bf16 128", "attend, tiles merged, hopper bf16 64",
        "attend, tiles merged, hopper fp16 128", "attend, tiles stored, hopper bf16 128",
        "attend, tiles stored, hopper bf16 64", "attend, tiles stored, hopper fp16 128",
        "attend_backward hopper bf16 128", "attend_backward, dq stored, dk, dv stored, hopper bf16 128",
        "attend_backward, dq stored, dk, dv stored, hopper bf16 64",
        "attend_backward, sums of dq stored, hopper bf16 128", "attend_backward ordered hopper bf16 128"})
    CHECK_MESSAGE(ran(report, each), each);
}

// Case 39 stores, and merges, whole tiles by TMA, for either dtype: three calls, of which one is merged. Four
// seeds give each of them to each of the four kernels of head size 64.
TEST_CASE("hopper kernels: warpgroups in turn and out of turn") {
  testing::Report report;
  for (std::uint64_t seed = 1; seed <= at_night(4, 1); ++seed)
    check_cases(report, seed, 39, 40, 150, Emulation(seed, 1, fused));
  CHECK(report.summary());
  if (!every_kernel) return;
  for (const char* tiles : {"stored", "merged"})
    for (const char* dtype : {"bf16", "fp16"})
      for (const char* kernel : {"192 rows", "out of turn, 192 rows", "128 rows", "64 rows"}) {
        const std::string each =
            std::string("attend, tiles ") + tiles + ", hopper " + dtype + " 64, " + kernel;
        CHECK_MESSAGE(ran(report, each), each);
      }
}

TEST_CASE("hopper kernels: dq rounded by chains") {
  testing::Report report;
  for (std::uint64_t seed = 1; seed <= at_night(6, 3); ++seed)
    check_cases(report, seed, 71, 72, 150, Emulation(seed));
  CHECK(report.summary());
  const bool bf16 = ran(report, "attend_backward chains hopper bf16 64"),
             fp16 = ran(report, "attend_backward chains hopper fp16 64");
  CHECK((every_kernel ? bf16 && fp16 : bf16 || fp16));
}

// tests_emulator --no-skip --test-case='*soak*': minutes, for who changes how threads wait for each other.
TEST_CASE("hopper kernels: soak" * doctest::skip()) {
  for (std::uint64_t seed = 100; seed < 130; ++seed) check_cases(seed, 0, 24, 150);
}

TEST_CASE("hopper kernels: the fused backward") {
  testing::Report report;
  const auto check = [&](std::uint64_t seed, std::int64_t first, std::int64_t last, std::int64_t rows) {
    for (const Backward kernel : {fused, fused_64_keys})
      check_cases(report, seed, first, last, rows, Emulation(seed, 2, kernel));
  };
  check(3, 0, 24, 150);
  if (every_kernel) check(4, 0, 24, 150);
  check(7, 15, 16, 150);
  check(8, 0, at_night(4, 1), 300);
  CHECK(report.summary());
  // Sums of rows or of whole tiles, stored or added to what there is, with and without maps of rows.
  for (const char* dtype_width : {"bf16 128", "bf16 128, 64 keys", "fp16 128, 64 keys", "fp16 64"})
    for (const char* tiles : {" tiles added, hopper ", " tiles stored, hopper ", "fused, hopper "}) {
      const std::string variant = std::string(tiles) + dtype_width;
      CHECK_MESSAGE(ran(report, variant), variant);
    }
}

// Every layout of lse and delta that TMA takes or refuses: rows of so many heads, or some heads of wider
// rows. All else in these rows, and behind the rows of the call, is NaN. 150 rows end in the middle of a
// block of 64 and of one of 128, and the second segment begins and ends in one.
TEST_CASE("hopper kernels: lse and delta by TMA or number by number") {
  struct Case {
    std::int64_t heads, before, behind;
    bool heads_outside, by_tma;
  };
  const Case cases[] = {
      {1, 0, 0, false, false}, {1, 0, 3, false, true}, {1, 4, 7, false, true},  {2, 0, 0, false, false},
      {2, 0, 2, false, true},  {3, 0, 1, false, true}, {3, 1, 0, false, false}, {4, 0, 0, false, true},
      {4, 2, 2, false, false}, {4, 4, 8, false, true}, {4, 0, 0, true, false},  {5, 0, 0, false, false},
      {5, 0, 3, false, true},  {7, 0, 1, false, true}, {8, 0, 0, false, true},  {16, 0, 0, false, true},
  };
  std::uint64_t seed = 0, number = 0;
  for (const Case& c : cases)
    for (const auto& [D, kernel] : {std::pair<int, Backward>{64, fused},
                                    {128, fused},
                                    {128, fused_64_keys},
                                    {64, apart},
                                    {128, apart}}) {
      if (++number % at_night(1, 4) != 0) continue;  // four and five: by turns every kernel
      CAPTURE(kernel);
      CAPTURE(c.heads);
      CAPTURE(c.before);
      CAPTURE(D);
      std::mt19937 generator(static_cast<unsigned>(++seed));
      const testing::Sizes sizes{.nq = 150, .nk = 130, .H = c.heads, .G = 1, .D = D, .E = D};
      const testing::Problem problem =
          testing::random_problem(generator, sizes,
                                  {{.q_begin = 0, .q_count = 70, .k_begin = 0, .k_count = 60, .right = 0},
                                   {.q_begin = 75, .q_count = 75, .k_begin = 60, .k_count = 70}},
                                  DType::bf16);
      const testing::Expected expected = testing::expected_of(problem);
      const testing::TileDTypes dtypes{.nominal = DType::bf16,
                                       .out = DType::fp32,
                                       .lse = DType::fp32,
                                       .merges = 0,
                                       .part_roundoff = testing::unit_roundoff(DType::fp32)};
      testing::TileTensors tensors(generator, problem, dtypes,
                                   {.gap_unit = 8,
                                    .one_run = true,
                                    .lse_delta = testing::Layout{.heads_outside = c.heads_outside,
                                                                 .before_heads = c.before,
                                                                 .behind_heads = c.behind,
                                                                 .runs = {{.begin = 3, .count = 150}},
                                                                 .physical_rows = 300}});
      tensors.lse.assign(expected.lse);
      tensors.delta.assign(expected.delta);
      Emulation emulation(seed, 2, kernel);
      const testing::TileRun run = emulation.runner().attend_backward(
          tensors.all(), 0, tensors.backward(problem, Write::store, Write::store));
      CHECK(run.variant.find("hopper") != std::string::npos);
      if (kernel != apart) {  // whose name does not say how it loads them
        CHECK((run.variant.find("lse by TMA") != std::string::npos) == c.by_tma);
        CHECK(run.variant.ends_with(", 64 keys") == (kernel == fused_64_keys));
      }
      CHECK(tensors.gaps_intact());
      CHECK(tensors.inputs_unchanged());
      const testing::GradientTolerances most = testing::gradient_tolerances(problem, expected, dtypes);
      CHECK(testing::worst_share(tensors.dq.values(), expected.dq, expected.dq_majorant, most.dq) <= 1);
      CHECK(testing::worst_share(tensors.dk.values(), expected.dk, expected.dk_majorant, most.dk) <= 1);
      CHECK(testing::worst_share(tensors.dv.values(), expected.dv, expected.dv_majorant, most.dv) <= 1);
    }
}

TEST_CASE("hopper kernels: tiles that nobody sees") {
  for (std::uint64_t seed = 1; seed <= at_night(12, 3); ++seed) check_cases(seed, 15, 16, 150);
}

TEST_CASE("hopper kernels: halves of sequences, in lists of runs") {
  for (std::uint64_t seed = 1; seed <= at_night(8, 2); ++seed) check_cases(seed, 23, 24, 150);
}

// What the softmax does that does not wait for its maxima: weights above its limit, and above all limits.
TEST_CASE("hopper kernels: scores that rise") {
  for (std::uint64_t seed = 1; seed <= at_night(12, 3); ++seed) check_cases(seed, 11, 12, 150);
}

TEST_CASE("hopper kernels: a run that ends where out does") {
  for (std::uint64_t seed = 1; seed <= at_night(6, 2); ++seed) check_cases(seed, 55, 56, 150);
}

TEST_CASE("hopper kernels: warpgroups with blocks of their own") {
  for (std::uint64_t seed = 1; seed <= at_night(5, 1); ++seed) check_cases(seed, 31, 32, 150);
}

// Up to four thread blocks at once, more often than not fewer than there are tiles, and one at a time too.
TEST_CASE("hopper kernels: dq has the same bits whoever comes first, and nobody waits for ever") {
  check_cases(1, 0, at_night(17, 6), 150, Emulation(1, 3, ordered));
  check_cases(2, 31, 32, 150, Emulation(2, 3, ordered));
  check_cases(3, 5, 6, 700, Emulation(3, 3, ordered));
}

// A cell's last piece sets its count back to 0, or the next of five launches on the same counters would add
// too early. Where fewer queries begin at row 0 than at row 10, cells have two pieces of their last unit.
TEST_CASE("hopper kernels: counts of pieces are 0 again after every launch") {
  const std::vector<std::vector<kernels::Segment>> masks = {
      {{.q_count = 256, .k_count = 384}},
      {{.q_begin = 10, .q_count = 230, .k_count = 150}, {.q_count = 200, .k_begin = 150, .k_count = 50}},
      {{.q_count = 256, .k_count = 256, .right = 0}},
      {{.q_begin = 10, .q_count = 240, .k_begin = 20, .k_count = 300, .left = 100, .right = 30}},
      {{.q_count = 70, .k_count = 150}, {.q_begin = 70, .q_count = 150, .k_begin = 150, .k_count = 200}}};
  const testing::TileDTypes dtypes{.nominal = DType::bf16, .out = DType::fp32, .lse = DType::fp32};
  std::mt19937 generator(11);
  for (const std::int64_t width : {64, 128})
    for (std::size_t mask = 0; mask < at_night(masks.size(), width == 64 ? masks.size() : 1); ++mask) {
      CAPTURE(width);
      CAPTURE(mask);
      const testing::Sizes sizes{.nq = 256, .nk = 384, .H = 4, .G = 2, .D = width, .E = width};
      const testing::Problem problem = testing::random_problem(generator, sizes, masks[mask], dtypes.nominal);
      const testing::Expected expected = testing::expected_of(problem);
      testing::TileTensors tensors(generator, problem, dtypes, {.gap_unit = 8, .one_run = true});
      tensors.lse.assign(expected.lse);
      tensors.delta.assign(expected.delta);
      Emulation emulation(20 + mask, 5, ordered);
      const testing::TileRun ran = emulation.runner().attend_backward(
          tensors.all(), 0, tensors.backward(problem, Write::store, Write::store));
      const std::string first = mask == 0 ? ", first stored," : "";  // pieces are whole
      CHECK(ran.variant == "attend_backward ordered" + first + " hopper bf16 " + std::to_string(width));
      CHECK(ran.repeatable);
    }
}

// Sequences of 256, 128 and 384 rows, whose pieces of dq are whole cells: what comes first is stored over
// NaN. Rows 33 and 700 have no gradient and hold what nobody may read; their dq is 0. Expected is what it is
// without them. Of three lists of tiles the first is cut anywhere, so that pieces are not whole. Seeds give
// lists by sequences, whose ending is walked the other way, and others.
TEST_CASE("hopper kernels: in turn, the first piece of dq is stored") {
  using kernels::Segment;
  const testing::TileDTypes dtypes{.nominal = DType::bf16, .out = DType::fp32, .lse = DType::fp32};
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = testing::infinity;
  std::mt19937 generator(12);
  for (const std::int64_t width : {64, 128}) {
    for (std::uint64_t seed = 20; seed < at_night(22, width == 64 ? 22 : 21); ++seed) {
      CAPTURE(width);
      CAPTURE(seed);
      const auto part = [](std::int64_t begin, std::int64_t from, std::int64_t to, std::int64_t rows) {
        return Segment{.q_begin = begin + from,
                       .q_count = to - from,
                       .k_begin = begin,
                       .k_count = rows,
                       .offset = from,
                       .right = 0};
      };
      const testing::Sizes sizes{.nq = 768, .nk = 768, .H = 3, .G = 1, .D = width, .E = width};
      const testing::Problem problem = testing::random_problem(
          generator, sizes, {part(0, 0, 256, 256), part(256, 0, 128, 128), part(384, 0, 384, 384)},
          dtypes.nominal);
      testing::Problem dropped = problem;
      dropped.segments = {part(0, 0, 33, 256), part(0, 34, 256, 256), part(256, 0, 128, 128),
                          part(384, 0, 316, 384), part(384, 317, 384, 384)};
      const testing::Expected expected = testing::expected_of(problem),
                              without = testing::expected_of(dropped);
      std::optional<testing::TileTensors> made;  // TMA adds to dq
      do made.emplace(generator, problem, dtypes, testing::TileLayouts{.gap_unit = 8, .one_run = true});
      while (!kernels::cuda::hopper::has_tensor_map(made->dq.view()));
      testing::TileTensors& tensors = *made;
      tensors.lse.assign(expected.lse);
      tensors.delta.assign(expected.delta);
      for (const std::int64_t row : {33, 700}) {
        tensors.q.fill_row(row, nan);
        tensors.dout.fill_row(row, infinity);
        tensors.delta.fill_row(row, nan);
        tensors.lse.fill_row(row, -infinity);
      }
      Emulation emulation(seed, 2, ordered);
      for (const bool whole : {false, true, true}) {
        const kernels::AttendBackward call = tensors.backward(problem, Write::store, Write::store);
        const testing::TileRun run = emulation.runner().attend_backward(tensors.all(), 0, call);
        CHECK(run.variant == std::string("attend_backward ordered") + (whole ? ", first stored," : "") +
                                 " hopper bf16 " + std::to_string(width));
        CHECK(run.repeatable);
        const testing::GradientTolerances most = testing::gradient_tolerances(dropped, without, dtypes);
        CHECK(testing::worst_share(tensors.dq.values(), without.dq, without.dq_majorant, most.dq) <= 1);
        CHECK(testing::worst_share(tensors.dk.values(), without.dk, without.dk_majorant, most.dk) <= 1);
        CHECK(testing::worst_share(tensors.dv.values(), without.dv, without.dv_majorant, most.dv) <= 1);
      }
    }
  }
}

// Heads that the kernels of 64 and 128 pad with zeros: what lies beyond their columns is another head, or NaN
// (tile_cases.hpp), and must be neither read nor written. 40, 72 and 112 end within 128 bytes of columns in
// 16 bits and in fp32, 96 in 16 bits alone.
TEST_CASE("hopper kernels: heads that are padded") {
  testing::Report report;
  std::uint64_t seed = 0;
  for (const testing::HeadPair& pair :
       std::vector<testing::HeadPair>{{40, 40}, {56, 64}, {72, 72}, {96, 96}, {112, 80}, {96, 64}})
    for (const std::int64_t number : {0, 3, 8, 12, 71}) {
      ++seed;
      if (number == 71 && pair.keys != 40) continue;  // dq rounded by chains
      check_heads(report, pair, number, seed);
    }
  CHECK(report.summary());
  for (const char* each : {"attend, tiles stored, hopper bf16 64", "attend, tiles merged, hopper bf16 128",
                           "attend hopper bf16 128", "attend_backward ordered hopper bf16 128",
                           "tiles stored, hopper bf16 64", "tiles added, hopper bf16 128",
                           "attend_backward hopper bf16 128", "attend_backward chains hopper bf16 64"})
    CHECK_MESSAGE(report.ran(each), std::string(each));
}

// Keys of 192 with values of 128, and 256, with one buffer of Q, or of A and B; and heads that are padded to
// them.
TEST_CASE("hopper kernels: wide heads") {
  testing::Report report;
  std::uint64_t seed = 40;
  for (const testing::HeadPair& pair :
       std::vector<testing::HeadPair>{{192, 128}, {256, 256}, {136, 72}, {200, 160}})
    for (const std::int64_t number : {0, 3, 4, 11}) check_heads(report, pair, number, ++seed);
  CHECK(report.summary());
  for (const char* each : {"attend hopper bf16 192", "attend, tiles stored, hopper bf16 192",
                           "attend, tiles merged, hopper bf16 256", "attend hopper bf16 256",
                           "attend_backward hopper bf16 192", "attend_backward hopper bf16 256",
                           "dk, dv stored, hopper bf16 256", "dk, dv stored, hopper bf16 192"})
    CHECK_MESSAGE(report.ran(each), std::string(each));
}

TEST_CASE("hopper kernels: several tiles and many blocks") {
  check_cases(2, 4, at_night(7, 5), 700);
}

}  // namespace
}  // namespace cplab::emulator
