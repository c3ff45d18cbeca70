// Rows of memory for calls whose rows are lists of runs, against numbers worked out by hand and against every
// row of random lists.
#include "kernels/tiles/row_space.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "kernels/families/fits.hpp"
#include "tests/kernels/oracle.hpp"
#include "tests/kernels/random_tile.hpp"
#include "tests/kernels/unread_view.hpp"

namespace cplab::testing {
namespace {

using namespace kernels::cuda;
using kernels::bytes_of;

// [rows, 2 heads, 64] of bf16, or of another dtype.
View view_of_runs(const std::vector<RowRun>& runs, DType dtype = DType::bf16) {
  View view = unread_view(0, 2, 64, dtype);
  view.runs = runs;
  for (const RowRun& run : runs) view.rows += run.count;
  return view;
}

std::vector<std::int64_t> rows_of(const View& view) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < view.rows && view.runs.empty(); ++row) rows.push_back(row);
  for (const RowRun& run : view.runs)
    for (std::int64_t n = 0; n < run.count; ++n) rows.push_back(run.begin + n * run.step);
  return rows;
}

// Physical row of the view's memory that row `row` of the space is.
std::int64_t physical(const View& view, const SpacedView& spaced, std::int64_t row) {
  const auto shift =
      static_cast<const std::byte*>(spaced.device.data) - static_cast<const std::byte*>(view.data);
  const std::int64_t begin = shift / static_cast<std::int64_t>(bytes_of(view.dtype)) / view.row_stride;
  const std::int64_t at = spaced.map.empty() ? row : spaced.map[static_cast<std::size_t>(row)];
  return begin + at * (spaced.device.row_stride / view.row_stride);
}

// Every row of the call is where the view has it, whether by distance or by map.
void check_rows(const View& view, const RowSpace& space) {
  const SpacedView spaced = in_space(view, space);
  const std::vector<std::int64_t> rows = rows_of(view);
  bool right = true;
  std::int64_t count = 0, last = 0;
  for (const RowPiece& piece : space.pieces) {
    CHECK(piece.compact == count);
    count += piece.count;
    for (std::int64_t n = 0; n < piece.count; ++n) {
      right =
          right && physical(view, spaced, piece.row + n) == rows[static_cast<std::size_t>(piece.compact + n)];
      if (!spaced.map.empty() && spaced.device.consecutive && n > 0)
        right = right && spaced.map[static_cast<std::size_t>(piece.row + n)] ==
                             spaced.map[static_cast<std::size_t>(piece.row + n - 1)] + 1;
      last = std::max<std::int64_t>(
          last, spaced.map.empty() ? piece.row + n : spaced.map[static_cast<std::size_t>(piece.row + n)]);
    }
  }
  CHECK(right);
  CHECK(count == view.rows);
  CHECK(spaced.device.listed == view.rows);
  // A box that leaves the tensor at its end must be cut off there.
  if (count > 0 && (spaced.map.empty() || spaced.device.consecutive)) CHECK(spaced.device.rows == last + 1);
  if (spaced.map.empty()) CHECK(spaced.device.rows == space.rows);
  CHECK(spaced.device.in_space == (!spaced.map.empty() || space.rows != view.rows));
}

}  // namespace

TEST_CASE("one run is its own space, whatever its step") {
  for (const RowRun& run : {RowRun{0, 10, 1}, RowRun{7, 10, 3}, RowRun{7, 1, 1}}) {
    const std::vector<RowRun> runs = {run};
    const View view = view_of_runs(runs);
    const RowSpace space = row_space(view, {}).value();
    CHECK(space.rows == run.count);
    CHECK(space.pieces == std::vector<RowPiece>{{0, 0, run.count}});
    check_rows(view, space);
  }
  View whole = view_of_runs({});
  whole.rows = 30;
  CHECK(row_space(whole, {})->pieces == std::vector<RowPiece>{{0, 0, 30}});
  CHECK(row_space(view_of_runs({}), {})->rows == 0);
}

TEST_CASE("runs count from the first row of memory, in units of their step, and runs that touch are one") {
  const std::vector<RowRun> list = {{40, 5, 2}, {10, 3, 2}, {16, 2, 2}, {60, 1, 7}, {100, 0, 1}};
  const RowSpace space = row_space(view_of_runs(list), {}).value();
  CHECK(space.pieces == std::vector<RowPiece>{{0, 15, 5}, {5, 0, 5}, {10, 25, 1}});
  CHECK(space.rows == 26);
  const std::vector<RowRange> ranges = space.ranges();
  REQUIRE(ranges.size() == 3);
  CHECK(ranges[0].begin == 0);
  CHECK(ranges[0].end == 5);
  CHECK(ranges[2].begin == 25);
  check_rows(view_of_runs(list), space);
  // Single rows have the largest step that fits.
  CHECK(row_space(view_of_runs({{4, 1, 1}, {10, 1, 1}, {13, 1, 1}}), {})->pieces ==
        std::vector<RowPiece>{{0, 0, 1}, {1, 2, 2}});
}

TEST_CASE("what is no list of one step has no space") {
  CHECK(!row_space(view_of_runs({{9, 4, -1}}), {}));
  CHECK(!row_space(view_of_runs({{0, 4, 1}, {10, 4, 2}}), {}));
  CHECK(!row_space(view_of_runs({{0, 4, 2}, {11, 4, 2}}), {}));  // at another remainder
  CHECK(!row_space(view_of_runs({{0, 4, 1}, {3, 4, 1}}), {}));   // row 3 twice
  CHECK(!row_space(view_of_runs({{0, 4, 1}, {std::int64_t{1} << 30, 4, 1}}), {}));
}

TEST_CASE("pieces end where another view's runs do, which needs a map unless it lies alike") {
  const std::vector<RowRun> list = {{10, 6, 1}, {30, 4, 1}}, moved = {{110, 6, 1}, {130, 4, 1}},
                            other = {{0, 3, 1}, {50, 5, 1}, {20, 2, 1}}, steps = {{5, 5, -1}, {20, 5, 2}};
  const View q = view_of_runs(list), dout = view_of_runs(moved), dq = view_of_runs(other, DType::fp32);
  View out = view_of_runs({});
  out.rows = 10;
  const RowSpace space = row_space(q, {&dout, &dq, &out}).value();
  CHECK(space.pieces == std::vector<RowPiece>{{0, 0, 3}, {3, 3, 3}, {6, 20, 2}, {8, 22, 2}});
  for (const View* view : {&q, &dout, &dq, static_cast<const View*>(&out)}) check_rows(*view, space);
  CHECK(in_space(dout, space).map.empty());
  const SpacedView gradients = in_space(dq, space);
  CHECK(gradients.device.rows == 55);
  CHECK(gradients.device.consecutive);
  CHECK(gradients.map[2] == 2);
  CHECK(gradients.map[3] == 50);
  CHECK(gradients.map[22] == 20);
  CHECK(gradients.map[10] < 0);  // nobody's
  CHECK(in_space(out, space).device.rows == 10);
  // Runs of several steps do not cut; rows are looked up one by one.
  const View lse = view_of_runs(steps, DType::fp32);
  CHECK(row_space(q, {&lse})->pieces.size() == 2);
  check_rows(lse, *row_space(q, {&lse}));
  CHECK(!in_space(lse, space).device.consecutive);
}

TEST_CASE("random lists: every row is found") {
  std::mt19937 generator(4);
  for (int trial = 0; trial < 400; ++trial) {
    const std::int64_t rows = draw(generator, 0, 90);
    const std::vector<RowRun> first = random_runs(rows, generator, draw(generator, 1, 30)),
                              second = random_runs(rows, generator, draw(generator, 1, 30));
    const Layout third = random_layout(rows, generator);
    const View q = view_of_runs(first), out = view_of_runs(second),
               lse = view_of_runs(third.runs, DType::fp32);
    if (rows > 0 && third.runs.empty()) continue;
    const std::optional<RowSpace> space = row_space(q, {&out});
    REQUIRE(space);
    for (const View* view : {&q, &out, &lse}) check_rows(*view, *space);
  }
}

TEST_CASE("segments in row spaces have the pairs of the call") {
  std::mt19937 generator(5);
  for (int trial = 0; trial < 200; ++trial) {
    const std::int64_t nq = draw(generator, 1, 40), nk = draw(generator, 1, 40);
    const std::vector<RowRun> q_runs = random_runs(nq, generator, draw(generator, 1, 20)),
                              k_runs = random_runs(nk, generator, draw(generator, 1, 20));
    const RowSpace q = row_space(view_of_runs(q_runs), {}).value(),
                   k = row_space(view_of_runs(k_runs), {}).value();
    const std::vector<DeviceSegment> live = live_segments(random_segments(generator, nq, nk));
    const auto pairs = [](const std::vector<DeviceSegment>& segments, const std::vector<std::int64_t>& is,
                          const std::vector<std::int64_t>& js) {
      std::vector<int> seen;
      for (const std::int64_t i : is)
        for (const std::int64_t j : js)
          seen.push_back(
              static_cast<int>(std::count_if(segments.begin(), segments.end(), [&](const DeviceSegment& s) {
                return i >= s.q_begin && i < s.q_end && j >= s.k_begin && j < s.k_end && j >= i + s.low &&
                       j <= i + s.high;
              })));
      return seen;
    };
    const auto row_numbers = [](const RowSpace& space) {
      std::vector<std::int64_t> rows;
      for (const RowPiece& piece : space.pieces)
        for (std::int64_t n = 0; n < piece.count; ++n) rows.push_back(piece.row + n);
      return rows;
    };
    std::vector<std::int64_t> all_q(static_cast<std::size_t>(nq)), all_k(static_cast<std::size_t>(nk));
    std::iota(all_q.begin(), all_q.end(), 0);
    std::iota(all_k.begin(), all_k.end(), 0);
    const std::vector<DeviceSegment> spaced = in_space(live, q, k);
    CHECK(pairs(spaced, row_numbers(q), row_numbers(k)) == pairs(live, all_q, all_k));
    // None leaves a piece: a block of it is one box in every view.
    for (const DeviceSegment& s : spaced) {
      const auto holds = [](const RowSpace& space, std::int64_t begin, std::int64_t end) {
        const std::vector<RowRange> ranges = space.ranges();
        return std::any_of(ranges.begin(), ranges.end(),
                           [&](const RowRange& r) { return r.begin <= begin && end <= r.end; });
      };
      CHECK(holds(q, s.q_begin, s.q_end));
      CHECK(holds(k, s.k_begin, s.k_end));
    }
  }
}

TEST_CASE("a call has spaces only if TMA reads what it must") {
  const std::vector<RowRun> list = {{10, 6, 1}, {30, 4, 1}}, other = {{0, 10, 1}};
  std::vector<kernels::Segment> segments = {{.q_begin = 0, .q_count = 10, .k_begin = 0, .k_count = 10}};
  const View q = view_of_runs(list), k = view_of_runs(other), lse = view_of_runs(other, DType::fp32);
  kernels::Attend call{.q = q, .k = k, .v = k, .out = k, .lse = lse, .segments = segments};
  CHECK(row_spaces(call));
  CHECK(row_spaces(call)->q.pieces.size() == 2);
  call.v = q;  // lies otherwise than k
  CHECK(!row_spaces(call));
  kernels::AttendBackward gradients{.q = q,
                                    .k = k,
                                    .v = k,
                                    .dout = q,
                                    .lse = lse,
                                    .delta = lse,
                                    .dq = k,
                                    .dk = q,
                                    .dv = k,
                                    .segments = segments};
  CHECK(row_spaces(gradients));
  CHECK(row_spaces(gradients)->k.pieces.size() == 2);  // for dk's sake
  gradients.dout = k;
  CHECK(!row_spaces(gradients));
  // As many single rows on both sides as to make a million segments of one.
  std::vector<RowRun> singles;
  for (std::int64_t n = 0; n < 1100; ++n) singles.push_back({n * n, 1, 1});
  call.q = call.k = call.v = call.out = view_of_runs(singles);
  segments[0] = {.q_begin = 0, .q_count = 1100, .k_begin = 0, .k_count = 1100};
  call.segments = segments;
  CHECK(!row_spaces(call));
}

}  // namespace cplab::testing
