// Rows of memory and the pieces of them that a call has; see row_space.hpp.
#include "kernels/tiles/row_space.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace cplab::kernels::cuda {
namespace {

constexpr std::int64_t physical_limit = std::int64_t{1} << 31;

// More segments than this make a list too long to be walked; no placement comes near.
constexpr std::size_t most_segments = std::size_t{1} << 20;

// The runs of a view: row r is physical row begin + r * step. Runs that go on where the one before ends are
// one.
struct StepRuns {
  std::int64_t begin = 0, step = 1;
  std::vector<RowPiece> pieces;

  std::int64_t rows() const {
    std::int64_t end = 0;
    for (const RowPiece& piece : pieces) end = std::max(end, piece.row + piece.count);
    return end;
  }
};

// None if the runs have several steps, or one that is not positive, or begin at several remainders of it.
std::optional<StepRuns> step_runs(const View& view) {
  StepRuns all;
  if (view.runs.empty()) {
    if (view.rows > 0) all.pieces.push_back({0, 0, view.rows});
    return all;
  }
  all.step = 0;
  all.begin = physical_limit;
  for (const RowRun& run : view.runs) {
    if (run.count == 0) continue;
    if (run.begin < 0 || run.begin >= physical_limit) return std::nullopt;
    all.begin = std::min(all.begin, run.begin);
    if (run.count == 1) continue;
    if (run.step <= 0 || run.begin + (run.count - 1) * run.step >= physical_limit ||
        (all.step != 0 && run.step != all.step))
      return std::nullopt;
    all.step = run.step;
  }
  if (all.step == 0) {  // single rows
    for (const RowRun& run : view.runs)
      if (run.count > 0) all.step = std::gcd(all.step, run.begin - all.begin);
    all.step = std::max<std::int64_t>(all.step, 1);
  }
  std::int64_t compact = 0;
  for (const RowRun& run : view.runs) {
    if (run.count == 0) continue;
    if ((run.begin - all.begin) % all.step != 0) return std::nullopt;
    const std::int64_t row = (run.begin - all.begin) / all.step;
    if (!all.pieces.empty() && row == all.pieces.back().row + all.pieces.back().count)
      all.pieces.back().count += run.count;
    else
      all.pieces.push_back({compact, row, run.count});
    compact += run.count;
  }
  if (all.pieces.empty()) all.begin = 0;
  return all;
}

bool occurs_twice(std::vector<RowPiece> pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const RowPiece& a, const RowPiece& b) { return a.row < b.row; });
  for (std::size_t n = 1; n < pieces.size(); ++n)
    if (pieces[n].row < pieces[n - 1].row + pieces[n - 1].count) return true;
  return false;
}

// Cuts `pieces` also where those of `others` begin; both are in the order of compact rows.
std::vector<RowPiece> cut_at(const std::vector<RowPiece>& pieces, const std::vector<RowPiece>& others) {
  std::vector<RowPiece> cut;
  auto next = others.begin();
  for (RowPiece piece : pieces) {
    const std::int64_t end = piece.compact + piece.count;
    while (next != others.end() && next->compact <= piece.compact) ++next;
    for (; next != others.end() && next->compact < end; ++next) {
      const std::int64_t count = next->compact - piece.compact;
      cut.push_back({piece.compact, piece.row, count});
      piece = {next->compact, piece.row + count, end - next->compact};
    }
    cut.push_back(piece);
  }
  return cut;
}

DeviceView spaced(const View& view, const StepRuns& runs, std::int64_t begin, std::int64_t rows) {
  DeviceView device = device_view(view, {.begin = begin, .step = runs.step, .rows = {}});
  device.rows = static_cast<std::int32_t>(rows);
  device.listed = static_cast<std::int32_t>(view.rows);
  device.in_space = rows != view.rows;
  return device;
}

// Of each piece in compact rows, the rows that [begin, end) has of it: take(begin, end, distance), where row
// i of the call is row i + distance of the space.
template <class Take>
void for_each_part(const RowSpace& space, std::int64_t begin, std::int64_t end, Take take) {
  auto piece =
      std::upper_bound(space.pieces.begin(), space.pieces.end(), begin,
                       [](std::int64_t row, const RowPiece& p) { return row < p.compact + p.count; });
  for (; piece != space.pieces.end() && piece->compact < end; ++piece)
    take(std::max(begin, piece->compact), std::min(end, piece->compact + piece->count),
         piece->row - piece->compact);
}

bool is_read_by_tma(const View& view, const RowSpace& space) {
  const SpacedView spaced = in_space(view, space);
  return spaced.map.empty() && hopper::has_tensor_map(spaced.device);
}

template <class Call>
bool has_few_segments(const Call& call, const RowSpaces& spaces) {
  std::size_t count = 0;
  for (const Segment& s : call.segments) {
    std::size_t queries = 0, keys = 0;
    const auto count_into = [](std::size_t& parts) {
      return [&parts](std::int64_t, std::int64_t, std::int64_t) { ++parts; };
    };
    for_each_part(spaces.q, s.q_begin, s.q_begin + s.q_count, count_into(queries));
    for_each_part(spaces.k, s.k_begin, s.k_begin + s.k_count, count_into(keys));
    count += queries * keys;
    if (count > std::max(most_segments, call.segments.size())) return false;
  }
  return true;
}

}  // namespace

std::vector<RowRange> RowSpace::ranges() const {
  std::vector<RowRange> ranges;
  for (const RowPiece& piece : pieces) ranges.push_back({piece.row, piece.row + piece.count});
  std::sort(ranges.begin(), ranges.end(),
            [](const RowRange& a, const RowRange& b) { return a.begin < b.begin; });
  return ranges;
}

std::optional<RowSpace> row_space(const View& first, std::initializer_list<const View*> others) {
  const std::optional<StepRuns> runs = step_runs(first);
  if (!runs || runs->rows() >= unbounded || occurs_twice(runs->pieces)) return std::nullopt;
  RowSpace space{.rows = runs->rows(), .pieces = runs->pieces};
  for (const View* other : others)
    if (const std::optional<StepRuns> its = step_runs(*other))
      space.pieces = cut_at(space.pieces, its->pieces);
  return space;
}

SpacedView in_space(const View& view, const RowSpace& space) {
  const std::optional<StepRuns> runs = step_runs(view);
  SpacedView spaced_view;
  if (space.pieces.empty()) {
    spaced_view.device = spaced(view, {}, 0, 0);
    return spaced_view;
  }
  // Where row i of the call lies in the view's runs; i only grows.
  std::size_t at = 0;
  const auto row_of = [&](std::int64_t compact) {
    while (runs->pieces[at].compact + runs->pieces[at].count <= compact) ++at;
    return runs->pieces[at].row + compact - runs->pieces[at].compact;
  };
  if (runs) {
    const std::int64_t distance = runs->pieces.front().row - space.pieces.front().row;
    bool alike = true;
    for (const RowPiece& piece : cut_at(space.pieces, runs->pieces))
      alike = alike && row_of(piece.compact) == piece.row + distance;
    if (alike) {
      spaced_view.device = spaced(view, *runs, runs->begin + distance * runs->step, space.rows);
      return spaced_view;
    }
  }
  // No row: far from any memory, so that its use does not stay unnoticed.
  spaced_view.map.assign(static_cast<std::size_t>(space.rows), -unbounded);
  const RowMap table = runs ? RowMap{} : row_map(view);
  at = 0;
  for (const RowPiece& piece : space.pieces)
    for (std::int64_t n = 0; n < piece.count; ++n)
      spaced_view.map[static_cast<std::size_t>(piece.row + n)] = static_cast<std::int32_t>(
          runs                 ? row_of(piece.compact + n)
          : table.rows.empty() ? table.begin + (piece.compact + n) * table.step
                               : table.rows[static_cast<std::size_t>(piece.compact + n)]);
  spaced_view.device = runs ? spaced(view, *runs, runs->begin, runs->rows()) : spaced(view, {}, 0, view.rows);
  spaced_view.device.in_space = true;
  spaced_view.device.consecutive = runs && cut_at(space.pieces, runs->pieces).size() == space.pieces.size();
  return spaced_view;
}

std::vector<DeviceSegment> in_space(std::span<const DeviceSegment> live, const RowSpace& q,
                                    const RowSpace& k) {
  std::vector<DeviceSegment> spaced;
  for (const DeviceSegment& s : live)
    for_each_part(q, s.q_begin, s.q_end, [&](std::int64_t q_begin, std::int64_t q_end, std::int64_t q_shift) {
      for_each_part(
          k, s.k_begin, s.k_end, [&](std::int64_t k_begin, std::int64_t k_end, std::int64_t k_shift) {
            const auto diagonal = [&](std::int32_t of) {
              return of == unbounded || of == -unbounded
                         ? of
                         : static_cast<std::int32_t>(
                               std::clamp<std::int64_t>(of + k_shift - q_shift, -unbounded, unbounded));
            };
            const DeviceSegment part{.q_begin = static_cast<std::int32_t>(q_begin + q_shift),
                                     .q_end = static_cast<std::int32_t>(q_end + q_shift),
                                     .k_begin = static_cast<std::int32_t>(k_begin + k_shift),
                                     .k_end = static_cast<std::int32_t>(k_end + k_shift),
                                     .low = diagonal(s.low),
                                     .high = diagonal(s.high)};
            const RowRange rows = live_rows(part);
            if (rows.begin < rows.end) spaced.push_back(part);
          });
    });
  return spaced;
}

std::optional<RowSpaces> row_spaces(const Attend& call) {
  const std::optional<RowSpace> q = row_space(call.q, {&call.out}), k = row_space(call.k, {&call.v});
  if (!q || !k) return std::nullopt;
  RowSpaces spaces{*q, *k};
  if (!is_read_by_tma(call.q, spaces.q) || !is_read_by_tma(call.k, spaces.k) ||
      !is_read_by_tma(call.v, spaces.k) || !has_few_segments(call, spaces))
    return std::nullopt;
  return spaces;
}

std::optional<RowSpaces> row_spaces(const AttendBackward& call) {
  const View& rounded_dq = call.rounded_dq ? *call.rounded_dq : call.dq;
  const std::optional<RowSpace> q = row_space(call.q, {&call.dout, &call.dq, &rounded_dq}),
                                k = row_space(call.k, {&call.v, &call.dk, &call.dv});
  if (!q || !k) return std::nullopt;
  RowSpaces spaces{*q, *k};
  if (!is_read_by_tma(call.q, spaces.q) || !is_read_by_tma(call.dout, spaces.q) ||
      !is_read_by_tma(call.k, spaces.k) || !is_read_by_tma(call.v, spaces.k) ||
      !has_few_segments(call, spaces))
    return std::nullopt;
  return spaces;
}

namespace hopper {

bool has_tensor_map(const DeviceView& view) {
  if (view.dtype == DType::fp64 || view.width % 8 != 0) return false;
  const auto bytes = static_cast<std::int64_t>(bytes_of(view.dtype));
  const std::int64_t most_stride = (std::int64_t{1} << 40) / bytes;
  const auto fits = [&](std::int64_t stride) {
    return stride > 0 && stride * bytes % 16 == 0 && stride < most_stride;
  };
  return view.map == nullptr && reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 &&
         (view.rows <= 1 || fits(view.row_stride)) && (view.heads <= 1 || fits(view.head_stride));
}

bool has_single_groups(const DeviceView& view) {
  const auto bytes = static_cast<std::int64_t>(bytes_of(view.dtype));
  return view.width * bytes % 128 != 0;
}

bool has_tensor_map(const View& view) {
  const RowMap map = row_map(view);
  return map.rows.empty() && has_tensor_map(device_view(view, map));
}

}  // namespace hopper
}  // namespace cplab::kernels::cuda
