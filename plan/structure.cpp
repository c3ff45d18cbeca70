// The structural validator; see structure.hpp. What the operands of each operation must be is in
// structure_operands.cpp.
#include "plan/structure.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "plan/structure_operands.hpp"

namespace cplab {
namespace {

constexpr std::int64_t most_slots = 1 << 16;
constexpr std::int64_t most_heads_or_width =
    std::numeric_limits<std::int32_t>::max();  // views count in int32

bool inside(Span span, std::size_t size) {
  return std::uint64_t{span.first} + span.count <= size;
}

class Inspector {
 public:
  Inspector(const Plan& plan, const RankPlan& rank, const GroupIndex& groups, const FaultSink& sink)
      : plan_(plan), rank_(rank), groups_(groups), sink_(sink) {}

  RankForm run() {
    std::unordered_set<std::string> names;
    for (std::uint32_t b = 0; b < rank_.buffers.size(); ++b) {
      test_buffer(b);
      if (!names.insert(rank_.buffers[b].name).second)
        sink_({FindingKind::lifetime, no_index, b,
               "two buffers of this rank are named " + rank_.buffers[b].name});
    }
    test_slabs();
    test_arena();
    for (const View& view : rank_.views) test_view(view);
    form_.operations.assign(rank_.operations.size(), Form::broken);
    for (std::uint32_t i = 0; i < rank_.operations.size(); ++i) test_operation(i);
    return std::move(form_);
  }

 private:
  void test_buffer(std::uint32_t index) {
    const Buffer& b = rank_.buffers[index];
    const auto report = [&](const std::string& what) {
      sink_({FindingKind::lifetime, no_index, index, "buffer " + b.name + " " + what});
    };
    const auto legal = [](std::int64_t n, std::int64_t most) { return n >= 0 && n <= most; };
    const double elements = static_cast<double>(b.slots) * static_cast<double>(b.rows) *
                            static_cast<double>(b.heads) * static_cast<double>(b.width);
    const bool known =
        b.role <= Role::integer && b.category <= Category::workspace && b.layout <= Layout::heads_first;
    const bool good = known && legal(b.slots, most_slots) && legal(b.rows, most_extent) &&
                      legal(b.heads, most_heads_or_width) && legal(b.width, most_heads_or_width) &&
                      elements < 1e17;
    form_.buffers.push_back(good);
    if (!good)
      return sink_({FindingKind::coverage, no_index, index,
                    "buffer " + b.name + " has no sensible shape, role, category or layout"});
    if (b.planes < 0 || b.planes > b.width) report("has planes beyond its width");
    const std::int64_t element = element_bytes(b.role, plan_.scenario.problem.dtype);
    const std::int64_t need = b.slots * b.rows * b.heads * b.width * element;
    if (b.bytes != need)
      report("says " + std::to_string(b.bytes) + " bytes but its axes need " + std::to_string(need));
    if (b.offset < 0 || need > rank_.arena_bytes || b.offset > rank_.arena_bytes - need)
      report("does not lie within the arena");
    else if (b.offset % element != 0)
      report("begins at byte " + std::to_string(b.offset) + ", which is no multiple of its element size");
  }

  // An arena is allocated as large as the plan says: who claims more than its buffers take is refused before
  // anybody tries. Less than what a GPU hands out at once is nobody's loss.
  void test_arena() {
    constexpr std::int64_t granule = std::int64_t{2} << 20;
    std::int64_t end = 0;
    for (const Buffer& b : rank_.buffers)
      if (b.bytes >= 0 && b.bytes <= rank_.arena_bytes && b.offset <= rank_.arena_bytes - b.bytes)
        end = std::max(end, b.offset + b.bytes);
    if (rank_.arena_bytes - end > granule)
      sink_({FindingKind::lifetime, no_index, no_index,
             "the arena has " + std::to_string(rank_.arena_bytes) + " bytes, and the last buffer ends at " +
                 std::to_string(end)});
  }

  // Buffers of one slab lie at one offset, and none is an input or output: these hold data before or after
  // the plan.
  void test_slabs() {
    std::unordered_map<std::string, std::uint32_t> first;
    for (std::uint32_t b = 0; b < rank_.buffers.size(); ++b) {
      const Buffer& buffer = rank_.buffers[b];
      if (buffer.slab.empty() || !form_.buffers[b]) continue;
      if (buffer.category == Category::input || buffer.category == Category::output)
        sink_({FindingKind::lifetime, no_index, b,
               "buffer " + buffer.name + " is an " + std::string(name(buffer.category)) +
                   " and cannot share the bytes of slab " + buffer.slab});
      const Buffer& other = rank_.buffers[first.try_emplace(buffer.slab, b).first->second];
      if (buffer.offset != other.offset)
        sink_({FindingKind::lifetime, no_index, b,
               "buffers " + other.name + " and " + buffer.name + " of slab " + buffer.slab +
                   " do not lie at one offset"});
    }
  }

  void test_view(const View& view) {
    view_rows_.push_back(0);
    form_.views.push_back(0);
    if (view.buffer >= rank_.buffers.size() || !form_.buffers[view.buffer]) return;
    if (!inside(view.ranges, rank_.row_ranges.size())) return;
    const Buffer& b = rank_.buffers[view.buffer];
    const auto within = [](std::int32_t begin, std::int32_t end, std::int64_t size) {
      return 0 <= begin && begin <= end && end <= size;
    };
    if (!within(view.slot_begin, view.slot_end, b.slots) ||
        !within(view.head_begin, view.head_end, b.heads) ||
        !within(view.width_begin, view.width_end, b.width))
      return;
    std::int64_t& rows = view_rows_.back();
    for (const RowRange& r : rank_.rows_of(view)) {
      if (r.count < 0 || r.begin < 0 || r.step < 1) return;
      if (r.count == 0) continue;
      if (r.begin >= b.rows || r.count > b.rows || (r.count - 1) > (b.rows - 1 - r.begin) / r.step) return;
      rows += r.count;
      if (rows > most_extent) return;
    }
    form_.views.back() = 1;
  }

  void test_operation(std::uint32_t i) {
    const Operation& op = rank_.operations[i];
    const auto report = [&](FindingKind kind, const std::string& what, std::uint32_t buffer = no_index) {
      sink_({kind, i, buffer, operation_label(rank_, op) + " " + what});
    };
    if (!inside(op.reads, rank_.accesses.size()) || !inside(op.writes, rank_.accesses.size()) ||
        !inside(op.parts, rank_.parts.size()) || !inside(op.segments, rank_.segments.size()) ||
        !inside(op.chunks, rank_.chunks.size()) || !inside(op.columns, rank_.row_ranges.size()) ||
        !inside(op.after, rank_.edges.size()) || !inside(op.after_started, rank_.edges.size()) ||
        op.kind > OpKind::host_sync || op.phase > Phase::backward || op.lane.kind > LaneKind::host ||
        op.transport > Transport::copy || op.chunk_work > ChunkWork::sliced)
      return report(FindingKind::coverage, "refers outside the plan");
    form_.operations[i] = Form::malformed;
    if (!ids_.insert((std::uint64_t{op.ordinal} << 1) | static_cast<std::uint64_t>(op.phase)).second)
      report(FindingKind::order, "has the id of another operation");
    const auto test_edges = [&](std::span<const std::uint32_t> edges, const std::string& start_of) {
      for (std::uint32_t e : edges) {
        if (e < i) continue;
        report(FindingKind::deadlock, e == i ? "waits for " + start_of + "itself"
                                             : "waits for " + start_of + "an operation that is issued later");
      }
    };
    if (op.channels > 0 && (!is_communication(op.kind) || op.transport != Transport::nccl))
      report(FindingKind::unmatched, "has channels, which only what goes over nccl has");
    test_edges(rank_.after(op), "");
    test_edges(rank_.after_started(op), "the start of ");
    const FindingKind kind = is_communication(op.kind) ? FindingKind::unmatched : FindingKind::coverage;
    for (const Access& a : rank_.reads(op))
      if (!sound(a.view)) return report(FindingKind::uninitialised, "reads outside a buffer");
    for (const Access& a : rank_.writes(op)) {
      if (!sound(a.view) || !distinct(rank_.views[a.view]))
        return report(kind, "writes outside a buffer or a row twice");
      if (a.mode > WriteMode::max) return report(kind, "writes in a mode that is unknown");
    }
    for (const Part& p : rank_.parts_of(op))
      if (!sound(p.view) || (!p.send && !distinct(rank_.views[p.view])))
        return report(kind, "has a part that leaves its buffer or receives a row twice");
    if (is_communication(op.kind)) {
      if (op.group >= groups_.size()) return report(kind, "names a group that does not exist");
      if (groups_.position(op.group, rank_.rank) < 0)
        return report(kind, "is not a member of the group it names");
      for (const Part& p : rank_.parts_of(op))
        if (groups_.position(op.group, p.peer) < 0)
          return report(kind, "has a part with a rank outside its group");
    }
    if (op.kind == OpKind::reduce_scatter && !all_contribute(op))
      return report(kind, "sums parts of some members of its group only");
    const WrongOperands wrong = wrong_operands(rank_, op, view_rows_);
    if (!wrong.what.empty()) return report(wrong.kind, wrong.what);
    form_.operations[i] = Form::good;
    test_inputs(i);
  }

  // Every member must contribute to what a rank receives in a reduce_scatter, the rank itself included.
  bool all_contribute(const Operation& op) const {
    std::unordered_set<int> peers;
    for (const Part& p : rank_.parts_of(op))
      if (!p.send) peers.insert(p.peer);
    return peers.empty() || peers.size() == groups_.members(op.group);
  }

  // Nothing may write an input: the next repetition would read the changed one.
  void test_inputs(std::uint32_t i) {
    const Operation& op = rank_.operations[i];
    const auto test = [&](std::uint32_t view) {
      const std::uint32_t b = rank_.views[view].buffer;
      if (rank_.buffers[b].category != Category::input || view_rows_[view] == 0) return;
      sink_({FindingKind::lifetime, i, b,
             operation_label(rank_, op) + " writes into input " + rank_.buffers[b].name +
                 ": inputs are read-only"});
    };
    for (const Access& a : rank_.writes(op)) test(a.view);
    const std::vector<std::uint8_t> in_place = parts_in_place(rank_, op);
    for (std::uint32_t p = 0; p < op.parts.count; ++p) {
      const Part& part = rank_.parts_of(op)[p];
      if (!part.send && !in_place[p]) test(part.view);
    }
  }

  bool sound(std::uint32_t view) const { return view < form_.views.size() && form_.views[view]; }

  bool distinct(const View& view) {
    if (view.ranges.count <= 1) return true;
    const std::uint64_t key = (std::uint64_t{view.ranges.first} << 32) | view.ranges.count;
    const auto [at, fresh] = distinct_.try_emplace(key, false);
    if (fresh) at->second = row_set(rank_.rows_of(view)).distinct;
    return at->second;
  }

  const Plan& plan_;
  const RankPlan& rank_;
  const GroupIndex& groups_;
  const FaultSink& sink_;
  RankForm form_;
  std::vector<std::int64_t> view_rows_;
  std::unordered_set<std::uint64_t> ids_;
  std::unordered_map<std::uint64_t, bool> distinct_;  // by row ranges
};

}  // namespace

std::string operation_label(const RankPlan& rank, const Operation& op) {
  const std::string kind = op.kind > OpKind::host_sync ? "operation" : std::string(name(op.kind));
  const std::string phase = op.phase > Phase::backward ? "unknown" : std::string(name(op.phase));
  return kind + " " + std::to_string(rank.rank) + "/" + phase + "/" + std::to_string(op.ordinal);
}

GroupIndex::GroupIndex(const Plan& plan) {
  for (const Group& group : plan.groups) {
    auto& members = members_.emplace_back();
    for (std::size_t i = 0; i < group.ranks.size(); ++i)
      members.emplace_back(group.ranks[i], static_cast<std::int32_t>(i));
    std::sort(members.begin(), members.end());
    const bool twice = std::adjacent_find(members.begin(), members.end(), [](const auto& a, const auto& b) {
                         return a.first == b.first;
                       }) != members.end();
    if (twice || (!members.empty() && (members.front().first < 0 ||
                                       static_cast<std::size_t>(members.back().first) >= plan.ranks.size())))
      members.clear();
  }
}

std::int32_t GroupIndex::position(std::size_t group, std::int64_t rank) const {
  if (group >= members_.size()) return -1;
  const auto& members = members_[group];
  const auto at = std::lower_bound(members.begin(), members.end(), rank,
                                   [](const auto& member, std::int64_t r) { return member.first < r; });
  return at != members.end() && at->first == rank ? at->second : -1;
}

std::string wrong_groups(const Plan& plan) {
  for (std::size_t r = 0; r < plan.ranks.size(); ++r)
    if (plan.ranks[r].rank != static_cast<int>(r))
      return "ranks are not listed in the order of their numbers";
  const GroupIndex index(plan);
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const Group& group = plan.groups[g];
    if (!group.ranks.empty() && index.position(g, group.ranks[0]) < 0)
      return "group " + group.name + " has members that do not exist or are there twice";
  }
  return {};
}

RankForm inspect(const Plan& plan, const RankPlan& rank, const GroupIndex& groups, const FaultSink& sink) {
  return Inspector(plan, rank, groups, sink).run();
}

std::vector<std::uint8_t> parts_in_place(const RankPlan& rank, const Operation& op) {
  std::vector<std::uint8_t> in_place(op.parts.count, 0);
  if (op.kind != OpKind::all_gather && op.kind != OpKind::all_to_all && op.kind != OpKind::reduce_scatter)
    return in_place;
  std::vector<std::uint32_t> sends, receives;
  const auto parts = rank.parts_of(op);
  for (std::uint32_t p = 0; p < parts.size(); ++p)
    if (parts[p].peer == rank.rank) (parts[p].send ? sends : receives).push_back(p);
  for (std::size_t k = 0; k < std::min(sends.size(), receives.size()); ++k) {
    const std::uint32_t a = parts[sends[k]].view, b = parts[receives[k]].view;
    const bool same = a == b || (a < rank.views.size() && b < rank.views.size() &&
                                 same_elements(rank, rank.views[a], rank.views[b]));
    if (same) in_place[sends[k]] = in_place[receives[k]] = 1;
  }
  return in_place;
}

std::int32_t plane_cut(const Buffer& buffer, const View& view) {
  if (buffer.planes <= view.width_begin || buffer.planes >= view.width_end) return 0;
  return static_cast<std::int32_t>(buffer.planes - view.width_begin);
}

}  // namespace cplab
