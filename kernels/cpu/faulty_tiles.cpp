// CPU tiles with bugs that shipped elsewhere, for `verify --inject`. Each table is the correct one with a few
// entries replaced; everything around the bug, guards for -inf included, stays right, so that a finding has
// exactly one cause.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "kernels/cpu/band.hpp"
#include "kernels/cpu/merge_rule.hpp"
#include "kernels/cpu/view_rows.hpp"
#include "kernels/kernels.hpp"

namespace cplab::kernels {
namespace {

// exp(b - a) is infinite for b - a > 88.7 in fp32 (709.8 in fp64), and so is the result; both weights
// exp(x - lse) are then 0 and the row is lost.
template <class T>
T naive_lse(T a, T b) {
  return a + std::log(T{1} + std::exp(b - a));
}

const MergeRule& naive_merge() {
  static const MergeRule rule = {.lse_fp32 = naive_lse<float>, .lse_fp64 = naive_lse<double>};
  return rule;
}

const MergeRule& nominal_accumulator() {
  static const MergeRule rule = [] {
    MergeRule changed = careful_merge();
    changed.round_to_nominal = true;
    return changed;
  }();
  return rule;
}

// The correct table with its merging entries under another rule.
template <const MergeRule& (*rule)()>
const Tiles& tiles_with() {
  static const Tiles tiles = [] {
    Tiles changed = cpu_tiles();
    changed.attend = [](const Attend& operation) { attend_with(rule(), operation); };
    changed.merge = [](const Merge& operation) { merge_with(rule(), operation); };
    changed.merge_lse = [](const MergeLse& operation) { merge_lse_with(rule(), operation); };
    return changed;
  }();
  return tiles;
}

// A row counts iff the row `first` below it is in a segment, where `first` is where the segments begin.
std::vector<Segment> rows_counted_from_zero(std::span<const Segment> segments) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const Segment& s : segments) first = std::min(first, s.q_begin);
  std::vector<Segment> counted;
  for (const Segment& s : segments) {
    for (const Segment& rows : segments) {
      const std::int64_t begin = std::max(s.q_begin, rows.q_begin - first);
      const std::int64_t end = std::min(s.q_begin + s.q_count, rows.q_begin - first + rows.q_count);
      if (begin >= end) continue;
      Segment part = s;
      part.q_begin = begin;
      part.q_count = end - begin;
      part.offset += begin - s.q_begin;
      counted.push_back(part);
    }
  }
  return counted;
}

// out and lse are the right tile's; max_logit is that of the rows counted from 0.
void attend_maxlogit_zero_offset(const Attend& operation) {
  Attend right = operation;
  right.max_logit.reset();
  cpu_tiles().attend(right);
  if (!operation.max_logit) return;
  const auto rows_of = [](const View& view, std::vector<double>& memory) {
    memory.resize(static_cast<std::size_t>(view.rows * view.heads * view.width));
    return View{.data = memory.data(),
                .dtype = DType::fp64,
                .rows = view.rows,
                .heads = view.heads,
                .width = view.width,
                .row_stride = view.heads * view.width,
                .head_stride = view.width,
                .runs = {}};
  };
  std::vector<double> out, lse;
  const std::vector<Segment> segments = rows_counted_from_zero(operation.segments);
  Attend wrong = operation;
  wrong.write = Write::store;
  wrong.segments = segments;
  wrong.out = rows_of(operation.out, out);
  wrong.lse = rows_of(operation.lse, lse);
  cpu_tiles().attend(wrong);
}

const Tiles& maxlogit_zero_offset() {
  static const Tiles tiles = [] {
    Tiles changed = cpu_tiles();
    changed.attend = attend_maxlogit_zero_offset;
    return changed;
  }();
  return tiles;
}

// Keys that some query of the tile sees.
std::vector<char> keys_seen(const AttendBackward& operation) {
  std::vector<char> seen(static_cast<std::size_t>(operation.k.rows));
  for (const Segment& segment : operation.segments) {
    for (std::int64_t i = 0; i < segment.q_count; ++i) {
      const KeyRange keys = visible_keys(segment, i);
      for (std::int64_t j = keys.begin; j < keys.end; ++j)
        seen[static_cast<std::size_t>(segment.k_begin + j)] = 1;
    }
  }
  return seen;
}

// Rows of dk and dv that no query sees keep what they held, also where the tile has to store.
void attend_backward_no_zero_fill(const AttendBackward& operation) {
  const std::vector<char> seen = keys_seen(operation);
  std::vector<std::vector<double>> held;
  const auto for_each_unseen = [&](const auto& visit) {
    for (const View* view : {&operation.dk, &operation.dv}) {
      const ViewRows rows(*view);
      for (std::int64_t head = 0; head < view->heads; ++head)
        for (std::int64_t row = 0; row < view->rows; ++row)
          if (!seen[static_cast<std::size_t>(row)]) visit(rows, row, head);
    }
  };
  for_each_unseen([&](const ViewRows& rows, std::int64_t row, std::int64_t head) {
    rows.load(row, head, held.emplace_back(static_cast<std::size_t>(rows.width())).data());
  });
  cpu_tiles().attend_backward(operation);
  auto next = held.begin();
  for_each_unseen([&](const ViewRows& rows, std::int64_t row, std::int64_t head) {
    rows.store(row, head, (next++)->data());
  });
}

const Tiles& no_zero_fill() {
  static const Tiles tiles = [] {
    Tiles changed = cpu_tiles();
    changed.attend_backward = attend_backward_no_zero_fill;
    return changed;
  }();
  return tiles;
}

}  // namespace

const Tiles* faulty_cpu_tiles(const char* name) {
  const std::string_view fault = name == nullptr ? "" : name;
  if (fault == "naive-merge") return &tiles_with<naive_merge>();
  if (fault == "nominal-accumulator") return &tiles_with<nominal_accumulator>();
  if (fault == "maxlogit-zero-offset") return &maxlogit_zero_offset();
  if (fault == "no-zero-fill") return &no_zero_fill();
  return nullptr;
}

}  // namespace cplab::kernels
