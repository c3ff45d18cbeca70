// Event edges from views: vector clocks over the lanes of one rank, with transitive reduction on the fly.
//
// clock(o)[l] = 1 + the last operation of lane l that is known complete when o starts. An edge from x to o is
// needed only if x is not below that clock after the other edges of o are counted.
#include "derive/edges.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "derive/memory.hpp"
#include "plan/structure.hpp"

namespace cplab {
namespace {

// One number for every lane of the rank: 1 + an operation of that lane, 0: none.
using Clock = std::vector<std::uint32_t>;

bool disjoint(std::int32_t a_begin, std::int32_t a_end, std::int32_t b_begin, std::int32_t b_end) {
  return a_end <= b_begin || b_end <= a_begin;
}

std::int64_t last_row(const RowRange& range) {
  return range.begin + (range.count - 1) * range.step;
}

// Two strided ranges share a row.
bool overlap(const RowRange& a, const RowRange& b) {
  if (a.count == 0 || b.count == 0 || last_row(a) < b.begin || last_row(b) < a.begin) return false;
  if (a.step == 1 && b.step == 1) return true;
  const RowRange& few = a.count <= b.count ? a : b;
  const RowRange& many = a.count <= b.count ? b : a;
  for (std::int64_t i = 0; i < few.count; ++i) {
    const std::int64_t from = few.begin + i * few.step - many.begin;
    if (from >= 0 && from % many.step == 0 && from / many.step < many.count) return true;
  }
  return false;
}

class Edges {
 public:
  explicit Edges(RankPlan& plan) : plan_(plan), live_(plan.buffers.size()), slab_(plan.buffers.size()) {
    find_lanes();
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
      for_each_view(op, [&](std::uint32_t view, bool write) { conflicts(view, write, wanted_); });
      if (plan_.between_layers && op.phase == Phase::backward)
        for (std::size_t l = 0; l < lane_count_; ++l) wanted_[l] = std::max(wanted_[l], forward_end_[l]);
      add_edges(i, op, wanted_);
      const auto started = RankPlan::slice(old, op.after_started);
      op.after_started = {static_cast<std::uint32_t>(plan_.edges.size()), op.after_started.count};
      plan_.edges.insert(plan_.edges.end(), started.begin(), started.end());
      if (op.phase == Phase::forward) forward_end_[lane_of_[i]] = i + 1;
      for_each_view(op, [&](std::uint32_t view, bool write) { remember(i, view, write); });
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
  struct Live {
    std::uint32_t operation;
    std::uint32_t view;
    bool write;
  };

  // Calls visit(view, writes). A view without elements uses nothing.
  template <class Visit>
  void for_each_view(const Operation& op, Visit visit) const {
    const auto each = [&](std::uint32_t view, bool write) {
      if (!is_empty(plan_, plan_.views[view])) visit(view, write);
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

  void conflicts(std::uint32_t view, bool write, Clock& wanted) {
    const std::uint32_t buffer = plan_.views[view].buffer;
    for (std::size_t l = 0; l < lane_count_; ++l) wanted[l] = std::max(wanted[l], reuse_[buffer][l]);
    for (const Live& live : live_[buffer]) {
      std::uint32_t& at = wanted[lane_of_[live.operation]];
      if ((write || live.write) && at <= live.operation && overlaps(view, live.view)) at = live.operation + 1;
    }
    for (const std::uint32_t other : slab_[buffer]) {
      for (const Live& live : live_[other]) {
        std::uint32_t& at = wanted[lane_of_[live.operation]];
        at = std::max(at, live.operation + 1);
      }
    }
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

  // Drops accesses that need no further comparing, because whatever conflicts with them also conflicts with a
  // later access ordered behind them: a write that covers them, or the same read later on the same lane.
  void remember(std::uint32_t i, std::uint32_t view, bool write) {
    std::vector<Live>& list = live_[plan_.views[view].buffer];
    std::erase_if(list, [&](const Live& live) {
      if (live.operation == i) return live.view == view && live.write == write;
      if (write) return covers(view, live.view);
      return !live.write && live.view == view && lane_of_[live.operation] == lane_of_[i];
    });
    list.push_back({i, view, write});
  }

  bool overlaps(std::uint32_t a_index, std::uint32_t b_index) {
    const View &a = plan_.views[a_index], &b = plan_.views[b_index];
    if (disjoint(a.slot_begin, a.slot_end, b.slot_begin, b.slot_end) ||
        disjoint(a.head_begin, a.head_end, b.head_begin, b.head_end) ||
        disjoint(a.width_begin, a.width_end, b.width_begin, b.width_end)) {
      return false;
    }
    if (a.ranges.count == 0 || b.ranges.count == 0) return false;
    if (a.ranges == b.ranges) return true;
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
        if (overlap(range, b[j])) return true;
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
    const Buffer& buffer = plan_.buffers[a.buffer];
    const bool all_rows = a.ranges.count == 1 && plan_.rows_of(a)[0] == RowRange{0, buffer.rows, 1};
    return a.slot_begin <= b.slot_begin && b.slot_end <= a.slot_end && a.head_begin <= b.head_begin &&
           b.head_end <= a.head_end && a.width_begin <= b.width_begin && b.width_end <= a.width_end &&
           (all_rows || a.ranges == b.ranges);
  }

  RankPlan& plan_;
  std::vector<std::uint16_t> lane_of_;
  std::size_t lane_count_ = 0;
  Clock last_on_lane_;
  std::vector<std::uint32_t> clocks_;             // by operation and lane
  std::vector<std::vector<Live>> live_;           // by buffer
  std::vector<std::vector<std::uint32_t>> slab_;  // by buffer: the others of its slab
  std::vector<Clock> reuse_;                      // by buffer
  std::vector<Clock> last_;  // by buffer: 1 + the last operation of each lane that touches it
  Clock forward_end_;        // by lane: 1 + the last operation of the forward
  Clock wanted_, clock_;     // of one operation: the last that conflict with it, what is known when it starts
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
