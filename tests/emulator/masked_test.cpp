// The kernels of dynamic mask attention on emulated thread blocks against brute force: threads in random
// order, copies as late as they may arrive.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "kernels/families/masked/variants.hpp"
#include "tests/emulator/masked.hpp"
#include "tests/kernels/masked_cases.hpp"
#include "tests/kernels/placed_cases.hpp"

namespace cplab::emulator {
namespace {

using kernels::View;
using kernels::Write;
using namespace kernels::cuda;

constexpr VariantOptions options{.sm_major = 9, .sms = 4, .build = {.hopper = false, .full = true}};

// What a call's parameters point to.
struct Tables {
  std::deque<std::vector<std::int32_t>> maps;
  std::deque<WorkTables> work;
  std::deque<std::vector<std::uint32_t>> words;
  std::vector<KeyReach> reach;

  DeviceView view(const View& view) {
    RowMap map = row_map(view);
    DeviceView device = device_view(view, map);
    if (!map.rows.empty()) device.map = maps.emplace_back(std::move(map.rows)).data();
    return device;
  }
  WorkList list(WorkTables tables) {
    const WorkTables& kept = work.emplace_back(std::move(tables));
    return {kept.tiles.data(), kept.segments.data(), static_cast<std::int32_t>(kept.tiles.size()),
            live_tiles(kept)};
  }
  CellBits cells(std::int32_t rows, std::int32_t columns, std::int64_t heads) {
    CellBits bits{.words = nullptr, .rows = cells_of(rows), .row_words = words_of(cells_of(columns))};
    std::vector<std::uint32_t>& mine =
        words.emplace_back(static_cast<std::size_t>(heads * bits.rows * bits.row_words), 0xdeadbeefU);
    bits.words = mine.data();
    return bits;
  }
  DevicePairMask placed(DevicePairMask mask, const kernels::PairMask& host) {
    mask.positions = maps.emplace_back(positions_of(host)).data();
    if (!host.slopes.empty()) mask.slopes = host.slopes.data();
    if (!host.table) return mask;
    mask.table = view(*host.table);
    const std::vector<std::int32_t>& buckets = maps.emplace_back(buckets_of_distances(host));
    mask.bucket_of = buckets.data();
    mask.last_distance = static_cast<std::int32_t>(buckets.size()) - 1;
    if (host.both_ways) mask.later_buckets = static_cast<std::int32_t>(host.starts.size()) + 1;
    return mask;
  }
  DevicePairMask mask(const kernels::PairMask& host, const View& q, const View& k,
                      std::span<const kernels::Segment> segments, bool skips) {
    DevicePairMask mask;
    mask.softcap = host.softcap;
    mask.q_rows = static_cast<std::int32_t>(q.rows), mask.k_rows = static_cast<std::int32_t>(k.rows);
    if (host.placed()) return placed(mask, host);
    if (host.bias) mask.bias = view(*host.bias);
    if (host.keep) mask.keep = view(*host.keep);
    mask.full = !host.columns.empty();
    std::vector<std::int32_t> columns;
    for (const kernels::RowRun& run : host.columns)
      for (std::int64_t i = 0; i < run.count; ++i)
        columns.push_back(static_cast<std::int32_t>(run.begin + i * run.step));
    const bool one_run = host.columns.size() == 1 && host.columns[0].step == 1;
    if (one_run)
      mask.first_column = columns.front();
    else if (mask.full)
      mask.columns = maps.emplace_back(std::move(columns)).data();
    if (!host.keep || !skips) return mask;
    mask.by_q = cells(mask.q_rows, mask.k_rows, host.keep->heads);
    mask.by_k = cells(mask.k_rows, mask.q_rows, host.keep->heads);
    reach = key_reaches(segments, q.rows);
    mask.reach = reach.data();
    return mask;
  }
};

void scan(const DevicePairMask& mask, std::uint64_t seed) {
  if (mask.by_q.words == nullptr) return;
  const auto first =
      reinterpret_cast<std::uintptr_t>(mask.keep.data) + 2 * static_cast<std::uintptr_t>(mask.first_column);
  run_mask_scan(mask,
                mask.full && mask.columns == nullptr && kernels::bytes_of(mask.keep.dtype) == 2 &&
                    first % 16 == 0 && mask.keep.row_stride % 8 == 0 && mask.keep.head_stride % 8 == 0,
                seed);
}

void fill_zero(const View& view) {
  const kernels::View into = view;
  kernels::cpu_tiles().fill(into, 0);
}

testing::TileRun attend(const kernels::MaskedAttend& call, bool skips, std::uint64_t seed) {
  const ChosenMasked chosen = choose_variant(call, options);
  Tables tables;
  MaskedParams params;
  const kernels::Attend& host = call.tile;
  AttendParams& tile = params.tile;
  tile.q = tables.view(host.q), tile.k = tables.view(host.k), tile.v = tables.view(host.v);
  tile.out = tables.view(host.out), tile.lse = tables.view(host.lse);
  tile.scale = host.scale, tile.write = host.write;
  tile.work = tables.list(chosen.work);
  set_numbers_of_heads(tile, host);
  params.mask = tables.mask(call.mask, host.q, host.k, host.segments, skips);
  scan(params.mask, seed);
  if (chosen.variant->on_tensor_cores())
    run_masked_mma(params, seed);
  else
    run_masked_general(params, chosen.variant->dtype == kernels::DType::fp64, seed);
  return {chosen.variant->name, true};
}

testing::TileRun attend_backward(const kernels::MaskedAttendBackward& call, bool skips, std::uint64_t seed) {
  const ChosenMaskedBackward chosen = choose_variant(call, options);
  Tables tables;
  MaskedBackwardParams params;
  const kernels::AttendBackward& host = call.tile;
  AttendBackwardParams& tile = params.tile;
  tile.q = tables.view(host.q), tile.k = tables.view(host.k), tile.v = tables.view(host.v);
  tile.dout = tables.view(host.dout), tile.lse = tables.view(host.lse), tile.delta = tables.view(host.delta);
  tile.dq = tables.view(host.dq), tile.dk = tables.view(host.dk), tile.dv = tables.view(host.dv);
  tile.scale = host.scale, tile.write_dq = host.write_dq, tile.write_dk = host.write_dk;
  tile.by_q = tables.list(chosen.by_q), tile.by_k = tables.list(chosen.by_k);
  params.mask = tables.mask(call.mask, host.q, host.k, host.segments, skips);
  if (call.dbias) params.dbias = tables.view(*call.dbias);
  params.write_dbias = call.write_dbias;
  if (call.dtable) params.dtable = tables.view(*call.dtable);
  if (call.dbias && params.mask.full && call.write_dbias == Write::store) fill_zero(*call.dbias);
  scan(params.mask, seed);
  if (chosen.variant->on_tensor_cores())
    run_masked_mma(params, seed);
  else
    run_masked_general(params, chosen.variant->dtype == kernels::DType::fp64, seed);
  return {chosen.variant->name, true};
}

testing::TileRun select(const kernels::SelectKeys& call, std::uint64_t seed) {
  Tables tables;
  run_select_keys(select_params(call, tables.view(call.bias), tables.view(call.keep)), seed);
  return {"select_keys", true};
}

testing::MaskedRunner runner(bool tensor_cores_only) {
  testing::MaskedRunner runner;
  runner.tensor_cores_only = tensor_cores_only;
  runner.has_fp64 = true;
  runner.most_rows = 100;
  runner.attend = [](auto, std::int64_t, const kernels::MaskedAttend& call, bool skips) {
    return attend(call, skips, 1);
  };
  runner.attend_backward = [](auto, std::int64_t, const kernels::MaskedAttendBackward& call, bool skips) {
    return attend_backward(call, skips, 1);
  };
  runner.select = [](auto, std::int64_t, const kernels::SelectKeys& call) { return select(call, 1); };
  return runner;
}

void check_cases(bool tensor_cores_only, std::int64_t cases) {
  testing::Report report;
  for (std::int64_t number = 0; number < cases; ++number)
    testing::masked_case(report, {.seed = 3, .number = number, .only = ""}, runner(tensor_cores_only));
  CHECK(report.summary());
}

}  // namespace

TEST_CASE("long: masked kernels on tensor cores, emulated, against brute force") {
  check_cases(true, 8);
}

TEST_CASE("long: masked kernels for every call, emulated, against brute force") {
  check_cases(false, 10);
}

TEST_CASE("masked kernels with biases of positions and sinks, emulated, beside the CPU tiles") {
  testing::Report report;
  testing::placed_cases(report, runner(true));
  CHECK(report.summary());
  CHECK(report.ran("masked mma bf16 128"));
}

TEST_CASE("long: selection of keys, emulated, against counting") {
  testing::Report report;
  for (std::int64_t number = 0; number < 60; ++number)
    testing::select_case(report, {.seed = 3, .number = number, .only = ""}, runner(false));
  CHECK(report.summary());
}

}  // namespace cplab::emulator
