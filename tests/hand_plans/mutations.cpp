// See mutations.hpp.
#include "tests/hand_plans/mutations.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "derive/edits.hpp"

namespace cplab::hand {
namespace {

class Mutation {
 public:
  Mutation(Plan& plan, std::uint64_t seed) : plan_(plan), state_(seed * 0x9E3779B97F4A7C15u + 99) {}

  // What was done, or nothing if the choice does not fit the plan.
  std::string apply() {
    rank_ = &plan_.ranks[below(plan_.ranks.size())];
    if (rank_->operations.empty()) return {};
    at_ = below(rank_->operations.size());
    switch (below(19)) {
      case 0: return drop_edge();
      case 1: return swap_neighbours();
      case 2: return width();
      case 3: return rows();
      case 4: return repeat_rows();
      case 5: return stride();
      case 6: return heads_or_slots();
      case 7: return collective();
      case 8: return group();
      case 9: return lane();
      case 10: return mode();
      case 11: return segment();
      case 12: return buffer();
      case 13: return reroute();
      case 14: return repeat_operation();
      case 15: return remove();
      case 16: return part();
      case 17: return value();
      default: return both_ends();
    }
  }

 private:
  std::size_t below(std::size_t n) {  // splitmix64: the same numbers everywhere
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<std::size_t>((z ^ (z >> 31)) % n);
  }
  Operation& op() { return rank_->operations[at_]; }
  std::string said(const std::string& what) { return operation_id(*rank_, op()) + ": " + what; }

  // The views of an operation: reads, writes, parts.
  std::size_t operands() { return op().reads.count + op().writes.count + op().parts.count; }
  std::uint32_t view_of(std::size_t which) {
    if (which < op().reads.count) return rank_->accesses[op().reads.first + which].view;
    which -= op().reads.count;
    if (which < op().writes.count) return rank_->accesses[op().writes.first + which].view;
    return rank_->parts[op().parts.first + which - op().writes.count].view;
  }
  void set_view(std::size_t which, const View& view) {
    const std::uint32_t index = add_view(*rank_, view);
    if (which >= op().reads.count + op().writes.count) {
      auto list = std::vector<Part>(rank_->parts_of(op()).begin(), rank_->parts_of(op()).end());
      list[which - op().reads.count - op().writes.count].view = index;
      op().parts = add_parts(*rank_, list);
      return;
    }
    Span& span = which < op().reads.count ? op().reads : op().writes;
    auto list = std::vector<Access>(RankPlan::slice(rank_->accesses, span).begin(),
                                    RankPlan::slice(rank_->accesses, span).end());
    list[which < op().reads.count ? which : which - op().reads.count].view = index;
    span = add_accesses(*rank_, list);
  }
  // Changes one operand, or (one time in four) all operands of the operation in the same way.
  template <class Change>
  std::string change_views(const char* what, Change change) {
    if (operands() == 0) return {};
    const bool all = below(4) == 0;
    const std::size_t chosen = below(operands()), n = operands();
    bool done = false;
    for (std::size_t which = 0; which < n; ++which) {
      if (!all && which != chosen) continue;
      View view = rank_->views[view_of(which)];
      if (!change(view)) continue;
      set_view(which, view);
      done = true;
    }
    return done ? said(what) : std::string();
  }
  std::vector<RowRange> ranges_of(const View& v) const {
    return {rank_->rows_of(v).begin(), rank_->rows_of(v).end()};
  }
  // An interval within [0, size): narrowed, moved or grown.
  bool interval(std::int32_t& begin, std::int32_t& end, std::int64_t size, std::size_t how, std::int32_t by) {
    std::int32_t b = begin, e = end;
    if (how == 0) e -= by;
    if (how == 1) b += by;
    if (how == 2) b += by, e += by;
    if (how == 3) b -= by, e -= by;
    if (how == 4) e += by;
    if (how == 5) b = b + (e - b) / 2;
    if (how == 6) e = b + (e - b) / 2;
    if (b < 0 || e > size || b >= e || (b == begin && e == end)) return false;
    begin = b, end = e;
    return true;
  }

  std::string drop_edge() {
    std::vector<std::uint32_t> after(rank_->after(op()).begin(), rank_->after(op()).end());
    if (after.empty()) return {};
    after.erase(after.begin() + static_cast<std::ptrdiff_t>(below(after.size())));
    set_after(*rank_, at_, after);
    return said("edge dropped");
  }
  std::string swap_neighbours() {
    const std::size_t other = (at_ + 1 + below(3)) % rank_->operations.size();
    if (other <= at_ || rank_->operations[other].phase != op().phase) return {};
    swap_operations(*rank_, at_, other);
    return said("operations swapped");
  }
  std::string width() {
    const std::size_t how = below(7);
    const auto by = static_cast<std::int32_t>(1 + below(4));
    return change_views("columns changed", [&](View& v) {
      return interval(v.width_begin, v.width_end, rank_->buffers[v.buffer].width, how, by);
    });
  }
  std::string heads_or_slots() {
    const std::size_t how = below(7), which = below(2);
    return change_views("heads or slots changed", [&](View& v) {
      const Buffer& b = rank_->buffers[v.buffer];
      return which ? interval(v.head_begin, v.head_end, b.heads, how, 1)
                   : interval(v.slot_begin, v.slot_end, b.slots, how, 1);
    });
  }
  std::string rows() {
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
  std::string repeat_rows() {
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
  std::string stride() {
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
  std::string collective() {
    if (!is_communication(op().kind)) return {};
    constexpr std::array kinds{OpKind::exchange, OpKind::all_gather, OpKind::reduce_scatter,
                               OpKind::all_to_all};
    const OpKind kind = kinds[below(kinds.size())];
    const bool everywhere = below(3) != 0, reduction = op().kind == OpKind::all_reduce;
    const std::uint32_t step = op().step;
    const OpKind old = op().kind;
    const std::string text = said(reduction ? "reduction changed" : "collective changed");
    for (RankPlan& rank : plan_.ranks) {
      if (!everywhere && &rank != rank_) continue;
      for (Operation& other : rank.operations) {
        if (other.kind != old || (other.step != step && !everywhere)) continue;
        if (reduction)
          other.reduction = Reduction::max;
        else if (other.kind != OpKind::barrier)
          other.kind = kind;
      }
    }
    return text;
  }
  std::string group() {
    if (!is_communication(op().kind)) return {};
    if (plan_.groups.size() > 1 && below(2)) {
      op().group = static_cast<std::uint16_t>(below(plan_.groups.size()));
      return said("group changed");
    }
    Group& g = plan_.groups[op().group];
    if (op().group < plan_.scenario.parallel.groups.size() || g.ranks.size() < 2) return {};
    std::swap(g.ranks[0], g.ranks[1]);
    return said("group changed");
  }
  std::string lane() {
    const Lane old = op().lane;
    constexpr std::array lanes{Lane{LaneKind::compute, 0}, Lane{LaneKind::compute, 1},
                               Lane{LaneKind::comm, 0}, Lane{LaneKind::comm, 1}, Lane{LaneKind::copy, 0}};
    const Lane fresh = lanes[below(lanes.size())];
    if (fresh == old) return {};
    const bool all_ranks = below(2) == 0;
    const std::size_t at = at_;
    for (RankPlan& rank : plan_.ranks)
      if ((all_ranks || &rank == rank_) && at < rank.operations.size() &&
          rank.operations[at].kind == op().kind)
        rank.operations[at].lane = fresh;
    return said("lane changed");
  }
  std::string mode() {
    if (op().writes.count == 0) return {};
    auto list = std::vector<Access>(rank_->writes(op()).begin(), rank_->writes(op()).end());
    const auto fresh = static_cast<WriteMode>(below(3));
    const bool all = below(2) == 0;
    const std::size_t which = below(list.size());
    for (std::size_t i = 0; i < list.size(); ++i)
      if (all || i == which) list[i].mode = fresh;
    op().writes = add_accesses(*rank_, list);
    return said("write mode changed");
  }
  std::string segment() {
    if (op().segments.count == 0) return {};
    const std::size_t which = op().segments.first + below(op().segments.count);
    auto list = std::vector<Segment>(rank_->segments_of(op()).begin(), rank_->segments_of(op()).end());
    Segment& s = list[which - op().segments.first];
    const std::array<std::int64_t*, 7> fields{&s.q_begin, &s.q_count, &s.k_begin, &s.k_count,
                                              &s.offset,  &s.left,    &s.right};
    if (below(6) == 0) {
      const Segment twice = s;
      list.push_back(twice);
    } else {
      *fields[below(fields.size())] += below(2) ? 1 : -1;
    }
    const Span span{static_cast<std::uint32_t>(rank_->segments.size()),
                    static_cast<std::uint32_t>(list.size())};
    rank_->segments.insert(rank_->segments.end(), list.begin(), list.end());
    op().segments = span;
    return said("segment changed");
  }
  std::string buffer() {
    Buffer& b = rank_->buffers[below(rank_->buffers.size())];
    const std::string text = b.name + " of rank " + std::to_string(rank_->rank) + ": buffer changed";
    const Buffer& other = rank_->buffers[below(rank_->buffers.size())];
    switch (below(9)) {
      case 0: b.bytes = 0; break;
      case 1: b.offset = other.offset; break;
      case 2: b.planes = static_cast<std::int64_t>(below(static_cast<std::size_t>(b.width + 2))); break;
      case 3: b.role = static_cast<Role>(below(3)); break;
      case 4: b.category = static_cast<Category>(below(4)); break;
      case 5: b.layout = b.layout == Layout::rows_first ? Layout::heads_first : Layout::rows_first; break;
      case 6: b.name = other.name; break;
      case 7: b.offset = std::max<std::int64_t>(0, b.offset - 64); break;
      default:
        for (RankPlan& rank : plan_.ranks)
          for (Buffer& same : rank.buffers)
            if (same.name == b.name) same.planes = same.width / 2;
    }
    return text;
  }
  std::string reroute() {
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
  std::string repeat_operation() {
    const Operation copy = op();
    const std::string text = said("operation repeated");
    insert_operation(*rank_, at_ + 1, copy);
    return text;
  }
  std::string remove() {
    const std::string text = said("operation removed");
    remove_operation(*rank_, at_);
    return text;
  }
  std::string part() {
    if (op().parts.count == 0) return {};
    auto list = std::vector<Part>(rank_->parts_of(op()).begin(), rank_->parts_of(op()).end());
    const std::size_t a = below(list.size()), b = below(list.size());
    switch (below(6)) {
      case 0: list.erase(list.begin() + static_cast<std::ptrdiff_t>(a)); break;
      case 1: list.push_back(list[a]); break;
      case 2: std::swap(list[a], list[b]); break;
      case 3: std::swap(list[a].view, list[b].view); break;
      case 4: list[a].view = list[b].view; break;
      default: list[a].peer = static_cast<int>(below(plan_.ranks.size()));
    }
    op().parts = add_parts(*rank_, list);
    return said("part changed");
  }
  std::string value() {
    constexpr std::array values{0.0, 1.0, -std::numeric_limits<double>::infinity(), -0.0};
    if (op().kind == OpKind::fill) {
      op().value = values[below(values.size())];
    } else if (op().kind == OpKind::attend || op().kind == OpKind::attend_backward) {
      below(2) ? (op().head_begin += 1, op().head_end += 1) : (op().head_end += 1);
    } else if (is_communication(op().kind)) {
      op().transport = op().transport == Transport::nccl ? Transport::copy : Transport::nccl;
    } else {
      return {};
    }
    return said("value changed");
  }
  // The same change of every part of a step, on all ranks: the messages still fit.
  std::string both_ends() {
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

  Plan& plan_;
  RankPlan* rank_ = nullptr;
  std::size_t at_ = 0;
  std::uint64_t state_;
};

}  // namespace

std::string mutate_anything(Plan& plan, std::uint64_t seed) {
  Mutation mutation(plan, seed);
  const std::uint64_t times = seed % 7 == 0 ? 2 : seed % 11 == 0 ? 3 : 1;
  std::string all;
  for (std::uint64_t i = 0; i < times; ++i) {
    std::string text;
    for (int attempt = 0; attempt < 1000 && text.empty(); ++attempt) text = mutation.apply();
    all = all.empty() ? text : text.substr(0, text.rfind(':')) + " and " + all;
  }
  return all;
}

}  // namespace cplab::hand
