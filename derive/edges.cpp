// Event edges from views: vector clocks over the lanes of one rank, with transitive reduction on the fly.
//
// clock(o)[l] = 1 + the last operation of lane l that is known complete when o starts. An edge from x to o is
// needed only if x is not below that clock after the other edges of o are counted.
#include "derive/edges.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "derive/boxes.hpp"
#include "derive/memory.hpp"
#include "plan/structure.hpp"

namespace cplab {
namespace {

// One number for every lane of the rank: 1 + an operation of that lane, 0: none.
using Clock = std::vector<std::uint32_t>;

class Edges {
 public:
  explicit Edges(RankPlan& plan)
      : plan_(plan),
        live_(plan.buffers.size()),
        of_operation_(plan.buffers.size()),
        rows_(plan.row_ranges.size()),
        ranges_written_(plan.row_ranges.size()),
        read_(plan.views.size()),
        written_(plan.views.size()),
        slab_(plan.buffers.size()) {
    find_lanes();
    for (const View& view : plan.views) empty_.push_back(is_empty(plan, view));
    reuse_.assign(plan.buffers.size(), Clock(lane_count_));
    last_ = reuse_;
    last_on_lane_ = forward_end_ = clock_ = wanted_ = Clock(lane_count_);
    find_last();
    for (std::uint32_t a = 0; a < slab_.size(); ++a)
      for (std::uint32_t b = 0; b < slab_.size(); ++b)
        if (a != b && !plan.buffers[a].slab.empty() && plan.buffers[a].slab == plan.buffers[b].slab)
          slab_[a].push_back(b);
  }

  // For every buffer: the last operations on buffers that died before it and whose bytes it takes over.
  void find_reuse(const MemoryPlan& memory) {
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
      for (std::size_t a = 0; a < plan_.buffers.size(); ++a) {
        const Buffer &older = plan_.buffers[a], &newer = plan_.buffers[b];
        if (memory.lifetimes[a].death >= memory.lifetimes[b].birth) continue;
        if (older.offset + older.bytes <= newer.offset || newer.offset + newer.bytes <= older.offset)
          continue;
        for (std::size_t l = 0; l < lane_count_; ++l) reuse_[b][l] = std::max(reuse_[b][l], last_[a][l]);
      }
    }
  }

  void derive() {
    const std::vector<std::uint32_t> old = std::move(plan_.edges);
    plan_.edges.clear();
    clocks_.assign(plan_.operations.size() * lane_count_, 0);
    for (std::uint32_t i = 0; i < plan_.operations.size(); ++i) {
      Operation& op = plan_.operations[i];
      wanted_.assign(lane_count_, 0);
      know_lane(lane_of_[i]);
      list_uses(i, op);
      for (const std::uint32_t buffer : used_) find_conflicts(buffer);
      if (plan_.between_layers && op.phase == Phase::backward)
        for (std::size_t l = 0; l < lane_count_; ++l) wanted_[l] = std::max(wanted_[l], forward_end_[l]);
      add_edges(i, op, wanted_);
      const auto started = RankPlan::slice(old, op.after_started);
      op.after_started = {static_cast<std::uint32_t>(plan_.edges.size()), op.after_started.count};
      plan_.edges.insert(plan_.edges.end(), started.begin(), started.end());
      if (op.phase == Phase::forward) forward_end_[lane_of_[i]] = i + 1;
      for (const std::uint32_t buffer : used_) remember(i, buffer);
    }
  }

  // To be called after derive().
  DataOrder order() const {
    DataOrder order;
    order.lanes = lane_count_;
    order.known.assign(plan_.buffers.size() * lane_count_, UINT32_MAX);
    for (std::uint32_t i = 0; i < plan_.operations.size(); ++i) {
      for_each_buffer(plan_.operations[i], [&](std::uint32_t b) {
        for (std::size_t l = 0; l < lane_count_; ++l) {
          std::uint32_t& known = order.known[b * lane_count_ + l];
          known = std::min(known, clock_of(i)[l]);
        }
      });
    }
    for (const Clock& last : last_) order.last.insert(order.last.end(), last.begin(), last.end());
    return order;
  }

 private:
  struct Use {
    std::uint32_t view;
    bool write;
  };
  // First and last row of a list of ranges; none yet where the last is before the first.
  struct Stretch {
    std::int64_t first = 0, last = -1;
  };
  // What one operation has used of a buffer and has still to be compared: `count` uses, one for every rank
  // maybe, in the order of the list, within a box and a stretch of rows.
  struct Live {
    std::uint32_t operation, count;
    bool writes;
    View around;
    Stretch rows;
  };
  // Of a buffer, operation by operation.
  struct LiveList {
    std::vector<Live> operations;
    std::vector<Use> uses;
  };

  // Calls visit(view, writes). A view without elements uses nothing.
  template <class Visit>
  void for_each_view(const Operation& op, Visit visit) const {
    const auto each = [&](std::uint32_t view, bool write) {
      if (!empty_[view]) visit(view, write);
    };
    for (const Access& a : plan_.reads(op)) each(a.view, false);
    for (const Access& a : plan_.writes(op)) each(a.view, true);
    for (const Part& p : plan_.parts_of(op)) each(p.view, !p.send);
  }
  template <class Visit>
  void for_each_buffer(const Operation& op, Visit visit) const {
    for_each_view(op, [&](std::uint32_t view, bool) { visit(plan_.views[view].buffer); });
  }
  const std::uint32_t* clock_of(std::uint32_t i) const {
    return clocks_.data() + std::size_t{i} * lane_count_;
  }

  void find_lanes() {
    std::vector<Lane> lanes;
    for (const Operation& op : plan_.operations) {
      auto at = std::find(lanes.begin(), lanes.end(), op.lane);
      if (at == lanes.end()) at = lanes.insert(lanes.end(), op.lane);
      lane_of_.push_back(static_cast<std::uint16_t>(at - lanes.begin()));
    }
    lane_count_ = lanes.size();
  }

  void find_last() {
    for (std::uint32_t i = 0; i < plan_.operations.size(); ++i)
      for_each_buffer(plan_.operations[i], [&](std::uint32_t b) { last_[b][lane_of_[i]] = i + 1; });
  }

  // known_: what need not be compared for an operation of that lane, because it is complete when the one
  // before it on the lane is.
  void know_lane(std::size_t own) {
    if (last_on_lane_[own] > 0)
      known_.assign(clock_of(last_on_lane_[own] - 1), clock_of(last_on_lane_[own] - 1) + lane_count_);
    else
      known_.assign(lane_count_, 0);
    known_[own] = UINT32_MAX;
  }

  // used_: the buffers that the operation uses; of_operation_: by buffer its views, each once.
  void list_uses(std::uint32_t i, const Operation& op) {
    for (const std::uint32_t buffer : used_) of_operation_[buffer].clear();
    used_.clear();
    for_each_view(op, [&](std::uint32_t view, bool write) {
      std::uint32_t& known = write ? written_[view] : read_[view];
      if (known == i + 1) return;
      known = i + 1;
      const std::uint32_t buffer = plan_.views[view].buffer;
      if (of_operation_[buffer].empty()) used_.push_back(buffer);
      of_operation_[buffer].push_back({view, write});
    });
  }

  // The last operation of every lane that conflicts over the buffer. From the latest one back: those before
  // one that does need no comparing.
  void find_conflicts(std::uint32_t buffer) {
    for (std::size_t l = 0; l < lane_count_; ++l) wanted_[l] = std::max(wanted_[l], reuse_[buffer][l]);
    const LiveList& list = live_[buffer];
    std::size_t begin = list.uses.size();
    for (auto live = list.operations.rbegin(); live != list.operations.rend(); ++live) {
      begin -= live->count;
      const std::size_t lane = lane_of_[live->operation];
      std::uint32_t& at = wanted_[lane];
      if (std::max(at, known_[lane]) <= live->operation &&
          conflicts(of_operation_[buffer], *live, {&list.uses[begin], live->count}))
        at = live->operation + 1;
    }
    for (const std::uint32_t other : slab_[buffer]) {
      for (const Live& live : live_[other].operations) {
        std::uint32_t& at = wanted_[lane_of_[live.operation]];
        at = std::max(at, live.operation + 1);
      }
    }
  }

  bool conflicts(std::span<const Use> uses, const Live& live, std::span<const Use> others) {
    for (const Use& use : uses) {
      const View& view = plan_.views[use.view];
      const Stretch& rows = rows_of(view);
      if (!(use.write || live.writes) || boxes_disjoint(view, live.around) || rows.last < live.rows.first ||
          live.rows.last < rows.first)
        continue;
      for (const Use& other : others)
        if ((use.write || other.write) && overlaps(use.view, other.view)) return true;
    }
    return false;
  }

  void add_edges(std::uint32_t i, Operation& op, const Clock& wanted) {
    const std::size_t own = lane_of_[i];
    Clock& clock = clock_;
    clock.assign(lane_count_, 0);
    if (last_on_lane_[own]) {
      std::copy_n(clock_of(last_on_lane_[own] - 1), lane_count_, clock.begin());
      clock[own] = last_on_lane_[own];
    }
    op.after.first = static_cast<std::uint32_t>(plan_.edges.size());
    for (std::size_t l = 0; l < lane_count_; ++l) {
      if (l == own || wanted[l] <= clock[l]) continue;
      bool implied = false;
      for (std::size_t m = 0; m < lane_count_ && !implied; ++m) {
        implied = m != l && m != own && wanted[m] > clock[m] && clock_of(wanted[m] - 1)[l] >= wanted[l];
      }
      if (!implied) plan_.edges.push_back(wanted[l] - 1);
    }
    op.after.count = static_cast<std::uint32_t>(plan_.edges.size()) - op.after.first;
    for (std::size_t l = 0; l < lane_count_; ++l) {
      if (l == own || wanted[l] == 0) continue;
      const std::uint32_t* other = clock_of(wanted[l] - 1);
      for (std::size_t m = 0; m < lane_count_; ++m) clock[m] = std::max(clock[m], other[m]);
      clock[l] = std::max(clock[l], wanted[l]);
    }
    std::copy(clock.begin(), clock.end(), clocks_.begin() + static_cast<std::ptrdiff_t>(i * lane_count_));
    last_on_lane_[own] = i + 1;
  }

  // Drops uses that need no further comparing, because whatever conflicts with them also conflicts with a
  // later one ordered behind them: a write that covers them, or the same read later on the same lane.
  void remember(std::uint32_t i, std::uint32_t buffer) {
    const std::vector<Use>& uses = of_operation_[buffer];
    bool all_rows = false;
    for (const Use& use : uses) {
      if (!use.write) continue;
      const View& view = plan_.views[use.view];
      ranges_written_[view.ranges.first] = i + 1;
      all_rows = all_rows || has_all_rows(view);
    }
    const Live now = around(i, uses);
    LiveList& list = live_[buffer];
    const auto place = [&](std::size_t use) { return list.uses.begin() + static_cast<std::ptrdiff_t>(use); };
    std::size_t kept = 0, at = 0, kept_operations = 0;
    for (Live& live : list.operations) {
      const std::size_t first = kept;
      // Of many uses some may stay that could go; what is dropped whole is.
      const bool apart = boxes_disjoint(live.around, now.around) ||
                         (live.count > few_uses * uses.size() && !is_around(now, live));
      const bool same_lane = lane_of_[live.operation] == lane_of_[i];
      const std::size_t end = at + live.count;
      if (apart) {
        if (kept < at) std::copy(place(at), place(end), place(kept));
        kept += live.count;
        at = end;
      }
      for (; at < end; ++at) {
        const Use old = list.uses[at];
        const bool read_again = !old.write && same_lane && read_[old.view] == i + 1;
        if (!read_again && !is_covered(old.view, i, uses, all_rows)) list.uses[kept++] = old;
      }
      live.count = static_cast<std::uint32_t>(kept - first);
      if (live.count == 0) continue;
      if (&list.operations[kept_operations] != &live) list.operations[kept_operations] = live;
      ++kept_operations;
    }
    list.uses.resize(kept);
    list.operations.resize(kept_operations);
    list.uses.insert(list.uses.end(), uses.begin(), uses.end());
    list.operations.push_back(now);
  }

  static bool is_around(const Live& a, const Live& b) {
    const View &x = a.around, &y = b.around;
    return x.slot_begin <= y.slot_begin && y.slot_end <= x.slot_end && x.head_begin <= y.head_begin &&
           y.head_end <= x.head_end && x.width_begin <= y.width_begin && y.width_end <= x.width_end &&
           a.rows.first <= b.rows.first && b.rows.last <= a.rows.last;
  }

  // By one of these writes of operation i; `all_rows`: some have all rows of the buffer.
  bool is_covered(std::uint32_t view, std::uint32_t i, std::span<const Use> uses, bool all_rows) const {
    if (written_[view] == i + 1) return true;
    if (!all_rows && ranges_written_[plan_.views[view].ranges.first] != i + 1) return false;
    return std::ranges::any_of(uses, [&](const Use& use) { return use.write && covers(use.view, view); });
  }

  Live around(std::uint32_t i, std::span<const Use> uses) {
    Live live{i, static_cast<std::uint32_t>(uses.size()), false, plan_.views[uses.front().view], {}};
    live.rows = rows_of(live.around);
    for (const Use& use : uses) {
      const View& view = plan_.views[use.view];
      const Stretch& rows = rows_of(view);
      View& box = live.around;
      box.slot_begin = std::min(box.slot_begin, view.slot_begin);
      box.slot_end = std::max(box.slot_end, view.slot_end);
      box.head_begin = std::min(box.head_begin, view.head_begin);
      box.head_end = std::max(box.head_end, view.head_end);
      box.width_begin = std::min(box.width_begin, view.width_begin);
      box.width_end = std::max(box.width_end, view.width_end);
      live.rows = {std::min(live.rows.first, rows.first), std::max(live.rows.last, rows.last)};
      live.writes = live.writes || use.write;
    }
    return live;
  }

  // Of a view that is not empty.
  const Stretch& rows_of(const View& view) {
    Stretch& rows = rows_[view.ranges.first];
    if (rows.last >= rows.first) return rows;
    const auto ranges = plan_.rows_of(view);
    rows = {ranges.front().begin, last_row(ranges.front())};
    for (const RowRange& range : ranges) {
      if (range.count == 0) continue;
      rows = {std::min(rows.first, range.begin), std::max(rows.last, last_row(range))};
    }
    return rows;
  }

  bool overlaps(std::uint32_t a_index, std::uint32_t b_index) {
    const View &a = plan_.views[a_index], &b = plan_.views[b_index];
    if (boxes_disjoint(a, b)) return false;
    if (a.ranges == b.ranges) return true;
    const Stretch &rows = rows_of(a), &others = rows_of(b);
    if (rows.last < others.first || others.last < rows.first) return false;
    // Equal lists of ranges are stored once, so their place in the pool identifies them.
    const auto [at, fresh] =
        row_overlap_.try_emplace((std::uint64_t{std::min(a.ranges.first, b.ranges.first)} << 32) |
                                     std::max(a.ranges.first, b.ranges.first),
                                 false);
    if (fresh) at->second = rows_overlap(a, b);
    return at->second;
  }

  // Ascending ranges of step 1 that do not touch back are compared in one walk, others sorted first: a list
  // may have a range for every rank and sequence.
  bool rows_overlap(const View& x, const View& y) {
    std::span<const RowRange> a = plan_.rows_of(x), b = plan_.rows_of(y);
    if (!simple(a)) a = sorted(x);
    if (!simple(b)) b = sorted(y);
    std::vector<std::int64_t> reached;  // by place in b: the last row of all ranges up to it
    for (const RowRange& range : b)
      reached.push_back(std::max(reached.empty() ? last_row(range) : reached.back(), last_row(range)));
    std::size_t first = 0;
    for (const RowRange& range : a) {
      while (first < b.size() && reached[first] < range.begin) ++first;
      for (std::size_t j = first; j < b.size() && b[j].begin <= last_row(range); ++j)
        if (ranges_meet(range, b[j])) return true;
    }
    return false;
  }

  static bool simple(std::span<const RowRange> rows) {
    std::int64_t end = 0;
    for (const RowRange& r : rows) {
      if (r.step != 1 || r.begin < end) return false;
      end = r.begin + r.count;
    }
    return true;
  }

  std::span<const RowRange> sorted(const View& view) {
    const auto [at, fresh] = sorted_.try_emplace(view.ranges.first);
    if (fresh) {
      const auto rows = plan_.rows_of(view);
      at->second.assign(rows.begin(), rows.end());
      std::ranges::sort(at->second, {}, &RowRange::begin);
    }
    return at->second;
  }

  // Whether the box of a includes that of b; says no also where that would be expensive to find out.
  bool covers(std::uint32_t a_index, std::uint32_t b_index) const {
    if (a_index == b_index) return true;
    const View &a = plan_.views[a_index], &b = plan_.views[b_index];
    return a.slot_begin <= b.slot_begin && b.slot_end <= a.slot_end && a.head_begin <= b.head_begin &&
           b.head_end <= a.head_end && a.width_begin <= b.width_begin && b.width_end <= a.width_end &&
           (has_all_rows(a) || a.ranges == b.ranges);
  }

  bool has_all_rows(const View& view) const {
    return view.ranges.count == 1 &&
           plan_.rows_of(view)[0] == RowRange{0, plan_.buffers[view.buffer].rows, 1};
  }

  RankPlan& plan_;
  std::vector<std::uint16_t> lane_of_;
  std::size_t lane_count_ = 0;
  Clock last_on_lane_;
  std::vector<std::uint32_t> clocks_;           // by operation and lane
  std::vector<LiveList> live_;                  // by buffer
  std::vector<std::vector<Use>> of_operation_;  // by buffer: what the operation at hand uses
  std::vector<std::uint32_t> used_;             // the buffers of these
  std::vector<Stretch> rows_;                   // by first place of a list in the pool of ranges
  // 1 + the last operation that writes rows of that list; that reads, that writes that view.
  std::vector<std::uint32_t> ranges_written_, read_, written_;
  std::vector<bool> empty_;                       // by view
  std::vector<std::vector<std::uint32_t>> slab_;  // by buffer: the others of its slab
  std::vector<Clock> reuse_;                      // by buffer
  std::vector<Clock> last_;  // by buffer: 1 + the last operation of each lane that touches it
  Clock forward_end_;        // by lane: 1 + the last operation of the forward
  static constexpr std::size_t few_uses = 8;
  Clock known_;
  Clock wanted_, clock_;  // of one operation: the last that conflict with it, what is known when it starts
  std::unordered_map<std::uint64_t, bool> row_overlap_;
  std::unordered_map<std::uint32_t, std::vector<RowRange>> sorted_;  // by place in the pool
};

}  // namespace

void derive_edges(RankPlan& plan) {
  Edges edges(plan);
  edges.find_reuse(plan_memory(plan));
  edges.derive();
}

DataOrder derive_data_edges(RankPlan& plan) {
  Edges edges(plan);
  edges.derive();
  return edges.order();
}

DataOrder order_of_data(const RankPlan& plan) {
  RankPlan copy = plan;
  return derive_data_edges(copy);
}

}  // namespace cplab
