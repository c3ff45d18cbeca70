// require_executable: everything that must hold before a plan from a file, or a mutated one, may be walked
// and bound. It looks at indices and extents only; whether the plan is right is the checker's question.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "exec/bind.hpp"

namespace cplab {

namespace {

class Guard {
 public:
  Guard(const Plan& plan, const RankPlan& rank) : plan_(plan), rank_(rank) {}

  void check() {
    for (std::size_t i = 0; i < rank_.buffers.size(); ++i) check_buffer(rank_.buffers[i]);
    for (std::size_t i = 0; i < rank_.views.size(); ++i) check_view(i);
    for (const Access& access : rank_.accesses) {
      require(access.view < rank_.views.size(), "", "an access names view " + std::to_string(access.view));
      require(access.mode <= WriteMode::merge, "", "an access has no known write mode");
    }
    std::set<std::pair<LaneKind, std::uint8_t>> lanes;
    for (const Operation& op : rank_.operations) {
      check_operation(op);
      lanes.emplace(op.lane.kind, op.lane.index);
    }
    require(lanes.size() <= 255, "", "there are more than 255 lanes");
  }

 private:
  void require(bool holds, const std::string& buffer, const std::string& message) const {
    if (holds) return;
    throw BadPlan(FindingKind::lifetime, rank_.rank, operation_, buffer,
                  "rank " + std::to_string(rank_.rank) +
                      (operation_.empty() ? "" : ", operation " + operation_) + ": " + message);
  }

  void require_span(Span span, std::size_t pool, const char* what) const {
    require(span.first <= pool && span.count <= pool - span.first, "",
            std::string(what) + " reach beyond their pool");
  }

  void check_buffer(const Buffer& b) const {
    require(b.role <= Role::integer && b.category <= Category::workspace && b.layout <= Layout::heads_first,
            b.name, "buffer " + b.name + " has no known role, category or layout");
    std::int64_t bytes = element_bytes(b.role, plan_.scenario.problem.dtype);
    const std::int64_t element = bytes;
    for (const std::int64_t extent : {b.slots, b.rows, b.heads, b.width}) {
      require(extent >= 0 && !__builtin_mul_overflow(bytes, extent, &bytes), b.name,
              "buffer " + b.name + " has an impossible extent");
    }
    require(b.planes >= 0 && b.planes <= b.width, b.name,
            "buffer " + b.name + " has planes beyond its width");
    require(bytes <= b.bytes, b.name, "buffer " + b.name + " has fewer bytes than elements");
    require(b.offset >= 0 && b.bytes <= rank_.arena_bytes && b.offset <= rank_.arena_bytes - b.bytes, b.name,
            "buffer " + b.name + " lies outside the arena");
    require(b.offset % element == 0, b.name, "buffer " + b.name + " is not aligned");
  }

  void check_view(std::size_t index) const {
    const View& v = rank_.views[index];
    const std::string name = "view " + std::to_string(index);
    require(v.buffer < rank_.buffers.size(), "", name + " names no buffer");
    const Buffer& b = rank_.buffers[v.buffer];
    const auto inside = [](std::int64_t begin, std::int64_t end, std::int64_t size) {
      return begin >= 0 && begin <= end && end <= size;
    };
    require(inside(v.slot_begin, v.slot_end, b.slots) && inside(v.head_begin, v.head_end, b.heads) &&
                inside(v.width_begin, v.width_end, b.width),
            b.name, name + " reaches outside buffer " + b.name);
    require_span(v.ranges, rank_.row_ranges.size(), "row ranges of a view");
    std::int64_t total = 0;
    for (const RowRange& r : rank_.rows_of(v)) {
      require(r.count >= 0 && r.count <= b.rows && r.step >= 1, b.name,
              name + " has an impossible row range");
      if (r.count == 0) continue;
      // count <= rows and step < rows, so that the product cannot overflow for any buffer that fits memory.
      require(r.begin >= 0 && r.begin < b.rows && (r.count == 1 || r.step < b.rows) &&
                  (r.count == 1 || (r.count - 1) <= (b.rows - 1 - r.begin) / r.step),
              b.name, name + " reaches outside the rows of buffer " + b.name);
      require(!__builtin_add_overflow(total, r.count, &total), b.name, name + " has too many rows");
    }
  }

  void check_operation(const Operation& op) {
    operation_.clear();
    require(op.kind <= OpKind::host_sync && op.phase <= Phase::backward && op.lane.kind <= LaneKind::host, "",
            "an operation has no known kind, phase or lane");
    operation_ = operation_id(rank_, op);
    require_span(op.reads, rank_.accesses.size(), "reads");
    require_span(op.writes, rank_.accesses.size(), "writes");
    require_span(op.parts, rank_.parts.size(), "parts");
    require_span(op.segments, rank_.segments.size(), "segments");
    require_span(op.after, rank_.edges.size(), "after");
    for (const std::uint32_t edge : rank_.after(op)) {
      require(edge < rank_.operations.size(), "", "waits for an operation that does not exist");
    }
    if (is_communication(op.kind)) check_communication(op);
    operation_.clear();
  }

  void check_communication(const Operation& op) const {
    require(op.group < plan_.groups.size(), "", "names no group");
    const std::vector<int>& members = plan_.groups[op.group].ranks;
    const auto is_member = [&](int rank) {
      return std::find(members.begin(), members.end(), rank) != members.end();
    };
    require(is_member(rank_.rank), "", "its rank is not in group " + plan_.groups[op.group].name);
    for (const Part& part : rank_.parts_of(op)) {
      require(part.view < rank_.views.size(), "", "a part names no view");
      require(is_member(part.peer), "", "peer " + std::to_string(part.peer) + " is not in its group");
    }
    if (op.kind == OpKind::all_reduce) {
      require(op.reads.count == op.writes.count, "", "all_reduce writes as many views as it reads");
    }
  }

  const Plan& plan_;
  const RankPlan& rank_;
  std::string operation_;
};

}  // namespace

void require_executable(const Plan& plan) {
  const auto world = static_cast<int>(plan.ranks.size());
  for (const Group& group : plan.groups) {
    std::vector<int> seen = group.ranks;
    std::sort(seen.begin(), seen.end());
    if (std::adjacent_find(seen.begin(), seen.end()) != seen.end() ||
        (!seen.empty() && (seen.front() < 0 || seen.back() >= world))) {
      throw BadPlan(FindingKind::unmatched, -1, "", "",
                    "group " + group.name + " names a rank twice, or one that does not exist");
    }
  }
  for (int r = 0; r < world; ++r) {
    const RankPlan& rank = plan.ranks[static_cast<std::size_t>(r)];
    if (rank.rank != r) {
      throw BadPlan(FindingKind::unmatched, r, "", "", "ranks are not listed in the order of their numbers");
    }
    Guard(plan, rank).check();
  }
}

}  // namespace cplab
