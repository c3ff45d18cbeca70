// The Hopper kernels on emulated thread blocks against brute force: every segment shape, NaN wherever nobody
// promises anything, threads in random order, products as late as allowed, copies as early or as late as
// possible.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/work/fits.hpp"
#include "kernels/work/row_space.hpp"
#include "kernels/work/tile_cuts.hpp"
#include "kernels/work/turns.hpp"
#include "kernels/work/variants.hpp"
#include "kernels/work/work_list.hpp"
#include "tests/emulator/hopper.hpp"
#include "tests/kernels/oracle.hpp"
#include "tests/kernels/random_tile.hpp"
#include "tests/kernels/tile_cases.hpp"

namespace cplab::emulator {
namespace {

using kernels::DType;
using kernels::View;
using kernels::Write;
using namespace kernels::cuda;

// A view in the rows of a space, with the map that it may need.
struct HostView {
  HostView(const View& view, const RowSpace& space) : spaced(in_space(view, space)), device(spaced.device) {
    if (!spaced.map.empty()) device.map = spaced.map.data();
  }
  HostView(const HostView&) = delete;
  SpacedView spaced;
  DeviceView device;
};

WorkList list_of(const WorkTables& tables) {
  return {tables.tiles.data(), tables.segments.data(), static_cast<std::int32_t>(tables.tiles.size()),
          live_tiles(tables)};
}

EmulatedKernels kernels_for(DType dtype, std::int64_t width) {
  if (dtype == DType::bf16)
    return width == 64 ? emulated_kernels<DType::bf16, 64>() : emulated_kernels<DType::bf16, 128>();
  return width == 64 ? emulated_kernels<DType::fp16, 64>() : emulated_kernels<DType::fp16, 128>();
}

std::string name_of(const char* operation, const View& q) {
  return std::string(operation) + " hopper " + (q.dtype == DType::bf16 ? "bf16 " : "fp16 ") +
         std::to_string(q.width);
}

// The backward kernels; the last with tiles of 64 keys where there are such.
enum Backward : int { apart, ordered, fused, fused_64_keys };

class Emulation {
 public:
  // orders: in how many orders of threads, blocks and copies a call whose bits must not depend on them runs.
  // Of the backward kernels only the given one, where it takes the call; or all by turns.
  explicit Emulation(std::uint64_t seed, int orders = 2, std::optional<Backward> only = {})
      : seed_(seed), orders_(orders), only_(only) {}

  testing::TileRunner runner() {
    testing::TileRunner runner;
    runner.attend = [this](testing::TileRunner::Tensors tensors, std::int64_t, const kernels::Attend& call) {
      return attend(tensors, call);
    };
    runner.attend_backward = [this](testing::TileRunner::Tensors tensors, std::int64_t,
                                    const kernels::AttendBackward& call) {
      return attend_backward(tensors, call);
    };
    runner.tensor_cores_only = true;
    return runner;
  }

 private:
  Launch launch() {
    ++seed_;
    return {.seed = seed_,
            .late_copies = seed_ % 2 == 0,
            .heads_per_group = static_cast<int>(1 + seed_ % 3),
            .multiprocessors = static_cast<int>(1 + seed_ % 5),
            .takes_by_counter = seed_ / 2 % 2 == 0,
            .resident = static_cast<int>(1 + seed_ % 4)};
  }

  // Every `height`, or also where segments end, or anywhere; always where pieces of the space do.
  Cuts some_cuts(const std::vector<DeviceSegment>& live, const RowSpace& space, std::int64_t height) {
    const std::vector<RowRange> ranges = space.ranges();
    switch (++cuts_ % 3) {
      case 0: return row_cuts(range_borders(ranges, space.rows), height);
      case 1: return row_cuts(segment_borders(live, space.rows, height, ranges), height);
      default: {
        std::mt19937 generator(static_cast<unsigned>(seed_ + cuts_));
        Cuts cuts = testing::random_tile_cuts(generator, space.rows, height), both;
        const Cuts borders = range_borders(ranges, space.rows);
        std::set_union(cuts.begin(), cuts.end(), borders.begin(), borders.end(), std::back_inserter(both));
        return both;
      }
    }
  }

  // Runs it in one order of threads and copies and again, from the same state, in others: are all bits equal?
  bool same_in_all_orders(testing::TileRunner::Tensors tensors, const std::function<void()>& run) const {
    const auto memories = [&] {
      std::vector<std::vector<std::byte>> all;
      for (const testing::Tensor* tensor : tensors) all.push_back(tensor->memory());
      return all;
    };
    const auto before = memories();
    run();
    const auto first = memories();
    bool same = true;
    for (int order = 1; order < orders_; ++order) {
      for (std::size_t n = 0; n < tensors.size(); ++n) tensors[n]->set_memory(before[n]);
      run();
      same = same && memories() == first;
    }
    return same;
  }

  testing::TileRun attend(testing::TileRunner::Tensors tensors, const kernels::Attend& call) {
    if (!hopper::fits_forward_hopper(call, call.q.dtype, call.q.width)) {
      kernels::cpu_tiles().attend(call);
      return {"(cpu tiles)", true};
    }
    const EmulatedKernels with = kernels_for(call.q.dtype, call.q.width);
    const EmulatedKernels::Forward& forward = with.attend[seed_ / 2 % with.attend.size()];
    const auto [of_q, of_k] = row_spaces(call).value();
    const HostView q(call.q, of_q), k(call.k, of_k), v(call.v, of_k), out(call.out, of_q),
        lse(call.lse, of_q);
    const auto live = in_space(live_segments(call.segments), of_q, of_k);
    const WorkTables work =
        query_tiles(live, some_cuts(live, of_q, forward.rows), call.write == Write::store, of_q.ranges());
    AttendParams params{.q = q.device,
                        .k = k.device,
                        .v = v.device,
                        .out = out.device,
                        .lse = lse.device,
                        .work = list_of(work),
                        .scale = call.scale,
                        .write = call.write};
    set_max_logit(params, call);
    const bool same = same_in_all_orders(tensors, [&] { forward.run(params, launch()); });
    const std::string height = ", " + std::to_string(forward.rows) + " rows";
    const char* const tiles = call.write == Write::merge ? "attend, tiles merged," : "attend, tiles stored,";
    return {name_of(hopper::writes_out_by_tma(params) ? tiles : "attend", call.q) + height, same};
  }

  testing::TileRun attend_backward(testing::TileRunner::Tensors tensors,
                                   const kernels::AttendBackward& call) {
    if (!hopper::fits_backward_deterministic_hopper(call, call.q.dtype, call.q.width)) {
      kernels::cpu_tiles().attend_backward(call);
      return {"(cpu tiles)", true};
    }
    const EmulatedKernels with = kernels_for(call.q.dtype, call.q.width);
    Backward kind = only_.value_or(static_cast<Backward>(++backward_calls_ % 4));
    if (!hopper::fits_backward_fused_hopper(call, call.q.dtype, call.q.width)) kind = apart;
    const bool small = kind == fused_64_keys && with.attend_backward_64_keys != nullptr;
    const int key_rows = small ? hopper_backward_small_tile_rows : with.backward_rows;
    const auto [of_q, of_k] = row_spaces(call).value();
    const HostView q(call.q, of_q), k(call.k, of_k), v(call.v, of_k), dout(call.dout, of_q),
        lse(call.lse, of_q), delta(call.delta, of_q), dq(call.dq, of_q), dk(call.dk, of_k), dv(call.dv, of_k);
    const auto live = in_space(live_segments(call.segments), of_q, of_k);
    std::vector<DeviceSegment> bands;
    for (const DeviceSegment& segment : live) bands.push_back(transposed(segment));
    const WorkTables by_q = query_tiles(live, some_cuts(live, of_q, with.backward_rows),
                                        call.write_dq == Write::store, of_q.ranges());
    const WorkTables by_k =
        key_tiles(live, some_cuts(bands, of_k, key_rows), call.write_dk == Write::store, of_k.ranges());
    AttendBackwardParams params{.q = q.device,
                                .k = k.device,
                                .v = v.device,
                                .dout = dout.device,
                                .lse = lse.device,
                                .delta = delta.device,
                                .dq = dq.device,
                                .dk = dk.device,
                                .dv = dv.device,
                                .by_q = list_of(by_q),
                                .by_k = list_of(by_k),
                                .scale = call.scale,
                                .write_dq = call.write_dq,
                                .write_dk = call.write_dk,
                                .turns = {}};
    if (kind != apart) {
      const int together = static_cast<int>(1 + seed_ % 3);
      const auto run = [&] {
        if (call.write_dq == Write::store) kernels::cpu_tiles().fill(call.dq, 0);
        if (hopper::needs_zeroed_dkv(params)) {
          kernels::cpu_tiles().fill(call.dk, 0);
          kernels::cpu_tiles().fill(call.dv, 0);
        }
        Launch as = launch();
        // The order depends on it, and a call determines it.
        if (kind == ordered) as.heads_per_group = together;
        (kind == ordered ? with.attend_backward_ordered
         : small         ? with.attend_backward_64_keys
                         : with.attend_backward_fused)(params, as);
      };
      if (kind != ordered) {
        run();  // its bits may differ
        std::string name = "attend_backward fused,";
        if (hopper::loads_lse_delta_by_tma(params)) name += " lse by TMA,";
        if (hopper::writes_dkv_by_tma(params))
          name += call.write_dk == Write::add ? " tiles added," : " tiles stored,";
        return {name_of(name.c_str(), call.q) + (small ? ", 64 keys" : ""), true};
      }
      const DqTurns turns = dq_turns(by_k, q.device.rows, call.q.width);
      const auto count = static_cast<std::size_t>(dq_counters(turns, call.q.heads));
      std::vector<std::int32_t> counters(count);
      const auto dkv_count = static_cast<std::size_t>(dkv_counters(turns, call.k.heads));
      std::vector<std::int32_t> of_dkv(dkv_count);
      params.turns = {turns.unit_of_tile.data(),
                      turns.first_run.data(),
                      turns.runs.data(),
                      turns.total.data(),
                      turns.even,
                      counters.data(),
                      turns.cells,
                      of_dkv.data()};
      const bool same = same_in_all_orders(tensors, [&] {
        run();
        REQUIRE(counters == std::vector<std::int32_t>(count));  // ready for the next launch
        REQUIRE(of_dkv == std::vector<std::int32_t>(dkv_count));
      });
      return {name_of("attend_backward ordered", call.q), same};
    }
    const bool same =
        same_in_all_orders(tensors, [&] { with.attend_backward_deterministic(params, launch()); });
    return {name_of("attend_backward", call.q), same};
  }

  std::uint64_t seed_;
  int orders_;
  std::optional<Backward> only_;
  std::int64_t backward_calls_ = 0;
  std::uint64_t cuts_ = 0;
};

void check_cases(std::uint64_t seed, std::int64_t first, std::int64_t last, std::int64_t most_rows,
                 Emulation emulation) {
  testing::Report report;
  testing::TileRunner runner = emulation.runner();
  runner.most_rows = most_rows;
  for (std::int64_t number = first; number < last; ++number) {
    if (number == 7) continue;  // 4096 sequences: for a GPU
    CAPTURE(number);
    REQUIRE_NOTHROW(testing::attend_case(report, {.seed = seed, .number = number, .only = ""}, runner));
  }
  CHECK(report.summary());
}

void check_cases(std::uint64_t seed, std::int64_t first, std::int64_t last, std::int64_t most_rows) {
  check_cases(seed, first, last, most_rows, Emulation(seed));
}

TEST_CASE("hopper kernels: small tiles of every kind") {
  check_cases(1, 0, 24, 150);
}

// tests_emulator --no-skip --test-case='*soak*': minutes, for who changes how threads wait for each other.
TEST_CASE("hopper kernels: soak" * doctest::skip()) {
  for (std::uint64_t seed = 100; seed < 130; ++seed) check_cases(seed, 0, 24, 150);
}

TEST_CASE("hopper kernels: the fused backward") {
  const auto check = [&](std::uint64_t seed, std::int64_t first, std::int64_t last, std::int64_t rows) {
    for (const Backward kernel : {fused, fused_64_keys})
      check_cases(seed, first, last, rows, Emulation(seed, 2, kernel));
  };
  check(3, 0, 24, 150);
  check(4, 0, 24, 150);
  check(7, 15, 16, 150);
  check(8, 0, 4, 300);
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
  std::uint64_t seed = 0;
  for (const Case& c : cases)
    for (const auto& [D, keys] : {std::array<int, 2>{64, 128}, {128, 128}, {128, 64}}) {
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
      Emulation emulation(seed, 2, keys == 64 ? fused_64_keys : fused);
      const testing::TileRun run = emulation.runner().attend_backward(
          tensors.all(), 0, tensors.backward(problem, Write::store, Write::store));
      CHECK((run.variant.find("lse by TMA") != std::string::npos) == c.by_tma);
      CHECK(run.variant.ends_with(", 64 keys") == (keys == 64));
      CHECK(tensors.gaps_intact());
      CHECK(tensors.inputs_unchanged());
      const testing::GradientTolerances most = testing::gradient_tolerances(problem, expected, dtypes);
      CHECK(testing::worst_share(tensors.dq.values(), expected.dq, expected.dq_majorant, most.dq) <= 1);
      CHECK(testing::worst_share(tensors.dk.values(), expected.dk, expected.dk_majorant, most.dk) <= 1);
      CHECK(testing::worst_share(tensors.dv.values(), expected.dv, expected.dv_majorant, most.dv) <= 1);
    }
}

TEST_CASE("hopper kernels: tiles that nobody sees") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) check_cases(seed, 15, 16, 150);
}

TEST_CASE("hopper kernels: halves of sequences, in lists of runs") {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) check_cases(seed, 23, 24, 150);
}

TEST_CASE("hopper kernels: a run that ends where out does") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) check_cases(seed, 55, 56, 150);
}

TEST_CASE("hopper kernels: warpgroups with blocks of their own") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) check_cases(seed, 31, 32, 150);
}

// Up to four thread blocks at once, more often than not fewer than there are tiles, and one at a time too.
TEST_CASE("hopper kernels: dq has the same bits whoever comes first, and nobody waits for ever") {
  check_cases(1, 0, 17, 150, Emulation(1, 3, ordered));
  check_cases(2, 31, 32, 150, Emulation(2, 3, ordered));
  check_cases(3, 5, 6, 700, Emulation(3, 3, ordered));
}

// A cell's last piece sets its count back to 0, or the next of five launches on the same counters would add
// too early. Where queries begin at row 10, cells have two pieces of their last unit.
TEST_CASE("hopper kernels: counts of pieces are 0 again after every launch") {
  const std::vector<std::vector<kernels::Segment>> masks = {
      {{.q_count = 256, .k_count = 384}},
      {{.q_begin = 10, .q_count = 230, .k_count = 300}},
      {{.q_count = 256, .k_count = 256, .right = 0}},
      {{.q_begin = 10, .q_count = 240, .k_begin = 20, .k_count = 300, .left = 100, .right = 30}},
      {{.q_count = 70, .k_count = 150}, {.q_begin = 70, .q_count = 150, .k_begin = 150, .k_count = 200}}};
  const testing::TileDTypes dtypes{.nominal = DType::bf16, .out = DType::fp32, .lse = DType::fp32};
  std::mt19937 generator(11);
  for (const std::int64_t width : {64, 128})
    for (std::size_t mask = 0; mask < masks.size(); ++mask) {
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
      CHECK(ran.variant == "attend_backward ordered hopper bf16 " + std::to_string(width));
      CHECK(ran.repeatable);
    }
}

TEST_CASE("hopper kernels: several tiles and many blocks") {
  check_cases(2, 4, 7, 700);
}

}  // namespace
}  // namespace cplab::emulator
