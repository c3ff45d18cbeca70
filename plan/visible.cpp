// A sweep over query rows. In every row a region is one interval of keys, whose ends are either fixed or move
// by a key a row; between the rows where ends meet or change the union of all is a fixed list of such
// intervals.
#include "plan/visible.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "plan/live_pairs.hpp"

namespace cplab {
namespace {

constexpr std::int64_t unlimited = VisibleRegion::unlimited;

// A first or last key: `at`, or for the query at position q the key q + at.
struct Edge {
  std::int64_t at = 0;
  bool moves = false;
  std::int64_t in_row(std::int64_t q) const { return moves ? q + at : at; }
};

// Queries [begin, end) with the keys from `first` to `last`.
struct Strip {
  std::int64_t begin = 0, end = 0;
  Edge first, last;
  bool low_enough = false;  // it must not become higher: see rows_apart
};

// The rows of a region where each of its edges is one line, and which have a key at all.
void append_strips(const VisibleRegion& r, std::vector<Strip>& strips) {
  const std::int64_t begin = std::max(r.q_begin, r.k_begin - r.high),
                     end = std::min(r.q_end, r.k_end - r.low);
  if (begin >= end || r.k_begin >= r.k_end || r.low > r.high) return;
  std::array<std::int64_t, 4> cuts{begin, std::clamp(r.k_begin - r.low, begin, end),
                                   std::clamp(r.k_end - 1 - r.high, begin, end), end};
  std::sort(cuts.begin(), cuts.end());
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts[i] == cuts[i + 1]) continue;
    const std::int64_t last = cuts[i + 1] - 1;
    Strip& strip = strips.emplace_back();
    strip.begin = cuts[i], strip.end = cuts[i + 1];
    strip.first = last + r.low > r.k_begin ? Edge{r.low, true} : Edge{r.k_begin, false};
    strip.last = cuts[i] + r.high < r.k_end - 1 ? Edge{r.high, true} : Edge{r.k_end - 1, false};
  }
}

// Rows beside which a fixed edge of one and a moving edge of the other meet.
void append_meetings(const Strip& a, const Strip& b, std::vector<std::int64_t>& rows) {
  const std::int64_t begin = std::max(a.begin, b.begin), end = std::min(a.end, b.end);
  for (const Edge& x : {a.first, a.last})
    for (const Edge& y : {b.first, b.last}) {
      if (x.moves == y.moves) continue;
      const std::int64_t meeting = x.moves ? y.at - x.at : x.at - y.at;
      for (std::int64_t row = meeting - 1; row <= meeting + 2; ++row)
        if (row > begin && row < end) rows.push_back(row);
    }
}

// All rows where the union of strips may change its form; strips are sorted by their begin.
std::vector<std::int64_t> changes(const std::vector<Strip>& strips) {
  std::vector<std::int64_t> rows;
  std::vector<const Strip*> open;
  for (const Strip& strip : strips) {
    std::erase_if(open, [&](const Strip* other) { return other->end <= strip.begin; });
    for (const Strip* other : open) append_meetings(*other, strip, rows);
    open.push_back(&strip);
    rows.push_back(strip.begin);
    rows.push_back(strip.end);
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

// The union of strips over rows [begin, end) in which none changes its form, by ascending keys.
std::vector<Strip> united(const std::vector<const Strip*>& open, std::int64_t begin, std::int64_t end) {
  std::vector<Strip> row;
  for (const Strip* strip : open) row.push_back({begin, end, strip->first, strip->last, false});
  const auto key = [&](const Edge& edge) { return std::pair(edge.in_row(begin), edge.in_row(end - 1)); };
  std::sort(row.begin(), row.end(),
            [&](const Strip& a, const Strip& b) { return key(a.first) < key(b.first); });
  std::vector<Strip> result;
  for (const Strip& next : row) {
    if (result.empty() || next.first.in_row(begin) > result.back().last.in_row(begin) + 1)
      result.push_back(next);
    else if (key(next.last) > key(result.back().last))
      result.back().last = next.last;
  }
  return result;
}

// Where a moving last key has a moving first key behind it, the boxes of the two strips overlap if they have
// more rows than lie between the two edges.
std::int64_t rows_apart(const std::vector<Strip>& strips) {
  std::int64_t rows = unlimited;
  for (std::size_t i = 0; i + 1 < strips.size(); ++i)
    if (strips[i].last.moves && strips[i + 1].first.moves)
      rows = std::min(rows, strips[i + 1].first.at - strips[i].last.at);
  return rows;
}

// In the rows of `where` both have the same keys.
bool same_lines(const Strip& a, const Strip& b, const Strip& where) {
  const auto same = [&](const Edge& x, const Edge& y) {
    return x.in_row(where.begin) == y.in_row(where.begin) &&
           x.in_row(where.end - 1) == y.in_row(where.end - 1);
  };
  return same(a.first, b.first) && same(a.last, b.last);
}

VisibleRegion region_of(const Strip& s) {
  VisibleRegion r{s.begin, s.end, s.first.in_row(s.begin), s.last.in_row(s.end - 1) + 1};
  if (s.first.moves) r.low = s.first.at;
  if (s.last.moves) r.high = s.last.at;
  return r;
}

bool boxes_meet(const Strip& a, const Strip& b) {
  const VisibleRegion x = region_of(a), y = region_of(b);
  return x.q_begin < y.q_end && y.q_begin < x.q_end && x.k_begin < y.k_end && y.k_begin < x.k_end;
}

// Strips over the rows that were looked at, from the first on.
class Strips {
 public:
  // Those of the next rows, by ascending keys. Each goes on from a strip before it where both together are
  // between two lines and their box meets no other. low_enough: none may become higher.
  void append(const std::vector<Strip>& here, bool low_enough) {
    while (since_ < all_.size() && all_[since_].end < here.front().begin) ++since_;
    const std::size_t before = all_.size();
    for (std::size_t i = 0; i < here.size(); ++i) {
      const std::size_t at = low_enough ? before : continued(here, i, before);
      if (at == before) {
        all_.push_back(here[i]);
        all_.back().low_enough = low_enough;
      }
    }
  }
  const std::vector<Strip>& all() const { return all_; }

 private:
  // Lengthens the strip that here[i] goes on from and returns its index; `none` if there is none.
  std::size_t continued(const std::vector<Strip>& here, std::size_t i, std::size_t none) {
    const Strip& next = here[i];
    for (std::size_t n = since_; n < none; ++n) {
      Strip both = all_[n];
      if (both.end != next.begin || both.low_enough) continue;
      if (!same_lines(both, next, next)) {
        if (!same_lines(both, next, both)) continue;
        both.first = next.first, both.last = next.last;
      }
      both.end = next.end;
      if (!has_box_alone(both, n, here, i)) continue;
      all_[n] = both;
      return n;
    }
    return none;
  }
  bool has_box_alone(const Strip& both, std::size_t n, const std::vector<Strip>& here, std::size_t i) const {
    if (!both.first.moves && !both.last.moves) return true;  // of the keys of each of its rows
    for (std::size_t other = 0; other < here.size(); ++other)
      if (other != i && boxes_meet(both, here[other])) return false;
    for (std::size_t other = 0; other < all_.size(); ++other)
      if (other != n && boxes_meet(both, all_[other])) return false;
    return true;
  }

  std::vector<Strip> all_;
  std::size_t since_ = 0;  // strips before it end above the last rows
};

// What mask, window and chunks allow of a sequence.
std::vector<VisibleRegion> base_of(const Problem& p, std::size_t b) {
  std::vector<VisibleRegion> base;
  if (p.only_rectangles) return base;
  const Window window = p.band();
  const std::int64_t first = p.first_query_at(b), keys = p.lengths_of(Side::keys)[b];
  VisibleRegion whole{first, first + p.lengths[b], 0, keys};
  if (window.left >= 0) whole.low = -window.left;
  if (window.right >= 0) whole.high = window.right;
  if (p.chunk == 0) return {whole};
  for (std::int64_t begin = 0; begin < keys; begin += p.chunk) {
    VisibleRegion chunk = whole;
    chunk.q_begin = std::max(whole.q_begin, begin);
    chunk.q_end = std::min(whole.q_end, begin + p.chunk);
    chunk.k_begin = begin;
    chunk.k_end = std::min(keys, begin + p.chunk);
    if (chunk.q_begin < chunk.q_end) base.push_back(chunk);
  }
  return base;
}

VisibleRegion region_of(const MaskRectangle& r, std::int64_t first_query_at) {
  VisibleRegion region{r.q_begin + first_query_at, r.q_end + first_query_at, r.k_begin, r.k_end};
  if (r.form == MaskRectangle::Form::causal) region.high = region.k_end - region.q_end;
  if (r.form == MaskRectangle::Form::inverse_causal) region.low = region.k_begin - region.q_begin;
  return region;
}

std::vector<VisibleRegion> regions_of(const Problem& p, std::size_t b) {
  std::vector<VisibleRegion> all = base_of(p, b);
  const std::vector<MaskRectangle> rectangles = p.rectangles_of(b);
  if (rectangles.empty()) return all;
  for (const MaskRectangle& r : rectangles) all.push_back(region_of(r, p.first_query_at(b)));
  return apart(all);
}

VisibleRegion region_of(Window window) {
  VisibleRegion region;
  if (window.left >= 0) region.low = -window.left;
  if (window.right >= 0) region.high = window.right;
  return region;
}

// Its queries and keys as those of a tile.
Segment segment_of(const VisibleRegion& r) {
  Segment s;
  s.q_count = std::max<std::int64_t>(0, r.q_end - r.q_begin);
  s.k_count = std::max<std::int64_t>(0, r.k_end - r.k_begin);
  const bool above = r.low > -unlimited, below = r.high < unlimited;
  s.offset = (below ? r.high : above ? r.low : 0) + r.q_begin - r.k_begin;
  if (below) s.right = 0;
  if (above) s.left = below ? r.high - r.low : 0;
  return s;
}

}  // namespace

std::vector<VisibleRegion> apart(const std::vector<VisibleRegion>& regions) {
  std::vector<Strip> strips;
  for (const VisibleRegion& region : regions) append_strips(region, strips);
  std::ranges::sort(strips, {}, &Strip::begin);
  const std::vector<std::int64_t> rows = changes(strips);
  Strips found;
  std::vector<const Strip*> open;
  std::size_t next = 0;
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
    std::erase_if(open, [&](const Strip* strip) { return strip->end <= rows[i]; });
    while (next < strips.size() && strips[next].begin <= rows[i]) open.push_back(&strips[next++]);
    std::vector<Strip> here = united(open, rows[i], rows[i + 1]);
    const std::int64_t most = rows_apart(here);
    for (std::int64_t begin = rows[i]; begin < rows[i + 1] && !here.empty();) {
      const std::int64_t end = std::min(rows[i + 1] - begin, most) + begin;
      for (Strip& strip : here) strip.begin = begin, strip.end = end;
      found.append(here, most < unlimited);
      begin = end;
    }
  }
  std::vector<VisibleRegion> result;
  for (const Strip& strip : found.all()) result.push_back(region_of(strip));
  std::ranges::stable_sort(result, {}, &VisibleRegion::q_begin);
  return result;
}

Visible::Visible(Window window) : window_(region_of(window)) {}

Visible::Visible(const Problem& p) : window_(region_of(p.band())) {
  if (!p.adds_pairs() && p.chunk == 0) return;
  std::vector<std::vector<VisibleRegion>> lists;
  for (std::size_t b = 0; b < p.lengths.size(); ++b) {
    lists.push_back(regions_of(p, b));
    if (!p.packed) break;  // all are alike
  }
  by_sequence_ = std::make_shared<const std::vector<std::vector<VisibleRegion>>>(std::move(lists));
}

std::span<const VisibleRegion> Visible::of(std::int64_t sequence) const {
  if (!by_sequence_) return {&window_, 1};
  return (*by_sequence_)[by_sequence_->size() == 1 ? 0 : static_cast<std::size_t>(sequence)];
}

double region_pairs(const VisibleRegion& r) {
  return live_pairs(segment_of(r));
}

double visible_pairs(const Problem& p, std::size_t b) {
  double pairs = 0;
  for (const VisibleRegion& r : regions_of(p, b)) pairs += region_pairs(r);
  return pairs;
}

double visible_pairs(const Problem& p, const Visible& visible, std::size_t b, std::int64_t q_begin,
                     std::int64_t q_end, std::int64_t k_begin, std::int64_t k_end) {
  const std::int64_t first = p.first_query_at(b);
  double pairs = 0;
  for (VisibleRegion r : visible.of(static_cast<std::int64_t>(b))) {
    r.q_begin = std::max(r.q_begin, first + std::max<std::int64_t>(q_begin, 0));
    r.q_end = std::min(r.q_end, first + std::min(q_end, p.lengths[b]));
    r.k_begin = std::max({r.k_begin, k_begin, std::int64_t{0}});
    r.k_end = std::min({r.k_end, k_end, p.lengths_of(Side::keys)[b]});
    if (r.q_begin < r.q_end && r.k_begin < r.k_end) pairs += region_pairs(r);
  }
  return pairs;
}

}  // namespace cplab
