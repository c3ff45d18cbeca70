// Mutations of views and of whole tiles; see mutations.hpp.
#include <algorithm>
#include <span>
#include <vector>

#include "tests/hand_plans/mutation.hpp"

namespace cplab::hand {
namespace {

bool is_of_keys(Operand operand) {
  return operand == Operand::k || operand == Operand::v || operand == Operand::dk || operand == Operand::dv ||
         operand == Operand::rounded_dk || operand == Operand::rounded_dv;
}

}  // namespace

std::string Mutation::width() {
  const std::size_t how = below(7);
  const auto by = static_cast<std::int32_t>(1 + below(4));
  return change_views("columns changed", [&](View& v) {
    return interval(v.width_begin, v.width_end, rank_->buffers[v.buffer].width, how, by);
  });
}

std::string Mutation::heads_or_slots() {
  const std::size_t how = below(7), which = below(2);
  return change_views("heads or slots changed", [&](View& v) {
    const Buffer& b = rank_->buffers[v.buffer];
    return which ? interval(v.head_begin, v.head_end, b.heads, how, 1)
                 : interval(v.slot_begin, v.slot_end, b.slots, how, 1);
  });
}

std::string Mutation::rows() {
  const std::size_t how = below(4);
  const auto by = static_cast<std::int64_t>(1 + below(3));
  return change_views("rows changed", [&](View& v) {
    std::vector<RowRange> list = ranges_of(v);
    if (list.empty()) return false;
    RowRange& r = list[list.size() - 1];
    if (how == 0) r.begin += by;
    if (how == 1) r.begin -= by;
    if (how == 2) r.count -= by;
    if (how == 3) r.count += by;
    if (r.count < 0 || r.begin < 0 || r.begin + (r.count - 1) * r.step >= rank_->buffers[v.buffer].rows)
      return false;
    v.ranges = add_ranges(*rank_, list);
    return true;
  });
}

std::string Mutation::repeat_rows() {
  const std::size_t how = below(4);
  return change_views("rows repeated or permuted", [&](View& v) {
    std::vector<RowRange> list = ranges_of(v);
    if (list.size() == 1 && list[0].count >= 2 && list[0].step == 1) {
      const RowRange r = list[0];
      const std::int64_t half = r.count / 2;
      if (how == 0) list = {{r.begin, half, 1}, {r.begin, r.count - half, 1}};  // repeated
      if (how == 1)
        list = {{r.begin + half, r.count - half, 1}, {r.begin, half, 1}};  // the halves in the other order
      if (how == 2) list = {{r.begin, (r.count + 1) / 2, 2}, {r.begin + 1, half, 2}};  // even before odd
      if (how == 3) list = {r, r};
    } else if (list.size() >= 2) {
      std::swap(list[0], list[1]);
    } else {
      return false;
    }
    v.ranges = add_ranges(*rank_, list);
    return true;
  });
}

std::string Mutation::stride() {
  const auto step = static_cast<std::int64_t>(2 + below(2));
  const bool longer = below(2) == 0;
  return change_views("stride changed", [&](View& v) {
    std::vector<RowRange> list = ranges_of(v);
    if (list.empty() || list[0].count < 2) return false;
    RowRange& r = list[0];
    const std::int64_t rows = rank_->buffers[v.buffer].rows;
    if (r.step > 1) {
      r.step = 1;
    } else if (longer && r.begin + (r.count - 1) * step < rows) {
      r.step = step;
    } else {
      r = {r.begin, (r.count + step - 1) / step, step};
    }
    v.ranges = add_ranges(*rank_, list);
    return true;
  });
}

std::string Mutation::reroute() {
  const auto to = static_cast<std::uint32_t>(below(rank_->buffers.size()));
  return change_views("buffer rerouted", [&](View& v) {
    const Buffer &a = rank_->buffers[v.buffer], &b = rank_->buffers[to];
    if (v.buffer == to || b.heads < v.head_end || b.width < v.width_end || b.slots < v.slot_end ||
        b.rows < a.rows)
      return false;
    v.buffer = to;
    return true;
  });
}

// The same change of every part of a step, on all ranks: the messages still fit.
std::string Mutation::both_ends() {
  if (op().parts.count == 0) return {};
  const std::uint32_t step = op().step;
  const Phase phase = op().phase;
  const OpKind kind = op().kind;
  const std::size_t what = below(3), how = below(7);
  const std::string text = said("both ends of messages changed");
  for (RankPlan& rank : plan_.ranks) {
    rank_ = &rank;
    for (at_ = 0; at_ < rank.operations.size(); ++at_) {
      if (op().step != step || op().phase != phase || op().kind != kind) continue;
      for (std::size_t i = 0; i < op().parts.count; ++i) {
        View v = rank.views[view_of(i)];
        const Buffer& b = rank.buffers[v.buffer];
        std::vector<RowRange> list = ranges_of(v);
        bool done = false;
        if (what == 0) done = interval(v.width_begin, v.width_end, b.width, how, 1);
        if (what == 1) done = interval(v.head_begin, v.head_end, b.heads, how, 1);
        if (what == 2 && !list.empty() && list[0].count >= 2) {
          list[0] = {list[0].begin, list[0].count / 2, how % 2 ? 2 : 1};
          v.ranges = add_ranges(rank, list);
          done = true;
        }
        if (done) set_view(i, v);
      }
    }
  }
  return text;
}

// All operands of a tile lose or change query heads alike, or its key heads change alone.
std::string Mutation::tile_heads() {
  if (op().kind != OpKind::attend && op().kind != OpKind::attend_backward) return {};
  const std::size_t how = below(4);
  const bool of_keys = below(3) == 0;
  std::int32_t begin = op().head_begin, end = op().head_end;
  if (!of_keys && !interval(begin, end, plan_.scenario.problem.heads, how, 1)) return {};
  bool done = !of_keys;
  for (std::size_t which = 0, n = operands(); which < n; ++which) {
    if (is_of_keys(operand_of(which)) != of_keys) continue;
    View view = rank_->views[view_of(which)];
    if (!interval(view.head_begin, view.head_end, rank_->buffers[view.buffer].heads, how, 1)) continue;
    set_view(which, view);
    done = true;
  }
  op().head_begin = begin, op().head_end = end;
  return done ? said("heads of a tile changed") : std::string();
}

// A tile becomes two of some of its query heads each. What the second contributes to the key head in whose
// group it begins is added, or stored.
std::string Mutation::split_tile() {
  if (op().kind != OpKind::attend && op().kind != OpKind::attend_backward) return {};
  const View &q = rank_->view_of(op(), Operand::q), &k = rank_->view_of(op(), Operand::k);
  const std::int32_t heads = q.head_end - q.head_begin, key_heads = k.head_end - k.head_begin;
  if (heads < 2 || key_heads < 1 || heads % key_heads != 0) return {};
  const std::int32_t ratio = heads / key_heads,
                     cut = 1 + static_cast<std::int32_t>(below(static_cast<std::size_t>(heads - 1)));
  const bool adds = below(4) != 0;
  insert_operation(*rank_, at_, op());  // the later one, for which others wait, stays the last
  for (const bool second : {false, true}) {
    const std::int32_t begin = second ? cut : 0, end = second ? heads : cut;
    for (std::size_t which = 0, n = operands(); which < n; ++which) {
      const bool of_keys = is_of_keys(operand_of(which));
      View view = rank_->views[view_of(which)];
      view.head_end = view.head_begin + (of_keys ? (end + ratio - 1) / ratio : end);
      view.head_begin += of_keys ? begin / ratio : begin;
      set_view(which, view);
    }
    if (second && adds && cut % ratio != 0)
      for (Access& a : std::span(rank_->accesses).subspan(op().writes.first, op().writes.count))
        if (is_of_keys(a.operand)) a.mode = WriteMode::add;
    op().head_end = op().head_begin + end;
    op().head_begin += begin;
    if (!second) ++at_;
  }
  return said("tile split by heads");
}

}  // namespace cplab::hand
