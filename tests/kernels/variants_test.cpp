// Which attention kernel takes a call, and how its rows are cut, without a GPU: choose_variant() against what
// each kernel needs of a call.
#include "kernels/choice/fall_back.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/tiles/measured_constants.hpp"
#include "tests/kernels/backward_names.hpp"
#include "tests/kernels/chosen_variant.hpp"

namespace cplab::testing {
namespace {

using namespace kernels;
using namespace kernels::cuda;

}  // namespace

TEST_CASE("the variant follows the architecture and what is allowed") {
  const Call call;
  CHECK(forward_name(call, on_hopper) == "attend hopper bf16 128");
  CHECK(forward_name(call, on_ampere) == "attend mma bf16 128");
  CHECK(forward_name(call, {}) == "attend mma bf16 128");  // no device: what any architecture has
  CHECK(forward_name(call, with_choice(on_hopper, KernelChoice::portable)) == "attend mma bf16 128");
  CHECK(forward_name(call, with_choice(on_hopper, KernelChoice::deterministic)) == "attend hopper bf16 128");
  VariantOptions without_hopper = on_hopper;
  without_hopper.build.hopper = false;
  CHECK(forward_name(call, without_hopper) == "attend mma bf16 128");

  CHECK(backward_name(call, on_hopper) == "attend_backward hopper fused bf16 128");
  CHECK(backward_name(call, with_choice(on_hopper, KernelChoice::deterministic)) ==
        "attend_backward hopper ordered bf16 128");
  CHECK(backward_name(call, with_choice(on_hopper, KernelChoice::apart)) ==
        "attend_backward hopper bf16 128");
  CHECK(backward_name(call, with_choice(on_ampere, KernelChoice::deterministic)) ==
        "attend_backward mma bf16 128");
  CHECK(backward_name(call, with_choice(on_ampere, KernelChoice::apart)) == "attend_backward mma bf16 128");
  CHECK(backward_name(call, with_choice(on_hopper, KernelChoice::portable)) ==
        "attend_backward mma bf16 128");
  CHECK(backward_name(call, on_ampere) == "attend_backward mma bf16 128");
}

TEST_CASE("the variant follows dtype and head size") {
  CHECK(forward_name({.D = 64, .dtype = DType::fp16}, on_hopper) == "attend hopper fp16 64");
  CHECK(forward_name({.dtype = DType::fp32}, on_hopper) == "attend general");
  CHECK(forward_name({.D = 100}, on_hopper) == "attend general");
  CHECK(backward_name({.D = 100}, on_hopper) == "attend_backward general");
  VariantOptions full = on_ampere;
  full.build.full = true;
  CHECK(forward_name({.D = 96}, full) == "attend mma bf16 96");
  CHECK(backward_name({.D = 32, .dtype = DType::fp16}, full) == "attend_backward mma fp16 32");
  CHECK(forward_name({.S = 100, .dtype = DType::fp64}, full) == "attend general fp64");
  CHECK_THROWS_WITH_AS(forward_name({.S = 100, .dtype = DType::fp64}, on_hopper),
                       "this build has no attention kernels for fp64 on a GPU (-D CPLAB_KERNELS=full)",
                       std::invalid_argument);
}

// In whole 16-byte chunks, to the smallest that has room for keys and values.
TEST_CASE("Hopper's kernels pad heads that have no kernel of their own") {
  for (const std::int64_t size : {8, 32, 56, 64}) {
    CHECK(forward_name({.D = size}, on_hopper) == "attend hopper bf16 64");
    const std::string backward = backward_name({.D = size}, on_hopper);
    CHECK((backward.starts_with("attend_backward hopper ") && backward.ends_with(" bf16 64")));
  }
  for (const std::int64_t size : {72, 80, 96, 112, 128}) {
    CHECK(forward_name({.D = size, .dtype = DType::fp16}, on_hopper) == "attend hopper fp16 128");
    CHECK(backward_name({.D = size}, on_hopper) == "attend_backward hopper fused bf16 128");
    CHECK(backward_name({.D = size}, with_choice(on_hopper, KernelChoice::deterministic)) ==
          "attend_backward hopper ordered bf16 128");
    CHECK(forward_name({.D = size}, with_choice(on_hopper, KernelChoice::portable)) ==
          (size == 128 ? "attend mma bf16 128" : "attend general"));
  }
  for (const Call& pair : {Call{.D = 96, .E = 64}, Call{.D = 64, .E = 96}, Call{.D = 128, .E = 96}}) {
    CHECK(forward_name(pair, on_hopper) == "attend hopper bf16 128");
    CHECK(backward_name(pair, on_hopper) == "attend_backward hopper fused bf16 128");
  }
  CHECK(forward_name({.D = 256}, on_hopper) == "attend hopper bf16 256");
  CHECK(forward_name({.D = 160}, on_hopper) == "attend hopper bf16 256");
  CHECK(forward_name({.D = 160, .E = 128}, on_hopper) == "attend hopper bf16 192x128");
  CHECK(backward_name({.D = 256}, on_hopper) == "attend_backward hopper bf16 256");
  CHECK(backward_name({.D = 160}, on_hopper) == "attend_backward hopper bf16 256");
  CHECK(backward_name({.D = 136, .E = 72}, on_hopper) == "attend_backward hopper bf16 192x128");
  CHECK(forward_name({.D = 264}, on_hopper) == "attend general");
}

// The tiles of the padded size take its time, and what is read and written is that of the heads.
TEST_CASE("a prediction of padded heads has the time of the padded size") {
  const auto seconds = [](std::int64_t size) {
    const Call call{.S = 8192, .D = size};
    const std::vector<Segment> segments = call.segments();
    const Attend attend = forward(call, segments);
    const AttendBackward gradients = backward(call, segments);
    return std::pair{predicted_seconds(choose_variant(attend, on_hopper), attend, on_hopper),
                     predicted_seconds(choose_variant(gradients, on_hopper), gradients, on_hopper)};
  };
  CHECK(seconds(96).first == doctest::Approx(seconds(128).first).epsilon(0.01));
  CHECK(seconds(96).second == doctest::Approx(seconds(128).second).epsilon(0.05));
  CHECK(seconds(96).second < seconds(128).second);  // zeros and casts are of 96
  CHECK(seconds(64).first < 0.8 * seconds(72).first);
}

TEST_CASE("keys and values of two sizes have kernels in the full set, for that pair alone") {
  VariantOptions full = on_ampere;
  full.build.full = true;
  const Call pair{.D = 192, .E = 128};
  CHECK(forward_name(pair, on_ampere) == "attend general");
  CHECK(backward_name(pair, on_ampere) == "attend_backward general");
  CHECK(forward_name(pair, on_hopper) == "attend hopper bf16 192x128");
  CHECK(backward_name(pair, on_hopper) == "attend_backward hopper bf16 192x128");
  CHECK(forward_name(pair, full) == "attend mma bf16 192x128");
  CHECK(backward_name(pair, full) == "attend_backward mma bf16 192x128");
  CHECK(forward_name({.D = 256, .dtype = DType::fp16}, full) == "attend mma fp16 256");
  CHECK(backward_name({.D = 256, .dtype = DType::fp16}, full) == "attend_backward mma fp16 256");
  for (const Call& other : {Call{.D = 128, .E = 192}, Call{.D = 192}, Call{.D = 256, .E = 128}}) {
    CHECK(forward_name(other, full) == "attend general");
    CHECK(backward_name(other, full) == "attend_backward general");
  }
  const std::vector<Segment> segments = pair.segments();
  Attend attend = forward(pair, segments);
  attend.v.width = 64;
  CHECK(fall_back(attend, full)->text() ==
        "not attend mma bf16 128: no kernel on tensor cores has head sizes 192 and 64 (this build has head "
        "sizes 32, 64, 96, 128, 192/128, 256); about 74 times slower for a FLOP");
}

TEST_CASE("the variant follows layout: lists of runs, misaligned rows, gradients that are not fp32") {
  const Call call;
  const std::vector<Segment> segments = call.segments();
  Attend attend = forward(call, segments);
  const std::array<RowRun, 2> runs = {{{.begin = 0, .count = 1000}, {.begin = 5000, .count = 3096}}};
  attend.k.runs = runs;  // v lies otherwise: one block of keys would be two boxes at different distances
  CHECK(choose_variant(attend, on_hopper).variant->name == "attend mma bf16 128");
  attend.v.runs = runs;
  CHECK(choose_variant(attend, on_hopper).variant->name == "attend hopper bf16 128");
  attend.out.runs = attend.lse.runs = runs;
  CHECK(choose_variant(attend, on_hopper).variant->name == "attend hopper bf16 128");
  const std::array<RowRun, 2> steps = {
      {{.begin = 0, .count = 1000, .step = 2}, {.begin = 5000, .count = 3096}}};
  attend.q.runs = steps;  // no one distance
  CHECK(choose_variant(attend, on_hopper).variant->name == "attend mma bf16 128");
  attend = forward(call, segments);
  attend.v.row_stride += 1;  // rows no longer begin at multiples of 16 bytes
  CHECK(choose_variant(attend, on_hopper).variant->name == "attend general");

  AttendBackward gradients = backward(call, segments);
  gradients.dq.dtype = DType::bf16;  // nothing to add to by atomics
  CHECK(choose_variant(gradients, on_hopper).variant->name == "attend_backward hopper bf16 128");
}

TEST_CASE("a call that falls back says which condition it does not meet") {
  const Call call;
  const std::vector<Segment> segments = call.segments();
  const auto why = [](const auto& of, const VariantOptions& options) {
    const std::optional<FallBack> found = fall_back(of, options);
    return found ? found->text() : std::string();
  };
  Attend attend = forward(call, segments);
  CHECK(why(attend, on_hopper).empty());
  const std::array<RowRun, 3> runs = {
      {{.begin = 0, .count = 1000}, {.begin = 1000, .count = 96}, {.begin = 5000, .count = 3000, .step = 2}}};
  attend.k.runs = runs;  // the second goes on where the first ends
  CHECK(why(attend, on_hopper) == "not attend hopper bf16 128: k has rows in 2 runs at no one distance");
  CHECK(why(attend, on_ampere).empty());  // its kernels take any rows
  const std::array<RowRun, 2> list = {{{.begin = 0, .count = 1096}, {.begin = 5000, .count = 3000}}};
  attend.k.runs = list;
  CHECK(why(attend, on_hopper) == "not attend hopper bf16 128: v has its rows elsewhere than k");
  attend.v.runs = list;
  CHECK(why(attend, on_hopper).empty());
  CHECK(why(attend, with_choice(on_hopper, KernelChoice::portable)).empty());
  attend = forward(call, segments);
  attend.v.row_stride += 1;
  CHECK(why(attend, on_hopper) ==
        "not attend hopper bf16 128: v has rows 2049 elements apart, not a multiple of 16 bytes; "
        "about 120 times slower for a FLOP");
  CHECK(why(attend, on_ampere) ==
        "not attend mma bf16 128: v has rows 2049 elements apart, not a multiple of 16 bytes; about 58 times "
        "slower for a FLOP");
  attend = forward(call, segments);
  attend.v.width = 60;
  CHECK(
      why(attend, on_hopper) ==
      "not attend hopper bf16 128: no kernel on tensor cores has head sizes 128 and 60 (this build has head "
      "sizes 64, 128, 192/128, 256, 576/512, and multiples of 8 up to 256, padded); about 160 times slower "
      "for a "
      "FLOP");
  attend = forward(call, segments);
  attend.scale = -1;
  CHECK(why(attend, on_hopper) ==
        "not attend hopper bf16 128: the scale is not positive; about 120 times slower for a FLOP");

  AttendBackward gradients = backward(call, segments);
  CHECK(why(gradients, on_hopper).empty());
  gradients.dq.dtype = DType::bf16;
  CHECK(why(gradients, on_hopper) == "not attend_backward hopper fused bf16 128: dq is not fp32");
  CHECK(why(gradients, with_choice(on_hopper, KernelChoice::deterministic)) ==
        "not attend_backward hopper ordered bf16 128: dq is not fp32");
  CHECK(why(gradients, with_choice(on_hopper, KernelChoice::apart)).empty());

  // Of short sequences tiles apart are taken anyway, which store dq in any dtype.
  const Call brief{.S = 512};
  const std::vector<Segment> sequences = brief.segments();
  gradients = backward(brief, sequences);
  gradients.dk.dtype = gradients.dv.dtype = DType::bf16;
  CHECK(choose_variant(gradients, on_hopper).variant->name == apart_kernel);
  gradients.dq.dtype = DType::bf16;
  CHECK(choose_variant(gradients, on_hopper).variant->name == apart_kernel);
  CHECK(why(gradients, on_hopper).empty());

  // No kernel on tensor cores has this head size or dtype, whatever the layout.
  CHECK(why(forward({.D = 80}, segments), on_ampere) ==
        "not attend mma bf16 128: no kernel on tensor cores has head size 80 (this build has head sizes 64, "
        "128); "
        "about 80 times slower for a FLOP");
  CHECK(
      why(forward({.dtype = DType::fp32}, segments), on_hopper) ==
      "not attend hopper bf16 128: no kernel on tensor cores takes fp32 (this build has head sizes 64, 128, "
      "192/128, 256, 576/512, and multiples of 8 up to 256, padded); about 120 times slower for a FLOP");
}

TEST_CASE("there is a reason exactly where a slower family takes the call") {
  const Call call;  // long: tiles apart are slower
  const std::vector<Segment> segments = call.segments();
  const std::array<RowRun, 2> runs = {{{.begin = 0, .count = 1000}, {.begin = 2000, .count = 3096}}};
  int fell_back = 0;
  for (int mistake = 0; mistake < 16; ++mistake) {
    AttendBackward of = backward(call, segments);
    if (mistake & 1) of.k.runs = runs;
    if (mistake & 2) of.dq.dtype = DType::bf16;
    if (mistake & 4) of.dout.head_stride += 4;
    if (mistake & 8) of.dq.row_stride += 2;
    const bool slower = choose_variant(of, on_hopper).variant->dq != DqSum::any_order;
    CHECK(fall_back(of, on_hopper).has_value() == slower);
    fell_back += slower;
  }
  CHECK(fell_back == 15);
}

// Zigzag on two ranks: of every sequence, the later half of the rank's rows, a list of runs, sees all keys of
// the rank before it, or all of its rows see the earlier half of the keys.
TEST_CASE("later halves of three sequences, and of a packed list, are taken by the kernels for Hopper") {
  for (const std::vector<std::int64_t>& lengths :
       {std::vector<std::int64_t>(3, 2048), std::vector<std::int64_t>{77, 4096, 1001, 1, 640}}) {
    std::vector<RowRun> halves;
    std::vector<Segment> later, earlier;
    std::int64_t half_rows = 0, rows = 0;
    for (const std::int64_t half : lengths) {
      halves.push_back({.begin = rows + half, .count = half});
      later.push_back({.q_begin = half_rows, .q_count = half, .k_begin = rows, .k_count = 2 * half});
      earlier.push_back({.q_begin = rows, .q_count = 2 * half, .k_begin = half_rows, .k_count = half});
      half_rows += half;
      rows += 2 * half;
    }
    const auto halve = [&](std::initializer_list<View*> views) {
      for (View* view : views) {
        view->rows = half_rows;
        view->runs = halves;
      }
    };
    const Call call{.S = rows};
    for (const bool of_q : {true, false}) {
      const std::vector<Segment>& segments = of_q ? later : earlier;
      Attend attend = forward(call, segments);
      AttendBackward gradients = backward(call, segments);
      if (of_q) {
        halve({&attend.q, &gradients.q, &gradients.dout, &gradients.lse, &gradients.delta, &gradients.dq});
        attend.out.rows = attend.lse.rows = half_rows;  // a part of its own
      } else {
        halve({&attend.k, &attend.v, &gradients.k, &gradients.v, &gradients.dk, &gradients.dv});
      }
      const ChosenForward chosen = choose_variant(attend, on_hopper);
      CHECK(chosen.variant->family->name() == "hopper");
      const ChosenBackward fused = choose_variant(gradients, on_hopper);
      CHECK(fused.variant->dq == DqSum::any_order);
      CHECK(choose_variant(gradients, with_choice(on_hopper, KernelChoice::deterministic)).variant->dq ==
            DqSum::ordered);
      CHECK(choose_variant(gradients, with_choice(on_hopper, KernelChoice::apart)).variant->name ==
            apart_kernel);
      CHECK(choose_variant(gradients, on_ampere).variant->family->name() == "mma");
      // Tiles are of the halves' rows alone, and none is of two sequences.
      const auto in_halves = [&](const WorkTables& work, std::int64_t most) {
        std::int64_t covered = 0;
        for (const WorkTile& tile : work.tiles) {
          covered += tile.end - tile.begin;
          CHECK(tile.end - tile.begin <= most);
          CHECK(std::any_of(halves.begin(), halves.end(), [&](const RowRun& run) {
            const std::int64_t begin = run.begin - halves.front().begin;  // the first row is row 0
            return tile.begin >= begin && tile.end <= begin + run.count;
          }));
        }
        CHECK(covered == half_rows);
      };
      if (of_q) {
        in_halves(chosen.work, chosen.variant->tile_rows);
        in_halves(fused.by_q, fused.variant->tile_rows);
        CHECK(covers(fused.by_k.tiles, rows, fused.variant->tile_rows));
      } else {
        CHECK(covers(chosen.work.tiles, rows, chosen.variant->tile_rows));
        CHECK(covers(fused.by_q.tiles, rows, fused.variant->tile_rows));
        in_halves(fused.by_k, fused.variant->tile_rows);
      }
    }
  }
}

TEST_CASE("lse and delta have tensor maps where heads lie side by side and rows at multiples of 16 bytes") {
  alignas(16) static std::array<float, 8> memory;
  const DeviceView dense{.data = memory.data(),
                         .row_stride = 16,
                         .head_stride = 1,
                         .rows = 100,
                         .heads = 16,
                         .width = 1,
                         .dtype = DType::fp32};
  const auto taken = [&](const DeviceView& view) {
    AttendBackwardParams as_lse, as_delta;
    as_lse.lse = as_delta.delta = view;
    as_lse.delta = as_delta.lse = dense;
    const bool loads = hopper::loads_lse_delta_by_tma(as_lse);
    CHECK(hopper::loads_lse_delta_by_tma(as_delta) == loads);
    return loads;
  };
  const auto with = [&](auto change) {
    DeviceView view = dense;
    change(view);
    return taken(view);
  };
  CHECK(taken(dense));
  CHECK(with([](DeviceView& v) { v.heads = 5; }));  // of rows of 16
  CHECK(with([](DeviceView& v) { v.data = memory.data() + 4; }));
  CHECK_FALSE(with([](DeviceView& v) { v.data = memory.data() + 1; }));
  CHECK_FALSE(with([](DeviceView& v) { v.row_stride = 18; }));
  CHECK_FALSE(with([](DeviceView& v) { v.row_stride = -16; }));
  CHECK_FALSE(with([](DeviceView& v) { v.row_stride = 12; }));  // rows overlap
  CHECK_FALSE(with([](DeviceView& v) { v.head_stride = 2; }));
  CHECK(with([](DeviceView& v) { v.heads = 1, v.head_stride = 2; }));  // never used
  CHECK_FALSE(with([](DeviceView& v) { v.heads = 1, v.row_stride = 1; }));
  CHECK(with([](DeviceView& v) { v.rows = 1, v.row_stride = 3; }));  // never used
  const std::int32_t map = 0;
  CHECK_FALSE(with([&](DeviceView& v) { v.map = &map; }));
  CHECK_FALSE(with([](DeviceView& v) { v.dtype = DType::fp64; }));
}

TEST_CASE("tiles cover the rows of the variant that was taken") {
  for (const std::int64_t S : {1, 100, 512, 3000})
    for (const std::int64_t D : {64, 128, 80})
      for (const VariantOptions& options :
           {on_hopper, on_ampere, with_choice(on_hopper, KernelChoice::portable)}) {
        const Call call{.S = S, .B = 2, .D = D};
        const std::vector<Segment> segments = call.segments();
        const ChosenForward chosen = choose_variant(forward(call, segments), options);
        CHECK(covers(chosen.work.tiles, 2 * S, chosen.variant->tile_rows));
        const ChosenBackward gradients = choose_variant(backward(call, segments), options);
        CHECK(covers(gradients.by_q.tiles, 2 * S, gradients.variant->tile_rows));
        CHECK(covers(gradients.by_k.tiles, 2 * S, gradients.variant->tile_rows));
      }
}

TEST_CASE("a view too large for a launch is refused") {
  Call call;
  call.H = 70000;
  call.G = 70000;
  CHECK_THROWS_AS(forward_name(call, on_hopper), std::invalid_argument);
  call = {.S = std::int64_t{1} << 30};
  CHECK_THROWS_AS(backward_name(call, on_hopper), std::invalid_argument);
}

TEST_CASE("names of variants are unique, and general kernels come last") {
  for (const bool hopper : {false, true})
    for (const bool full : {false, true}) {
      const KernelBuild build{hopper, full};
      std::set<std::string> names;
      for (const AttendVariant& variant : attend_variants(build)) CHECK(names.insert(variant.name).second);
      for (const AttendBackwardVariant& variant : attend_backward_variants(build))
        CHECK(names.insert(variant.name).second);
      // Two dtypes, and of the mma kernels head sizes 64 and 128, in the full set also 32, 96, 192 with 128
      // and 256; backward from 128 on twice, as the fused one for Hopper at 128. Hopper has the last two
      // sizes once in each direction.
      CHECK(attend_variants(build).size() == (hopper ? 14 : 0) + (full ? 12 : 4) + (full ? 2 : 1) + 16);
      CHECK(attend_backward_variants(build).size() == (hopper ? 20 : 0) + (full ? 18 : 6) + (full ? 2 : 1));
      CHECK(attend_variants(build).back().rank == Rank::general);
      CHECK(attend_backward_variants(build).back().rank == Rank::general);
    }
}

TEST_CASE("a measured constant names a record that exists, or says that there is none") {
  std::set<std::string_view> names;
  for (const MeasuredConstant& constant : measured_constants) {
    CAPTURE(constant.name);
    CHECK(names.insert(constant.name).second);
    CHECK((constant.record.starts_with("no record") ||
           std::filesystem::is_regular_file(std::filesystem::path(CPLAB_SOURCE_DIR) / constant.record)));
  }
}

}  // namespace cplab::testing
