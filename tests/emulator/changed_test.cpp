// Hopper's own kernels of attention that changes logits (kernels/families/masked/hopper) on emulated thread
// blocks: softcaps against brute force, alibi beside the tiles of the CPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/families/masked/variants.hpp"
#include "tests/emulator/hopper.hpp"
#include "tests/emulator/hopper_emulation.hpp"
#include "tests/kernels/masked_cases.hpp"

namespace cplab::emulator {
namespace {

using kernels::DType;
using kernels::RowRun;
using kernels::Segment;
using kernels::View;
using kernels::Write;
using namespace kernels::cuda;

constexpr VariantOptions options{.sm_major = 9, .sms = 4, .build = {.hopper = true, .full = false}};

// What a call's parameters point to.
struct Tables {
  std::deque<std::vector<std::int32_t>> maps;

  DeviceView view(const View& view, const RowSpace& space) {
    SpacedView spaced = in_space(view, space);
    DeviceView device = spaced.device;
    if (!spaced.map.empty()) device.map = maps.emplace_back(std::move(spaced.map)).data();
    return device;
  }
};

WorkList list_of(const WorkTables& tables) {
  return {.tiles = tables.tiles.data(),
          .segments = tables.segments.data(),
          .count = static_cast<std::int32_t>(tables.tiles.size()),
          .live = live_tiles(tables),
          .ending = tables.ending};
}

ScoreParams scores_of(const ScoreTables& tables) {
  ScoreParams scores = tables.numbers;
  if (tables.slopes.empty()) return scores;
  scores.slopes = tables.slopes.data();
  scores.shifts = tables.shifts.data();
  return scores;
}

Launch launch_of(std::uint64_t seed) {
  return {.seed = seed,
          .late_copies = seed % 2 == 0,
          .heads_per_group = static_cast<int>(1 + seed % 3),
          .multiprocessors = static_cast<int>(1 + seed % 5),
          .takes_by_counter = seed / 2 % 2 == 0};
}

bool is_emulated(const View& q) {
  return every_kernel || q.dtype != DType::fp16 || q.width == 64;
}

testing::TileRun attend(const kernels::MaskedAttend& call, std::uint64_t seed) {
  const ChosenMasked chosen = choose_variant(call, options);
  if (!chosen.changed || !is_emulated(call.tile.q)) {
    kernels::masked_attend_cpu(call);
    return {"(cpu tiles)", true};
  }
  Tables tables;
  const kernels::Attend& host = call.tile;
  const auto& [of_q, of_k] = chosen.changed->chosen.spaces.value();
  MaskedParams params;
  params.tile = {.q = tables.view(host.q, of_q),
                 .k = tables.view(host.k, of_k),
                 .v = tables.view(host.v, of_k),
                 .out = tables.view(host.out, of_q),
                 .lse = tables.view(host.lse, of_q),
                 .work = list_of(chosen.changed->chosen.work),
                 .scale = host.scale,
                 .write = host.write};
  set_numbers_of_heads(params.tile, host);
  params.scores = scores_of(chosen.changed->scores);
  kernels_for(host.q.dtype, host.q.width).changed_attend(params, launch_of(seed));
  return {chosen.variant->name, true};
}

testing::TileRun attend_backward(const kernels::MaskedAttendBackward& call, std::uint64_t seed) {
  const ChosenMaskedBackward chosen = choose_variant(call, options);
  if (!chosen.changed || !is_emulated(call.tile.q)) {
    kernels::masked_attend_backward_cpu(call);
    return {"(cpu tiles)", true};
  }
  Tables tables;
  const kernels::AttendBackward& host = call.tile;
  const auto& [of_q, of_k] = chosen.changed->chosen.spaces.value();
  MaskedBackwardParams params;
  params.tile = {.q = tables.view(host.q, of_q),
                 .k = tables.view(host.k, of_k),
                 .v = tables.view(host.v, of_k),
                 .dout = tables.view(host.dout, of_q),
                 .lse = tables.view(host.lse, of_q),
                 .delta = tables.view(host.delta, of_q),
                 .dq = tables.view(host.dq, of_q),
                 .dk = tables.view(host.dk, of_k),
                 .dv = tables.view(host.dv, of_k),
                 .by_q = list_of(chosen.changed->chosen.by_q),
                 .by_k = list_of(chosen.changed->chosen.by_k),
                 .scale = host.scale,
                 .write_dq = host.write_dq,
                 .write_dk = host.write_dk,
                 .turns = {}};
  params.scores = scores_of(chosen.changed->scores);
  if (host.write_dq == Write::store) kernels::cpu_tiles().fill(host.dq, 0);
  if (hopper::needs_zeroed_dkv(params.tile)) {
    kernels::cpu_tiles().fill(host.dk, 0);
    kernels::cpu_tiles().fill(host.dv, 0);
  }
  kernels_for(host.q.dtype, host.q.width).changed_attend_backward(params, launch_of(seed));
  return {chosen.variant->name, true};
}

testing::MaskedRunner runner(std::uint64_t& seed) {
  testing::MaskedRunner runner;
  runner.tensor_cores_only = runner.softcaps_only = true;
  runner.most_rows = 150;
  runner.attend = [&seed](auto, std::int64_t, const kernels::MaskedAttend& call, bool) {
    return attend(call, ++seed);
  };
  runner.attend_backward = [&seed](auto, std::int64_t, const kernels::MaskedAttendBackward& call, bool) {
    return attend_backward(call, ++seed);
  };
  return runner;
}

// Numbers of a call with alibi, in bf16.
struct Alibi {
  std::int64_t nq, nk, H, G, D;
  std::vector<std::uint16_t> q, k, v, dout;
  std::vector<float> out, lse, delta, dq, dk, dv;
  std::vector<double> slopes;
  std::vector<RowRun> positions;  // of keys, then of queries
  std::vector<Segment> segments;
  double softcap = 0;

  static std::vector<std::uint16_t> drawn(std::mt19937& g, std::int64_t count) {
    const std::vector<double> values = testing::random_values(g, count, DType::bf16);
    std::vector<std::uint16_t> bits(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      kernels::store_element(bits.data(), DType::bf16, static_cast<std::int64_t>(i), values[i]);
    return bits;
  }
  Alibi(std::int64_t queries, std::int64_t keys, std::int64_t width)
      : nq(queries), nk(keys), H(4), G(2), D(width), slopes{0.5, 0.0625, 0.004, 0} {
    std::mt19937 g(7);
    q = drawn(g, nq * H * D), k = drawn(g, nk * G * D), v = drawn(g, nk * G * D), dout = drawn(g, nq * H * D);
    out.assign(static_cast<std::size_t>(nq * H * D), -7), lse.assign(static_cast<std::size_t>(nq * H), -7);
    dq = out, dk.assign(static_cast<std::size_t>(nk * G * D), -7), dv = dk, delta = lse;
  }
  static View rows(auto& of, DType dtype, std::int64_t n, std::int64_t heads, std::int64_t width) {
    return kernels::rows_first(of.data(), dtype, n, heads, width);
  }
  kernels::PairMask mask() const {
    kernels::PairMask mask;
    mask.columns = positions, mask.slopes = slopes, mask.softcap = softcap;
    return mask;
  }
  kernels::MaskedAttend forward(std::span<const Segment> part, Write write) {
    return {{.q = rows(q, DType::bf16, nq, H, D),
             .k = rows(k, DType::bf16, nk, G, D),
             .v = rows(v, DType::bf16, nk, G, D),
             .out = rows(out, DType::fp32, nq, H, D),
             .lse = rows(lse, DType::fp32, nq, H, 1),
             .segments = part,
             .scale = 0.1,
             .write = write},
            mask()};
  }
  kernels::MaskedAttendBackward backward() {
    return {{.q = rows(q, DType::bf16, nq, H, D),
             .k = rows(k, DType::bf16, nk, G, D),
             .v = rows(v, DType::bf16, nk, G, D),
             .dout = rows(dout, DType::bf16, nq, H, D),
             .lse = rows(lse, DType::fp32, nq, H, 1),
             .delta = rows(delta, DType::fp32, nq, H, 1),
             .dq = rows(dq, DType::fp32, nq, H, D),
             .dk = rows(dk, DType::fp32, nk, G, D),
             .dv = rows(dv, DType::fp32, nk, G, D),
             .segments = segments,
             .scale = 0.1},
            mask()};
  }
  void find_delta() {
    for (std::int64_t row = 0; row < nq * H; ++row) {
      double sum = 0;
      for (std::int64_t at = row * D; at < (row + 1) * D; ++at)
        sum += out[static_cast<std::size_t>(at)] * kernels::load_element(dout.data(), DType::bf16, at);
      delta[static_cast<std::size_t>(row)] = static_cast<float>(sum);
    }
  }
};

// The most that two lists of numbers differ by, over the largest of the second.
double relative(const std::vector<float>& found, const std::vector<float>& right) {
  double size = 0, most = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (found[i] == right[i]) continue;  // -inf too
    size = std::max(size, std::abs(static_cast<double>(right[i])));
    const double error = std::abs(static_cast<double>(found[i]) - static_cast<double>(right[i]));
    most = std::isnan(error) ? 1e300 : std::max(most, error);
  }
  return size == 0 ? most : most / size;
}

// P and dS are rounded to bf16 on both sides, by 2^-9 of each at most.
void check(Alibi right, Alibi found, std::span<const Segment> first, std::span<const Segment> second) {
  kernels::masked_attend_cpu(right.forward(right.segments, Write::store));
  std::string variant = attend(found.forward(first, Write::store), 1).variant;
  CHECK(variant == "attend masked hopper bf16 " + std::to_string(right.D));
  if (!second.empty()) (void)attend(found.forward(second, Write::merge), 2);
  CHECK(relative(found.out, right.out) < 0x1p-8);
  CHECK(relative(found.lse, right.lse) < 2e-6);
  right.find_delta();
  found.lse = right.lse, found.delta = right.delta;
  kernels::masked_attend_backward_cpu(right.backward());
  variant = attend_backward(found.backward(), 3).variant;
  CHECK(variant == "attend_backward masked hopper bf16 " + std::to_string(right.D));
  CHECK(relative(found.dq, right.dq) < 5e-3);
  CHECK(relative(found.dk, right.dk) < 5e-3);
  CHECK(relative(found.dv, right.dv) < 5e-3);
}

}  // namespace

TEST_CASE("hopper kernels with a softcap, emulated, against brute force") {
  testing::Report report;
  std::uint64_t seed = 0;
  for (std::int64_t number = 0; number < 12; ++number)
    testing::masked_case(report, {.seed = 5, .number = number, .only = ""}, runner(seed));
  CHECK(report.summary());
  for (const char* each : {"attend masked hopper bf16 128", "attend masked hopper bf16 64",
                           "attend_backward masked hopper bf16 128", "attend_backward masked hopper bf16 64"})
    CHECK_MESSAGE(report.ran(each), each);
}

TEST_CASE("hopper kernels with alibi, emulated, beside the CPU's tiles") {
  for (const std::int64_t D : {64, 128}) {
    CAPTURE(D);
    // Queries are tokens 100 .. 359 of 0 .. 359: causal, and seen from both sides.
    Alibi one(260, 360, D);
    one.positions = {{0, 360, 1}, {100, 260, 1}};
    for (const std::int64_t right : {0, -1}) {
      one.segments = {{.q_count = 260, .k_count = 360, .offset = 100, .right = right}};
      const std::vector<Segment>
          first = {{.q_count = 260, .k_count = 150, .offset = 100, .right = right}},
          second = {{.q_count = 260, .k_begin = 150, .k_count = 210, .offset = -50, .right = right}};
      check(one, one, first, second);
    }
    one.softcap = 2;
    check(one, one, one.segments, {});
    // Every third token, in two halves of a packed row; a window, and rows that see nothing.
    Alibi two(200, 230, D);
    two.positions = {{0, 130, 3}, {900, 100, 3}, {30, 100, 3}, {930, 100, 3}};
    two.segments = {
        {.q_count = 100, .k_count = 130, .offset = 10, .left = 40, .right = 0},
        {.q_begin = 110, .q_count = 90, .k_begin = 130, .k_count = 100, .offset = 20, .right = 0}};
    check(two, two, two.segments, {});
    // One segment over both halves, whose positions leap.
    two.segments = {{.q_count = 200, .k_count = 230}};
    check(two, two, two.segments, {});
  }
}

TEST_CASE("hopper kernels refuse what they cannot change") {
  Alibi call(10, 10, 64);
  call.positions = {{0, 10, 1}, {0, 10, 2}};
  call.segments = {{.q_count = 10, .k_count = 10}};
  const kernels::MaskedAttend forward = call.forward(call.segments, Write::store);
  CHECK(unmet_changes(forward.mask, forward.tile)->text() ==
        "positions do not grow by one step from row to row");
  CHECK(choose_variant(forward, options).variant->name == "attend masked mma bf16 64");
  VariantOptions same_bits = options;
  same_bits.choice = kernels::KernelChoice::deterministic;
  call.positions = {{0, 10, 2}, {0, 10, 2}};
  CHECK(choose_variant(call.backward(), options).variant->name == "attend_backward masked hopper bf16 64");
  CHECK(choose_variant(call.backward(), same_bits).variant->name == "attend_backward masked mma bf16 64");
  call.slopes[1] = -1;
  CHECK(!choose_variant(call.forward(call.segments, Write::store), options).changed);
}

}  // namespace cplab::emulator
