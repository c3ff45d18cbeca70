// See changed_call.hpp.
#include "kernels/families/masked/hopper/changed_call.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/families/names.hpp"

namespace cplab::kernels::cuda {
namespace {

constexpr double log2_of_e = 1.44269504088896340736;

// tanh(y) = y (1 + u (c0 + u (c1 + ...))), u = y^2, |y| <= 1/2: by interpolation at Chebyshev nodes, relative
// error 5.5e-8.
constexpr double small_argument = 0.5;
constexpr double tanh_terms[] = {-0.3333331108469953, 0.13330476491251128, -0.05338711063460331,
                                 0.017988744403916103};

constexpr std::size_t most_segments = std::size_t{1} << 20;

// Rows first .. first + count - 1 are at positions begin, begin + step, ...
struct PositionRun {
  std::int64_t first, count, begin, step;
  std::int64_t at(std::int64_t row) const { return begin + (row - first) * step; }
};

// Those of keys, and those of queries; runs that go on where the one before ends are one.
struct Positions {
  std::vector<PositionRun> keys, queries;
};

Positions positions_by_run(std::span<const RowRun> runs, std::int64_t k_rows) {
  Positions all;
  std::int64_t row = 0;
  const auto add = [](std::vector<PositionRun>& to, PositionRun run) {
    if (run.count == 0) return;
    if (!to.empty()) {
      PositionRun& last = to.back();
      const std::int64_t step = last.count > 1 ? last.step : run.begin - last.begin;
      if (run.begin == last.begin + last.count * step && (run.count == 1 || run.step == step)) {
        last.step = step;
        last.count += run.count;
        return;
      }
    }
    to.push_back(run);
  };
  for (const RowRun& run : runs) {
    const std::int64_t of_keys = std::clamp<std::int64_t>(k_rows - row, 0, run.count);
    add(all.keys, {row, of_keys, run.begin, run.step});
    add(all.queries, {std::max<std::int64_t>(row - k_rows, 0), run.count - of_keys,
                      run.begin + of_keys * run.step, run.step});
    row += run.count;
  }
  return all;
}

// The step of all runs of more than one row; nothing: there are several.
std::optional<std::int64_t> common_step(const Positions& positions) {
  std::int64_t step = 0;
  for (const auto* runs : {&positions.keys, &positions.queries})
    for (const PositionRun& run : *runs) {
      if (run.count < 2) continue;
      if (step != 0 && run.step != step) return std::nullopt;
      step = run.step;
    }
  return step == 0 ? 1 : step;
}

// The runs that rows begin .. begin + count - 1 lie in: take(begin, count).
template <class Take>
void for_each_run(const std::vector<PositionRun>& runs, std::int64_t begin, std::int64_t count, Take take) {
  const std::int64_t end = begin + count;
  auto run = std::upper_bound(runs.begin(), runs.end(), begin,
                              [](std::int64_t row, const PositionRun& r) { return row < r.first + r.count; });
  for (; run != runs.end() && run->first < end; ++run) {
    const std::int64_t first = std::max(begin, run->first);
    take(first, std::min(end, run->first + run->count) - first);
  }
}

Unmet unmet_mask(const PairMask& mask, double scale) {
  if (mask.bias) return Misfit{"", "it takes no stored bias"};
  if (mask.keep) return Misfit{"", "it takes no keep mask"};
  if (mask.table) return Misfit{"", "it takes no table of buckets"};
  if (!(scale > 0)) return Misfit{"", "the scale is not positive"};
  // Of inner = scale / softcap fp32 must hold the ninth power.
  if (mask.softcap > 0 && !(scale / mask.softcap > 1e-4 && scale / mask.softcap < 1e3))
    return Misfit{"", "the softcap is beyond what fp32 holds"};
  if (!std::all_of(mask.slopes.begin(), mask.slopes.end(),
                   [](double slope) { return slope >= 0 && slope < 1e6; }))
    return Misfit{"", "a slope of alibi is negative or too steep"};
  return {};
}

template <class Call>
Unmet unmet_call(const PairMask& mask, const Call& tile) {
  if (const Unmet unmet = unmet_mask(mask, tile.scale)) return unmet;
  if (placed_segments(mask, tile.segments, tile.k.rows)) return {};
  return Misfit{"", "positions do not grow by one step from row to row"};
}

// The position of each row of the space; rows of nobody have 0.
std::vector<std::int64_t> positions_in(const RowSpace& space, const std::vector<PositionRun>& runs) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(space.rows));
  auto run = runs.begin();
  for (const RowPiece& piece : space.pieces)  // in the order of compact rows
    for (std::int64_t n = 0; n < piece.count; ++n) {
      while (run->first + run->count <= piece.compact + n) ++run;
      positions[static_cast<std::size_t>(piece.row + n)] = run->at(piece.compact + n);
    }
  return positions;
}

}  // namespace

std::string hopper_masked_forward_name(DType dtype, int head_size) {
  return "attend masked hopper" + of_sizes(dtype, head_size);
}
std::string hopper_masked_backward_name(DType dtype, int head_size) {
  return "attend_backward masked hopper" + of_sizes(dtype, head_size);
}

Unmet unmet_changes(const PairMask& mask, const Attend& tile) {
  return unmet_call(mask, tile);
}
Unmet unmet_changes(const PairMask& mask, const AttendBackward& tile) {
  return unmet_call(mask, tile);
}

std::optional<PlacedSegments> placed_segments(const PairMask& mask, std::span<const Segment> segments,
                                              std::int64_t k_rows) {
  PlacedSegments placed;
  if (mask.slopes.empty()) {
    placed.segments.assign(segments.begin(), segments.end());
    return placed;
  }
  const Positions positions = positions_by_run(mask.columns, k_rows);
  const std::optional<std::int64_t> step = common_step(positions);
  if (!step || *step >= unbounded) return std::nullopt;
  placed.step = static_cast<std::int32_t>(*step);
  for (const Segment& s : segments) {
    for_each_run(positions.queries, s.q_begin, s.q_count, [&](std::int64_t q_begin, std::int64_t q_count) {
      if (placed.segments.size() > most_segments) return;
      for_each_run(positions.keys, s.k_begin, s.k_count, [&](std::int64_t k_begin, std::int64_t k_count) {
        Segment part = s;
        part.q_begin = q_begin, part.q_count = q_count;
        part.k_begin = k_begin, part.k_count = k_count;
        part.offset += q_begin - s.q_begin - (k_begin - s.k_begin);
        placed.segments.push_back(part);
      });
    });
    if (placed.segments.size() > most_segments) return std::nullopt;
  }
  return placed;
}

ScoreTables score_tables(const PairMask& mask, double scale, std::int32_t step, const RowSpaces& spaces,
                         std::int64_t k_rows, const WorkTables& work) {
  ScoreTables tables;
  ScoreParams& numbers = tables.numbers;
  numbers.step = step;
  double of_logits = scale;
  if (mask.softcap > 0) {
    const double inner = scale / mask.softcap;
    of_logits = mask.softcap;
    numbers.inner = static_cast<float>(inner);
    numbers.limit = static_cast<float>(small_argument / inner);
    numbers.terms[0] = numbers.inner;
    for (std::size_t n = 0; n < std::size(tanh_terms); ++n)
      numbers.terms[n + 1] =
          static_cast<float>(tanh_terms[n] * std::pow(inner, 2 * static_cast<double>(n) + 3));
    numbers.twice_log2 = static_cast<float>(2 * inner * log2_of_e);
  }
  numbers.scale_log2 = static_cast<float>(of_logits * log2_of_e);
  numbers.inverse_log2 = static_cast<float>(1 / (of_logits * log2_of_e));
  if (mask.slopes.empty()) return tables;
  for (const double slope : mask.slopes) tables.slopes.push_back(static_cast<float>(slope / scale));
  const Positions positions = positions_by_run(mask.columns, k_rows);
  const std::vector<std::int64_t> of_q = positions_in(spaces.q, positions.queries),
                                  of_k = positions_in(spaces.k, positions.keys);
  for (const DeviceSegment& s : work.segments) {
    const std::int64_t key = of_k[static_cast<std::size_t>(s.k_begin)],
                       query = of_q[static_cast<std::size_t>(s.q_begin)];
    // What overflows here comes back in range where it is added to step (key row - query row).
    tables.shifts.push_back(static_cast<std::int32_t>(
        key - query - std::int64_t{step} * (std::int64_t{s.k_begin} - std::int64_t{s.q_begin})));
  }
  return tables;
}

}  // namespace cplab::kernels::cuda
