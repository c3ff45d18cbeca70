// Mutations of operations, edges and buffers; see mutations.hpp.
#include "tests/hand_plans/mutations.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "derive/arena.hpp"
#include "derive/edges.hpp"
#include "tests/hand_plans/mutation.hpp"

namespace cplab::hand {

std::string Mutation::apply() {
  rank_ = &plan_.ranks[below(plan_.ranks.size())];
  if (rank_->operations.empty()) return {};
  at_ = below(rank_->operations.size());
  constexpr std::array all{&Mutation::drop_edge,      &Mutation::swap_neighbours,
                           &Mutation::width,          &Mutation::rows,
                           &Mutation::repeat_rows,    &Mutation::stride,
                           &Mutation::heads_or_slots, &Mutation::collective,
                           &Mutation::group,          &Mutation::lane,
                           &Mutation::mode,           &Mutation::segment,
                           &Mutation::chunk,          &Mutation::buffer,
                           &Mutation::reroute,        &Mutation::repeat_operation,
                           &Mutation::remove,         &Mutation::part,
                           &Mutation::value,          &Mutation::both_ends,
                           &Mutation::start_edge,     &Mutation::slab,
                           &Mutation::tile_heads,     &Mutation::split_tile,
                           &Mutation::empty_view,     &Mutation::buffer_name,
                           &Mutation::scenario_key,   &Mutation::round_trip,
                           &Mutation::spelling};
  return (this->*all[below(all.size())])();
}

std::string Mutation::drop_edge() {
  std::vector<std::uint32_t> after(rank_->after(op()).begin(), rank_->after(op()).end());
  if (after.empty()) return {};
  after.erase(after.begin() + static_cast<std::ptrdiff_t>(below(after.size())));
  set_after(*rank_, at_, after);
  return said("edge dropped");
}

// An edge becomes one that waits for a start, or the other way round; one of these is added or dropped.
std::string Mutation::start_edge() {
  std::vector<std::uint32_t> after(rank_->after(op()).begin(), rank_->after(op()).end());
  std::vector<std::uint32_t> started(rank_->after_started(op()).begin(), rank_->after_started(op()).end());
  const auto take = [&](std::vector<std::uint32_t>& list) {
    const std::size_t which = below(list.size());
    const std::uint32_t edge = list[which];
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(which));
    return edge;
  };
  switch (below(4)) {
    case 0:
      if (after.empty()) return {};
      started.push_back(take(after));
      break;
    case 1:
      if (started.empty()) return {};
      after.push_back(take(started));
      break;
    case 2:
      if (started.empty()) return {};
      take(started);
      break;
    default:
      if (at_ == 0) return {};
      started.push_back(static_cast<std::uint32_t>(below(at_)));
  }
  set_after(*rank_, at_, after);
  set_after_started(*rank_, at_, started);
  return said("start edge changed");
}

std::string Mutation::swap_neighbours() {
  const std::size_t other = (at_ + 1 + below(3)) % rank_->operations.size();
  if (other <= at_ || rank_->operations[other].phase != op().phase) return {};
  swap_operations(*rank_, at_, other);
  return said("operations swapped");
}

std::string Mutation::collective() {
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

std::string Mutation::group() {
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

std::string Mutation::lane() {
  const Lane old = op().lane;
  constexpr std::array lanes{Lane{LaneKind::compute, 0}, Lane{LaneKind::compute, 1}, Lane{LaneKind::comm, 0},
                             Lane{LaneKind::comm, 1}, Lane{LaneKind::copy, 0}};
  const Lane fresh = lanes[below(lanes.size())];
  if (fresh == old) return {};
  const bool all_ranks = below(2) == 0;
  const std::size_t at = at_;
  for (RankPlan& rank : plan_.ranks)
    if ((all_ranks || &rank == rank_) && at < rank.operations.size() && rank.operations[at].kind == op().kind)
      rank.operations[at].lane = fresh;
  return said("lane changed");
}

std::string Mutation::mode() {
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

std::string Mutation::segment() {
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

// One chunk of an operation, or the same one of all operations of that kind on the rank.
std::string Mutation::chunk() {
  if (op().chunks.count == 0) return {};
  const std::string text = said("chunk changed");
  const bool everywhere = below(3) == 0;
  const std::size_t which = below(op().chunks.count), how = below(12);
  const int by = below(2) == 0 ? 1 : -1;
  const OpKind kind = op().kind;
  if (how == 0) {
    op().reverse = !op().reverse;
    return text;
  }
  for (Operation& other : rank_->operations) {
    if (everywhere ? other.kind != kind : &other != &op()) continue;
    auto list = std::vector<Chunk>(rank_->chunks_of(other).begin(), rank_->chunks_of(other).end());
    if (which >= list.size()) continue;
    Chunk& c = list[which];
    switch (how) {
      case 1: c.row += by; break;
      case 2: c.count += by; break;
      case 3: c.state += by; break;
      case 4: c.left = by < 0 ? -1 : c.left + 1; break;
      case 5: c.right = by < 0 ? -1 : c.right + 1; break;
      case 6: c.left_exponent += by; break;
      case 7: c.right_exponent += by; break;
      case 8: c.resets = !c.resets; break;
      case 9: list.erase(list.begin() + static_cast<std::ptrdiff_t>(which)); break;
      case 10: std::swap(list[which], list[below(list.size())]); break;
      default:  // a border moves
        c.count += by;
        if (which + 1 < list.size()) list[which + 1].row += by, list[which + 1].count -= by;
    }
    const auto first = static_cast<std::uint32_t>(rank_->chunks.size());
    rank_->chunks.insert(rank_->chunks.end(), list.begin(), list.end());
    other.chunks = {first, static_cast<std::uint32_t>(list.size())};
  }
  return text;
}

std::string Mutation::buffer() {
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

// Two buffers come to share bytes, on one rank or on all, with the edges that this needs or without; or a
// buffer leaves its slab, with bytes of its own or without.
std::string Mutation::slab() {
  const Buffer one = rank_->buffers[below(rank_->buffers.size())],
               two = rank_->buffers[below(rank_->buffers.size())];
  const std::string text = one.name + " of rank " + std::to_string(rank_->rank) + ": slab changed";
  const std::size_t how = below(4);
  if (how < 2 ? one.slab.empty() : one.name == two.name) return {};
  if (how >= 2 && below(8) != 0 && (one.category != Category::working || two.category != Category::working))
    return {};
  const bool everywhere = below(2) == 0, edges = below(3) != 0;
  for (RankPlan& rank : plan_.ranks) {
    if (!everywhere && &rank != rank_) continue;
    const auto a = std::ranges::find(rank.buffers, one.name, &Buffer::name),
               b = std::ranges::find(rank.buffers, two.name, &Buffer::name);
    if (a == rank.buffers.end() || b == rank.buffers.end()) continue;
    if (how < 2) {
      a->slab.clear();
      if (how == 0) a->offset = rank.arena_bytes;
    } else {
      if (b->slab.empty()) b->slab = "shared";
      a->slab = b->slab;
      a->offset = b->offset;
    }
    const std::int64_t end = std::max(rank.arena_bytes, a->offset + a->bytes);
    rank.arena_bytes = (end + arena_alignment - 1) / arena_alignment * arena_alignment;
    if (edges) derive_edges(rank);
  }
  return text;
}

std::string Mutation::repeat_operation() {
  const Operation copy = op();
  const std::string text = said("operation repeated");
  insert_operation(*rank_, at_ + 1, copy);
  return text;
}

std::string Mutation::remove() {
  const std::string text = said("operation removed");
  remove_operation(*rank_, at_);
  return text;
}

std::string Mutation::part() {
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

std::string Mutation::value() {
  constexpr std::array values{0.0, 1.0, -std::numeric_limits<double>::infinity(), -0.0};
  if (op().kind == OpKind::fill) {
    op().value = values[below(values.size())];
  } else if (op().kind == OpKind::attend || op().kind == OpKind::attend_backward || is_linear(op().kind)) {
    below(2) ? (op().head_begin += 1, op().head_end += 1) : (op().head_end += 1);
  } else if (is_communication(op().kind)) {
    op().transport = op().transport == Transport::nccl ? Transport::copy : Transport::nccl;
  } else {
    return {};
  }
  return said("value changed");
}

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
