// Bands between token runs. Positions in a run are position + stride * i, so with d = j - i (places in the
// runs) key minus query position is delta + stride * d, and a window becomes a band lo <= d <= hi.
#include "algorithms/core/tile.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace cplab {
namespace {

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max() / 4;

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - ((a % b != 0) && (a < 0));
}

struct Band {
  std::int64_t lo = 1, hi = 0;
  bool empty() const { return lo > hi; }
};

// The live band of two runs of a region's tokens, clipped to the differences that occur; empty if no pair is
// live.
Band band_between(const TokenRun& q, const TokenRun& k, const VisibleRegion& region) {
  if (q.valid == 0 || k.valid == 0) return {};
  const std::int64_t delta = k.position - q.position;
  return {std::max(-(q.valid - 1), -floor_div(delta - region.low, q.stride)),
          std::min(k.valid - 1, floor_div(region.high - delta, q.stride))};
}

// So many rows of a run from one on, all of them tokens.
TokenRun part_of(TokenRun run, std::int64_t first, std::int64_t rows) {
  run.row += first * run.row_step;
  run.position += first * run.stride;
  run.rows = run.valid = rows;
  return run;
}

// The tokens of a run at positions [begin, end), as a run of tokens alone.
TokenRun within(const TokenRun& run, std::int64_t begin, std::int64_t end) {
  const std::int64_t first = std::max<std::int64_t>(0, -floor_div(run.position - begin, run.stride));
  const std::int64_t last = std::min(run.valid - 1, floor_div(end - 1 - run.position, run.stride));
  return part_of(run, first, std::max<std::int64_t>(0, last - first + 1));
}

// Segment of a non-empty band, cut to the rows that have a live pair, in places of the two runs.
Segment segment_of(const TokenRun& q, const TokenRun& k, Band band) {
  Segment s;
  s.q_begin = std::max<std::int64_t>(0, -band.hi);
  s.q_count = std::min(q.valid - 1, k.valid - 1 - band.lo) - s.q_begin + 1;
  s.k_begin = std::max<std::int64_t>(0, s.q_begin + band.lo);
  s.k_count = std::min(k.valid - 1, s.q_begin + s.q_count - 1 + band.hi) - s.k_begin + 1;
  const std::int64_t shift = s.q_begin - s.k_begin;  // d counted inside the segment is d + shift
  const std::int64_t lo = band.lo + shift, hi = band.hi + shift;
  const bool left = lo > -(s.q_count - 1), right = hi < s.k_count - 1;
  if (right) {
    s.offset = hi;
    s.right = 0;
    if (left) s.left = hi - lo;
  } else if (left) {
    s.offset = lo;
    s.left = 0;
  }
  return s;
}

// Calls found(segment), in places of the two runs, for what is live between them, until it says yes.
template <class Found>
bool any_segment(const TokenRun& q, const TokenRun& k, const Visible& visible, Found found) {
  if (q.valid == 0 || k.valid == 0) return false;
  const std::int64_t q_last = q.position + (q.valid - 1) * q.stride;
  for (const VisibleRegion& region : visible.of(q.sequence)) {
    if (region.q_begin > q_last) break;  // they ascend
    if (region.q_end <= q.position) continue;
    const TokenRun queries = within(q, region.q_begin, region.q_end),
                   keys = within(k, region.k_begin, region.k_end);
    const Band band = band_between(queries, keys, region);
    if (band.empty()) continue;
    Segment segment = segment_of(queries, keys, band);
    segment.q_begin += (queries.position - q.position) / q.stride;
    segment.k_begin += (keys.position - k.position) / k.stride;
    if (found(segment)) return true;
  }
  return false;
}

bool is_full(const Segment& s) {
  return s.left < 0 && s.right < 0;
}

// Appends b to a where both have the same queries and b's keys follow a's: all keys of a, then b's diagonal.
// False: they are not one segment.
bool join_keys(Segment& a, const Segment& b) {
  if (a.q_begin != b.q_begin || a.q_count != b.q_count || a.k_begin + a.k_count != b.k_begin) return false;
  if (!is_full(a) || b.left >= 0) return false;
  if (b.right == 0) {
    if (b.offset < -1) return false;  // its first row would not see all keys of a
    a.offset = b.offset + a.k_count;
    a.right = 0;
  }
  a.k_count += b.k_count;
  return true;
}

// Appends b to a where b's queries follow a's and both begin at the same key: both full, or one diagonal
// through both. False: they are not one segment.
bool join_queries(Segment& a, const Segment& b) {
  if (a.k_begin != b.k_begin || a.q_begin + a.q_count != b.q_begin) return false;
  if (is_full(a) && is_full(b) && a.k_count == b.k_count) {
    a.q_count += b.q_count;
    return true;
  }
  if (a.left >= 0 || b.left >= 0 || a.right != 0 || b.k_count < a.k_count) return false;
  // The keys that b has beyond those of a must be masked for a's rows.
  if (b.k_count > a.k_count && a.offset + a.q_count > a.k_count) return false;
  const std::int64_t diagonal = a.offset + a.q_count;  // in the first row of b
  if (b.right == 0 ? b.offset != diagonal : diagonal < b.k_count - 1) return false;
  a.q_count += b.q_count;
  a.k_count = b.k_count;
  return true;
}

// Appends b to a where b's queries follow a's and both see all of the same keys. What join_queries joins
// beyond that has keys in its rows that other segments may be about.
bool join_equal_keys(Segment& a, const Segment& b) {
  if (a.k_begin != b.k_begin || a.q_begin + a.q_count != b.q_begin) return false;
  if (!is_full(a) || !is_full(b) || a.k_count != b.k_count) return false;
  a.q_count += b.q_count;
  return true;
}

// Joins neighbours, so that a tile on the diagonal is one causal segment although it lies between several
// runs: fewer segments for the kernels, and shapes that tables of kernel times have.
void join(std::vector<Segment>& segments, bool (*joined)(Segment&, const Segment&)) {
  std::size_t n = 0;
  for (const Segment& s : segments) {
    if (n > 0 && joined(segments[n - 1], s)) continue;
    segments[n++] = s;
  }
  segments.resize(n);
}

bool by_sequence(std::span<const TokenRun> runs) {
  return std::is_sorted(runs.begin(), runs.end(),
                        [](const TokenRun& a, const TokenRun& b) { return a.sequence < b.sequence; });
}

// Is there a pair of runs of the same sequence for which `found` says yes? It is asked for no pair after
// that.
template <class Found>
bool any_pair(std::span<const TokenRun> q_runs, std::span<const TokenRun> k_runs, Found found) {
  const bool sorted = by_sequence(q_runs) && by_sequence(k_runs);
  std::size_t first = 0;
  for (const TokenRun& q : q_runs) {
    while (sorted && first < k_runs.size() && k_runs[first].sequence < q.sequence) ++first;
    if (first == k_runs.size()) break;
    for (std::size_t i = first; i < k_runs.size(); ++i) {
      if (k_runs[i].sequence == q.sequence && found(q, k_runs[i])) return true;
      if (sorted && k_runs[i].sequence > q.sequence) break;
    }
  }
  return false;
}

// Calls visit(q, k, segment) for what is live between two runs.
template <class Visit>
void for_each_segment(std::span<const TokenRun> q_runs, std::span<const TokenRun> k_runs,
                      const Visible& visible, Visit visit) {
  any_pair(q_runs, k_runs, [&](const TokenRun& q, const TokenRun& k) {
    return any_segment(q, k, visible, [&](const Segment& segment) {
      visit(q, k, segment);
      return false;
    });
  });
}

void append(Rows& rows, const TokenRun& run) {
  rows.append(run.row, run.rows);
}

void append(std::vector<RowRange>& rows, const TokenRun& run) {
  if (run.rows == 0) return;
  const std::int64_t step = run.rows == 1 ? 1 : run.row_step;
  if (!rows.empty() && step == 1 && rows.back().step == 1 &&
      rows.back().begin + rows.back().count == run.row) {
    rows.back().count += run.rows;
  } else {
    rows.push_back({run.row, run.rows, step});
  }
}

// Collects the rows of the live runs; the result is the place of each run's first row among them.
template <class RowsOf>
std::vector<std::int64_t> take_live(std::span<const TokenRun> runs, const std::vector<char>& live,
                                    RowsOf& rows) {
  std::vector<std::int64_t> places(runs.size());
  std::int64_t taken = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    places[i] = taken;
    if (!live[i]) continue;
    append(rows, runs[i]);
    taken += runs[i].rows;
  }
  return places;
}

// Rows [first, end) of a run of keys.
struct LiveKeys {
  std::int64_t first = 0, end = 0;
  void take(const Segment& segment) {
    first = first == end ? segment.k_begin : std::min(first, segment.k_begin);
    end = std::max(end, segment.k_begin + segment.k_count);
  }
};

// By key run: from the first row that a query sees to the last; empty where none does.
std::vector<LiveKeys> live_keys_of(std::span<const TokenRun> q_runs, std::span<const TokenRun> k_runs,
                                   const Visible& visible) {
  std::vector<LiveKeys> live(k_runs.size());
  for_each_segment(q_runs, k_runs, visible, [&](const TokenRun&, const TokenRun& k, const Segment& segment) {
    live[static_cast<std::size_t>(&k - k_runs.data())].take(segment);
  });
  return live;
}

// Row by row what lies in those stretches.
Rows rows_in(std::span<const LiveKeys> live, std::span<const TokenRun> runs) {
  Rows rows;
  for (std::size_t i = 0; i < live.size(); ++i)
    rows.append(runs[i].row + live[i].first, live[i].end - live[i].first);
  return rows;
}

// A segment and the numbers of the runs that it is of.
struct SegmentOfRuns {
  Segment segment;
  std::uint32_t q = 0, k = 0;
};

template <class TileOf>
TileOf tile_of(std::span<const TokenRun> q_runs, std::span<const TokenRun> k_runs, const Visible& visible,
               Take take) {
  TileOf tile;
  std::vector<char> q_live(q_runs.size(), take == Take::queries || take == Take::all);
  std::vector<LiveKeys> k_live(k_runs.size());
  std::vector<SegmentOfRuns> found;
  for_each_segment(q_runs, k_runs, visible,
                   [&](const TokenRun& q, const TokenRun& k, const Segment& segment) {
                     const SegmentOfRuns of{segment, static_cast<std::uint32_t>(&q - q_runs.data()),
                                            static_cast<std::uint32_t>(&k - k_runs.data())};
                     q_live[of.q] = 1;
                     k_live[of.k].take(of.segment);
                     found.push_back(of);
                   });
  const std::vector<std::int64_t> q_places = take_live(q_runs, q_live, tile.q_rows);
  std::vector<std::int64_t> k_places(k_runs.size());  // of each run's first row, also where it is left out
  std::int64_t taken = 0;
  for (std::size_t i = 0; i < k_runs.size(); ++i) {
    const bool whole = take == Take::keys || take == Take::all;
    const LiveKeys rows = whole ? LiveKeys{0, k_runs[i].rows} : k_live[i];
    k_places[i] = taken - rows.first;
    if (rows.first == rows.end) continue;
    append(tile.k_rows, whole ? k_runs[i] : part_of(k_runs[i], rows.first, rows.end - rows.first));
    taken += rows.end - rows.first;
  }
  tile.segments.reserve(found.size());
  for (const SegmentOfRuns& of : found) {
    Segment& segment = tile.segments.emplace_back(of.segment);
    segment.q_begin += q_places[of.q];
    segment.k_begin += k_places[of.k];
  }
  join(tile.segments, join_keys);
  join(tile.segments, visible.is_window() ? join_queries : join_equal_keys);
  return tile;
}

// Runs that all have the given stride of tokens: a run of smaller stride is cut into interleaved ones.
std::vector<TokenRun> at_stride(std::span<const TokenRun> runs, std::int64_t stride) {
  std::vector<TokenRun> cut;
  for (const TokenRun& run : runs) {
    const std::int64_t pieces = stride / run.stride;
    for (std::int64_t i = 0; i < pieces; ++i) {
      const auto share = [&](std::int64_t count) { return (count - i + pieces - 1) / pieces; };
      TokenRun& piece = cut.emplace_back(run);
      piece.row = run.row + i * run.row_step;
      piece.row_step = run.row_step * pieces;
      piece.rows = share(run.rows);
      piece.valid = share(run.valid);
      piece.position = run.position + i * run.stride;
      piece.stride = stride;
      if (piece.rows <= 0)
        cut.pop_back();
      else
        piece.valid = std::max<std::int64_t>(piece.valid, 0);
    }
  }
  return cut;
}

bool same_tokens(const TokenRun& a, const TokenRun& b) {
  return a.sequence == b.sequence && a.rows == b.rows && a.valid == b.valid && a.position == b.position &&
         a.stride == b.stride;
}

// The runs with neighbours as one where both rows and tokens go on.
std::vector<TokenRun> with_neighbours_joined(std::span<const TokenRun> runs) {
  std::vector<TokenRun> joined;
  for (const TokenRun& run : runs) {
    TokenRun* last = joined.empty() ? nullptr : &joined.back();
    const bool goes_on = last && last->sequence == run.sequence && last->valid == last->rows &&
                         run.valid > 0 && last->stride == run.stride && last->row_step == run.row_step &&
                         last->position + last->rows * last->stride == run.position &&
                         last->row + last->rows * last->row_step == run.row;
    if (!goes_on) {
      joined.push_back(run);
      continue;
    }
    last->rows += run.rows;
    last->valid += run.valid;
  }
  return joined;
}

}  // namespace

// A member's queries and its own keys: chunks that follow each other, as the two in the middle of a zigzag do
// (on one rank all), are one band of a window, not three.
Tile row_tile(std::span<const TokenRun> q, std::span<const TokenRun> k, const Visible& visible, Take take) {
  if (!std::equal(q.begin(), q.end(), k.begin(), k.end(), same_tokens))
    return tile_of<Tile>(q, k, visible, take);
  return tile_of<Tile>(with_neighbours_joined(q), with_neighbours_joined(k), visible, take);
}

std::vector<TokenRun> runs_within(std::span<const TokenRun> runs, const Rows& rows) {
  std::vector<TokenRun> within;
  for (const TokenRun& run : runs) {
    const Rows common = Rows::range(run.row, run.rows).common(rows);
    for (const RowRange& range : common.ranges()) {
      const std::int64_t skipped = range.begin - run.row;
      TokenRun& part = within.emplace_back(run);
      part.row = range.begin;
      part.rows = range.count;
      part.valid = std::clamp<std::int64_t>(run.valid - skipped, 0, range.count);
      part.position = run.position + skipped * run.stride;
    }
  }
  return within;
}

ListTile tile_between(std::span<const TokenRun> q, std::span<const TokenRun> k, const Visible& visible,
                      Take take) {
  std::int64_t stride = 1;
  bool alike = true;
  for (const auto& runs : {q, k}) {
    for (const TokenRun& run : runs) {
      stride = std::lcm(stride, run.stride);
      alike = alike && run.stride == q.front().stride;
    }
  }
  if (q.empty() || k.empty() || alike) return tile_of<ListTile>(q, k, visible, take);
  return tile_of<ListTile>(at_stride(q, stride), at_stride(k, stride), visible, take);
}

Rows live_key_rows(std::span<const TokenRun> q, std::span<const TokenRun> k, const Visible& visible) {
  return rows_in(live_keys_of(q, k, visible), k);
}

Rows take_seen(std::span<const TokenRun> q, std::vector<TokenRun>& unseen, const Visible& visible) {
  const std::vector<LiveKeys> live = live_keys_of(q, unseen, visible);
  const Rows rows = rows_in(live, unseen);
  std::size_t left = 0;
  for (std::size_t i = 0; i < live.size(); ++i)
    if (live[i].first > 0 || live[i].end < unseen[i].valid) unseen[left++] = unseen[i];
  unseen.resize(left);
  return rows;
}

std::vector<TokenRun> seen_runs(std::span<const TokenRun> q_runs, std::span<const TokenRun> k_runs,
                                const Visible& visible) {
  std::vector<TokenRun> seen;
  std::vector<std::pair<std::int64_t, std::int64_t>> rows;  // of a run, [first, end)
  for (const TokenRun& k : k_runs) {
    const std::span<const TokenRun> run(&k, 1);
    const auto alike = [&](const TokenRun& q) { return q.stride == k.stride || q.sequence != k.sequence; };
    if (!std::ranges::all_of(q_runs, alike)) {
      if (!tile_between(q_runs, run, visible).empty()) seen.push_back(k);
      continue;
    }
    rows.clear();
    for_each_segment(q_runs, run, visible, [&](const TokenRun&, const TokenRun&, const Segment& s) {
      rows.emplace_back(s.k_begin, s.k_begin + s.k_count);
    });
    std::ranges::sort(rows);
    std::int64_t end = -1;
    for (const auto& [first, until] : rows) {
      if (first > end || end < 0) seen.push_back(part_of(k, first, 0));
      end = std::max(end, until);
      const std::int64_t began = (seen.back().position - k.position) / k.stride;
      seen.back().rows = seen.back().valid = end - began;
    }
  }
  return seen;
}

bool any_live(std::span<const TokenRun> q_runs, std::span<const TokenRun> k_runs, const Visible& visible) {
  return any_pair(q_runs, k_runs, [&](const TokenRun& q, const TokenRun& k) {
    return any_segment(q, k, visible, [](const Segment&) { return true; });
  });
}

// Rows that are no tokens are in no segment: any position does.
std::vector<RowRange> token_rows(std::span<const TokenRun> runs) {
  std::vector<RowRange> rows;
  for (const TokenRun& run : runs)
    if (run.valid > 0) rows.push_back({run.row, run.valid, run.row_step});
  return rows;
}

std::vector<RowRange> positions(std::span<const TokenRun> runs, const Rows& rows) {
  std::vector<RowRange> columns;
  for (const RowRange& range : rows.ranges()) {
    for (const TokenRun& run : runs) {
      const std::int64_t first = std::max(range.begin, run.row) - run.row;
      const std::int64_t end = std::min(range.begin + range.count, run.row + run.rows) - run.row;
      const std::int64_t valid = std::min(end, run.valid);
      if (first < valid) columns.push_back({run.position + first * run.stride, valid - first, run.stride});
      const std::int64_t padding = end - std::max(first, run.valid);
      if (padding > 0) columns.push_back({0, padding, 0});
    }
  }
  if (columns.empty()) columns.push_back({0, 0, 1});  // never no list: that is a bias of keys
  return columns;
}

}  // namespace cplab
