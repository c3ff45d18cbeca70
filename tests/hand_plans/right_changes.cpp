// Right changes of right plans; see right_changes.hpp.
#include "tests/hand_plans/right_changes.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "derive/edges.hpp"
#include "derive/edits.hpp"
#include "plan/structure.hpp"

namespace cplab::hand {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 7) {}
  std::uint64_t below(std::uint64_t n) {  // splitmix64
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (z ^ (z >> 31)) % n;
  }

 private:
  std::uint64_t state_;
};

std::vector<RowRange> cut(std::span<const RowRange> ranges, Draw& draw) {
  std::vector<RowRange> list;
  for (const RowRange& r : ranges) {
    if (r.count < 2 || draw.below(3) == 0) {
      list.push_back(r);
      continue;
    }
    const auto first = static_cast<std::int64_t>(1 + draw.below(static_cast<std::uint64_t>(r.count - 1)));
    list.push_back({r.begin, first, r.step});
    if (draw.below(4) == 0) list.push_back({r.begin, 0, 1});
    list.push_back({r.begin + first * r.step, r.count - first, r.step});
  }
  return list;
}

std::vector<Segment> cut(std::span<const Segment> segments, Draw& draw) {
  std::vector<Segment> list;
  for (const Segment& s : segments) {
    list.push_back(s);
    if (s.q_count < 2 || draw.below(2) == 0) continue;
    const auto first = static_cast<std::int64_t>(1 + draw.below(static_cast<std::uint64_t>(s.q_count - 1)));
    list.back().q_count = first;
    Segment rest = s;
    rest.q_begin += first, rest.q_count -= first, rest.offset += first;
    list.push_back(rest);
  }
  return list;
}

template <class Visit>
void for_each_view(const RankPlan& rank, const Operation& op, Visit visit) {
  for (const Access& a : rank.reads(op)) visit(rank.views[a.view], false);
  for (const Access& a : rank.writes(op)) visit(rank.views[a.view], true);
  for (const Part& p : rank.parts_of(op)) visit(rank.views[p.view], !p.send);
}

// They use a buffer together, or buffers that share bytes, and one of them writes.
bool conflict(const RankPlan& rank, const Operation& a, const Operation& b) {
  bool found = false;
  for_each_view(rank, a, [&](const View& x, bool x_writes) {
    for_each_view(rank, b, [&](const View& y, bool y_writes) {
      const Buffer &one = rank.buffers[x.buffer], &other = rank.buffers[y.buffer];
      const bool apart = one.offset + one.bytes <= other.offset || other.offset + other.bytes <= one.offset;
      found = found || (!apart && (x_writes || y_writes || x.buffer != y.buffer));
    });
  });
  return found;
}

bool waits_for(const RankPlan& rank, const Operation& op, std::uint32_t other) {
  return std::ranges::count(rank.after(op), other) + std::ranges::count(rank.after_started(op), other) > 0;
}

bool may_swap(const RankPlan& rank, std::uint32_t i, bool over_copy) {
  const Operation &a = rank.operations[i], &b = rank.operations[i + 1];
  if (a.phase != b.phase || a.kind == OpKind::host_sync || b.kind == OpKind::host_sync) return false;
  if (waits_for(rank, b, i)) return false;
  if (over_copy && is_communication(a.kind) && is_communication(b.kind)) {
    // Parts of one pair of ranks and collectives of one group match in the order of issue.
    return a.lane != b.lane && a.group != b.group;
  }
  if (is_communication(a.kind) && is_communication(b.kind)) return false;
  return !(a.lane == b.lane) ||
         (!is_communication(a.kind) && !is_communication(b.kind) && !conflict(rank, a, b));
}

void permute(Plan& plan, Draw& draw, bool over_copy) {
  for (RankPlan& rank : plan.ranks) {
    for (std::uint32_t i = 0; i + 1 < rank.operations.size(); ++i) {
      if (draw.below(3) == 0 || !may_swap(rank, i, over_copy)) continue;
      const bool one_lane = rank.operations[i].lane == rank.operations[i + 1].lane;
      swap_operations(rank, i, i + 1);
      if (one_lane) derive_edges(rank);
    }
  }
}

}  // namespace

void rename_buffers(Plan& plan, std::uint64_t seed) {
  Draw draw(seed);
  for (RankPlan& rank : plan.ranks)
    for (std::size_t b = 0; b < rank.buffers.size(); ++b)
      if (rank.buffers[b].category != Category::input && rank.buffers[b].category != Category::output)
        rank.buffers[b].name = "b" + std::to_string(b) + "_" + std::to_string(draw.below(1000));
}

void spell_otherwise(Plan& plan, std::uint64_t seed) {
  Draw draw(seed);
  for (RankPlan& rank : plan.ranks) {
    for (View& v : rank.views)
      if (v.ranges.count > 0) v.ranges = add_ranges(rank, cut(rank.rows_of(v), draw));
    for (Operation& op : rank.operations) {
      if (op.columns.count > 0) op.columns = add_ranges(rank, cut(rank.columns_of(op), draw));
      if (op.segments.count > 0) op.segments = add_segments(rank, cut(rank.segments_of(op), draw));
    }
  }
}

void permute_independent(Plan& plan, std::uint64_t seed) {
  Draw draw(seed);
  permute(plan, draw, false);
}

void launch_over_copy(Plan& plan, std::uint64_t seed) {
  Draw draw(seed);
  for (RankPlan& rank : plan.ranks)
    for (Operation& op : rank.operations) op.transport = Transport::copy, op.channels = 0;
  permute(plan, draw, true);
}

}  // namespace cplab::hand
