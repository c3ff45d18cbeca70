// Where partial results wait, and when they are merged; see softmax_sum.hpp.
#include "algorithms/softmax/softmax_sum.hpp"

#include <algorithm>

namespace cplab {

SoftmaxSum::SoftmaxSum(const Scope& s, SoftmaxSumOptions options, const Box& out, const Box& lse,
                       const std::vector<std::int64_t>& tile_rows, const Box& sink)
    : b_(s.b), options_(options), out_(out), lse_(lse), sum_(out), sink_(sink) {
  const bool deferred = options.merge == MergeKind::deferred;
  const std::int64_t E = b_.problem().value_size;
  wide_ = options.wide && b_.has_wide() && (tile_rows.size() > 1 || deferred);
  if (wide_) sum_ = s.query_buffer("out_sum", Role::wide, Category::working, 1, s.rows, E);
  std::int64_t rows_of_all = 0, rows_of_largest = 0;
  const std::size_t first = deferred ? 0 : 1,
                    end = options.merge == MergeKind::fused ? first : tile_rows.size();
  for (std::size_t i = first; i < end; ++i) {
    rows_of_all += tile_rows[i];
    rows_of_largest = std::max(rows_of_largest, tile_rows[i]);
  }
  if (first >= end) return;
  // "all": one slot that holds the results of all tiles one after the other, each with only the rows it has.
  const bool all = options.slots == SoftmaxSumOptions::all;
  slots_ = all ? 1 : std::min(options.slots, static_cast<std::int64_t>(end - first));
  const std::int64_t rows = all ? rows_of_all : rows_of_largest;
  out_parts_ = s.query_buffer("out_parts", Role::nominal, Category::working, slots_, rows, E);
  lse_parts_ = s.lse_buffer("lse_parts", Category::working, slots_, rows);
}

// The first tile of an incremental merge has nothing to be merged with, and in a fused merge the attention
// kernel merges.
bool SoftmaxSum::goes_straight() const {
  return options_.merge == MergeKind::fused || (options_.merge == MergeKind::incremental && tiles_ == 0);
}

void SoftmaxSum::attend(Lane lane, const Box& q, const Box& k, const Box& v, const Rows& rows,
                        const std::vector<Segment>& segments, const Box& max_logit,
                        const Builder::PairMask& mask) {
  const Box sink = tiles_ == 0 ? sink_ : Box();
  if (goes_straight()) {
    const WriteMode mode = tiles_++ == 0 ? WriteMode::store : WriteMode::merge;
    return b_.attend(lane,
                     {q, k, v, sum_.rows(rows), lse_.rows(rows), segments, mode, max_logit, mask, sink});
  }
  const std::int64_t n = rows.count(), slot = static_cast<std::int64_t>(kept_.size()) % slots_;
  const bool all = options_.slots == SoftmaxSumOptions::all;
  Partial part{lane, rows, out_parts_.slot(slot).rows_at(all ? rows_kept_ : 0, n),
               lse_parts_.slot(slot).rows_at(all ? rows_kept_ : 0, n)};
  // A partial result is merged after the next tile, so that two lanes overlap; with a single slot before it,
  // because the next tile overwrites the slot.
  const bool early = !all && slots_ == 1, waiting = !kept_.empty();
  if (waiting && early) fold(kept_.back(), kept_.size() == 1);
  b_.attend(lane, {q, k, v, part.out, part.lse, segments, WriteMode::store, max_logit, mask, sink});
  if (waiting && !early) fold(kept_.back(), kept_.size() == 1);
  rows_kept_ += n;
  ++tiles_;
  kept_.push_back(std::move(part));
}

void SoftmaxSum::fold(const Partial& part, bool first) {
  if (options_.merge == MergeKind::incremental) {
    b_.merge(part.lane, part.out, part.lse, sum_.rows(part.rows), lse_.rows(part.rows));
  } else if (first) {
    b_.copy(part.lane, part.lse, lse_.rows(part.rows));
    b_.fill(part.lane, sum_, 0);
  } else {
    b_.merge_lse(part.lane, part.lse, lse_.rows(part.rows));
  }
}

void SoftmaxSum::merge(Lane lane, const Box& part_out, const Box& part_lse, const Rows& rows) {
  if (part_out.given()) b_.merge(lane, part_out, part_lse, sum_.rows(rows), lse_.rows(rows));
}

void SoftmaxSum::finish(Lane lane) {
  if (!kept_.empty()) fold(kept_.back(), kept_.size() == 1);
  if (options_.merge == MergeKind::deferred) {
    for (const Partial& part : kept_)
      b_.rescale_add(lane, part.out, part.lse, lse_.rows(part.rows), sum_.rows(part.rows));
  }
  if (wide_) b_.cast(lane, sum_, out_);
}

void FirstTouch::finish(Builder& b, Lane lane, const Box& sum, std::int64_t rows) {
  const Rows rest = Rows::range(0, rows).minus(touched_);
  if (!rest.empty()) b.fill(lane, sum.rows(rest), 0);
}

void FirstTouch::clear(Builder& b, Lane lane, const Box& sum, std::int64_t rows) {
  touched_ = Rows::range(0, rows);
  b.fill(lane, sum, 0);
}

WriteMode FirstTouch::touch(Builder& b, Lane lane, const Box& sum, const Rows& rows) {
  const Rows fresh = rows.minus(touched_);
  touched_ = touched_.united(rows);
  if (fresh.count() == rows.count()) return WriteMode::store;
  if (!fresh.empty()) b.fill(lane, sum.rows(fresh), 0);
  return WriteMode::add;
}

}  // namespace cplab
