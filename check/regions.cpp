// Runs of rows with one value; see check/regions.hpp.
#include "check/regions.hpp"

#include <algorithm>
#include <array>

namespace cplab::checking {
namespace {

// Appends a piece; joined with the last one where they touch and hold the same.
void append(std::vector<Piece>& pieces, std::int64_t begin, std::int64_t end, const Value& value) {
  if (begin >= end) return;
  if (!pieces.empty() && pieces.back().end == begin && pieces.back().value == value)
    pieces.back().end = end;
  else
    pieces.push_back({begin, end, value});
}

}  // namespace

std::string_view name(Holds holds) {
  constexpr std::array<std::string_view, 50> names{"nothing",
                                                   "q",
                                                   "k",
                                                   "v",
                                                   "dout",
                                                   "out",
                                                   "lse",
                                                   "delta",
                                                   "dq",
                                                   "dk",
                                                   "dv",
                                                   "max_logit",
                                                   "log_decay",
                                                   "beta",
                                                   "bias",
                                                   "keep",
                                                   "dbias",
                                                   "dlog_decay",
                                                   "dbeta",
                                                   "a state of keys",
                                                   "a state of queries",
                                                   "a transition",
                                                   "sink",
                                                   "bias_table",
                                                   "dsink",
                                                   "dbias_table",
                                                   "latent",
                                                   "rope_key",
                                                   "dlatent",
                                                   "drope_key",
                                                   "key_weights",
                                                   "value_weights",
                                                   "dkey_weights",
                                                   "dvalue_weights",
                                                   "q before its convolution",
                                                   "k before its convolution",
                                                   "v before its convolution",
                                                   "dq before the convolution",
                                                   "dk before the convolution",
                                                   "dv before the convolution",
                                                   "conv_q",
                                                   "conv_k",
                                                   "conv_v",
                                                   "dconv_q",
                                                   "dconv_k",
                                                   "dconv_v",
                                                   "zero",
                                                   "minus infinity",
                                                   "a number",
                                                   "unknown"};
  return names.at(static_cast<std::size_t>(holds));
}

void Budget::keep(std::int64_t pieces) {
  constexpr std::int64_t most = std::int64_t{1} << 24;  // about 1 GiB
  pieces_ += pieces;
  if (pieces_ > most)
    throw PlanTooLarge("checking this plan would keep more than " + std::to_string(most) +
                       " stretches of rows apart (strided or permuted rows are kept one by one); a shorter "
                       "sequence or fewer ranks can be checked");
}

void Budget::compare(std::int64_t x, std::int64_t y) {
  constexpr std::int64_t most = std::int64_t{1} << 28;
  if (x > 0 && y > most / x)
    throw PlanTooLarge(
        "one segment would be compared with the mask in more than " + std::to_string(most) +
        " pieces (strided or permuted rows are compared one by one); a shorter sequence can be "
        "checked");
}

void Region::cut(std::int32_t Column::*begin, std::int32_t Column::*end, std::int32_t at, Budget& budget) {
  for (std::size_t c = 0, n = columns_.size(); c < n; ++c) {
    if (columns_[c].*begin >= at || columns_[c].*end <= at) continue;
    budget.keep(static_cast<std::int64_t>(columns_[c].pieces.size()) + 1);
    Column rest = columns_[c];
    columns_[c].*end = at;
    rest.*begin = at;
    columns_.push_back(std::move(rest));
  }
}

void Region::align(std::int32_t head_begin, std::int32_t head_end, std::int32_t width_begin,
                   std::int32_t width_end, Budget& budget) {
  if (columns_.size() == 1) {
    const Column& c = columns_[0];
    if (c.head_begin >= head_begin && c.head_end <= head_end && c.width_begin >= width_begin &&
        c.width_end <= width_end)
      return;
  }
  cut(&Column::head_begin, &Column::head_end, head_begin, budget);
  cut(&Column::head_begin, &Column::head_end, head_end, budget);
  cut(&Column::width_begin, &Column::width_end, width_begin, budget);
  cut(&Column::width_begin, &Column::width_end, width_end, budget);
}

void read_rows(const Column& column, const Box& box, Runs& runs) {
  runs.clear();
  std::int64_t first = 0;
  auto piece = column.pieces.begin();
  for (const RowRange& r : box.ranges) {
    if (r.count == 0) continue;
    const std::int64_t last = r.begin + (r.count - 1) * r.step;
    // Views mostly ascend: go on from where the last range ended.
    if (piece != column.pieces.begin() && (piece - 1)->end > r.begin) piece = column.pieces.begin();
    if (piece != column.pieces.end() && piece->end <= r.begin) {
      if (++piece != column.pieces.end() && piece->end <= r.begin)
        piece = std::partition_point(piece, column.pieces.end(),
                                     [&](const Piece& p) { return p.end <= r.begin; });
    }
    for (std::int64_t row = r.begin; row <= last;) {
      const bool gap = piece == column.pieces.end() || piece->begin > row;
      const std::int64_t end =
          gap ? (piece == column.pieces.end() ? last + 1 : std::min(piece->begin, last + 1))
              : std::min(piece->end, last + 1);
      const std::int64_t count = (end - row + r.step - 1) / r.step;
      runs.push_back({first, count, row, r.step, gap ? Value{} : piece->value});
      first += count;
      row += count * r.step;
      while (piece != column.pieces.end() && piece->end <= row && row <= last) ++piece;
    }
  }
}

void write_rows(Column& column, const Box& box, const Runs& runs, Budget& budget) {
  std::vector<Piece>& pieces = column.pieces;
  const auto before = static_cast<std::int64_t>(pieces.size());
  const auto moved = [](const Run& run, std::int64_t id, std::int64_t row) {
    Value value = run.value;
    value.shift = value.located() ? id - row : 0;
    return value;
  };
  // The common case: one run of rows replaces all that the column holds.
  if (box.row_set < 0 && runs.size() == 1 && runs[0].step == 1 &&
      (pieces.empty() || (box.low <= pieces.front().begin && pieces.back().end <= box.high))) {
    pieces.clear();
    if (runs[0].value.holds != Holds::nothing)
      pieces.push_back({box.low, box.high, moved(runs[0], runs[0].id(), box.low)});
    return budget.keep(static_cast<std::int64_t>(pieces.size()) - before);
  }
  thread_local std::vector<Piece> fresh, result;
  fresh.clear();
  bool ascending = true;
  auto range = box.ranges.begin();
  std::int64_t range_first = 0;  // row of the view with which the range begins
  for (const Run& run : runs) {
    for (std::int64_t at = run.first; at < run.first + run.count;) {
      for (; range_first + range->count <= at; ++range) range_first += range->count;
      const std::int64_t count = std::min(run.first + run.count, range_first + range->count) - at;
      const std::int64_t row = range->begin + (at - range_first) * range->step;
      const std::int64_t id = run.id() + (at - run.first) * run.step;
      ascending = ascending && (fresh.empty() || fresh.back().end <= row);
      if (count == 1 || (range->step == 1 && (run.step == 1 || !run.value.located()))) {
        fresh.push_back({row, row + count, moved(run, id, row)});
      } else {
        budget.keep(count), budget.keep(-count);  // before they are made
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t target = row + i * range->step;
          fresh.push_back({target, target + 1, moved(run, id + i * run.step, target)});
        }
      }
      at += count;
    }
  }
  if (!ascending)
    std::sort(fresh.begin(), fresh.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  result.clear();
  std::size_t old = 0;
  std::int64_t from = 0;  // old rows below are dealt with
  const auto keep_until = [&](std::int64_t end) {
    while (old < pieces.size() && pieces[old].begin < end) {
      append(result, std::max(from, pieces[old].begin), std::min(end, pieces[old].end), pieces[old].value);
      if (pieces[old].end > end) break;
      ++old;
    }
  };
  for (const Piece& piece : fresh) {
    keep_until(piece.begin);
    if (piece.value.holds != Holds::nothing) append(result, piece.begin, piece.end, piece.value);
    from = std::max(from, piece.end);
    while (old < pieces.size() && pieces[old].end <= from) ++old;
  }
  keep_until(std::numeric_limits<std::int64_t>::max());
  pieces.assign(result.begin(), result.end());
  budget.keep(static_cast<std::int64_t>(pieces.size()) - before);
}

Run advanced(const Run& run, std::int64_t first) {
  Run next = run;
  next.first = first;
  next.count -= first - run.first;
  next.row += (first - run.first) * run.step;
  return next;
}

}  // namespace cplab::checking
