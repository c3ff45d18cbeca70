// Mutations of what a plan says about its problem: empty views, names and kinds of buffers, keys of the
// scenario, roundings on the way; see mutations.hpp.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "derive/arena.hpp"
#include "derive/edges.hpp"
#include "tests/hand_plans/mutation.hpp"
#include "tests/hand_plans/right_changes.hpp"

namespace cplab::hand {

// One operand, or all of an operation, become empty in one of their axes; or an operation of empty views
// comes before others, on any lane.
std::string Mutation::empty_view() {
  const std::size_t axis = below(4);
  const auto make_empty = [&](View& v) {
    if (axis == 0) v.ranges = add_ranges(*rank_, {});
    if (axis == 1) v.ranges = add_ranges(*rank_, {{0, 0, 1}, {0, 0, 2}});
    if (axis == 2) v.width_end = v.width_begin;
    if (axis == 3) v.head_end = v.head_begin;
    return true;
  };
  if (below(3) == 0) return change_views("view emptied", make_empty);
  View from, into;
  from.buffer = static_cast<std::uint32_t>(below(rank_->buffers.size()));
  into.buffer = static_cast<std::uint32_t>(below(rank_->buffers.size()));
  for (View* v : {&from, &into}) {
    v->width_end = static_cast<std::int32_t>(std::min<std::int64_t>(1, rank_->buffers[v->buffer].width));
    v->head_end = static_cast<std::int32_t>(std::min<std::int64_t>(1, rank_->buffers[v->buffer].heads));
    make_empty(*v);
    v->ranges = add_ranges(*rank_, {});
  }
  constexpr std::array lanes{Lane{LaneKind::compute, 0}, Lane{LaneKind::comm, 0}, Lane{LaneKind::copy, 3}};
  const bool fills = below(2) == 0;
  Operation empty;
  empty.kind = fills ? OpKind::fill : OpKind::cast;
  empty.phase = op().phase;
  empty.lane = lanes[below(lanes.size())];
  if (!fills) empty.reads = add_accesses(*rank_, {{add_view(*rank_, from), WriteMode::store, Operand::from}});
  empty.writes = add_accesses(*rank_, {{add_view(*rank_, into), WriteMode::store, Operand::into}});
  insert_operation(*rank_, at_, empty);
  return said("empty operation inserted");
}

// A buffer takes another name that means something in some problem, another category with it or not; or one
// is added that nobody uses, or that is only filled.
std::string Mutation::buffer_name() {
  constexpr std::array names{"q",     "kv",        "out",        "lse",          "dout",       "dq",
                             "dkv",   "max_logit", "bias",       "keep",         "dbias",      "log_decay",
                             "beta",  "dbeta",     "dlog_decay", "carry",        "dcarry",     "state_last",
                             "other", "delta",     "state",      "dstate_first", "out_traded", "kv_slots"};
  const std::string fresh = names[below(names.size())];
  const bool everywhere = below(2) == 0;
  const auto category = static_cast<Category>(below(5));
  const bool recategorised = below(3) == 0, added = below(3) == 0, filled = below(2) == 0;
  const std::string old = rank_->buffers[below(rank_->buffers.size())].name;
  const std::string text = old + " of rank " + std::to_string(rank_->rank) + ": buffer named anew";
  for (RankPlan& rank : plan_.ranks) {
    if (!everywhere && &rank != rank_) continue;
    const auto at = std::ranges::find(rank.buffers, old, &Buffer::name);
    if (at == rank.buffers.end()) continue;
    if (!added) {
      at->name = fresh;
      if (recategorised) at->category = category;
      continue;
    }
    Buffer more = *at;
    more.name = fresh;
    more.category = category;
    more.slab.clear();
    more.offset = rank.arena_bytes;
    rank.arena_bytes += (more.bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
    rank.buffers.push_back(more);
    if (!filled) continue;
    View all;
    all.buffer = static_cast<std::uint32_t>(rank.buffers.size() - 1);
    all.ranges = add_ranges(rank, {{0, more.rows, 1}});
    all.slot_end = static_cast<std::int32_t>(more.slots);
    all.head_end = static_cast<std::int32_t>(more.heads);
    all.width_end = static_cast<std::int32_t>(more.width);
    Operation fill;
    fill.kind = OpKind::fill;
    fill.phase = rank.operations.empty() ? Phase::forward : rank.operations.back().phase;
    fill.writes = add_accesses(rank, {{add_view(rank, all), WriteMode::store, Operand::into}});
    insert_operation(rank, rank.operations.size(), fill);
  }
  return text;
}

// The plan is said to be of another problem.
std::string Mutation::scenario_key() {
  Scenario& s = plan_.scenario;
  Problem& p = s.problem;
  const std::int64_t by = below(2) == 0 ? 1 : -1;
  const std::size_t b = p.lengths.empty() ? 0 : below(p.lengths.size());
  constexpr std::array placements{"contiguous", "zigzag", "striped", "stream"};
  constexpr std::array dtypes{DType::fp64, DType::fp32, DType::bf16, DType::fp16};
  const std::size_t how = below(14);
  if (how < 3 && (p.lengths.empty() || p.lengths[b] + by < 0)) return {};
  const Problem before = p;
  switch (how) {
    case 0:
      p.lengths[b] += by;
      p.padded_lengths[b] = std::max(p.padded_lengths[b], p.lengths[b]);
      break;
    case 1: p.padded_lengths[b] = std::max(p.lengths[b], p.padded_lengths[b] + by); break;
    case 2: p.lengths[b] = 0; break;
    case 3: p.causal = !p.causal; break;
    case 4: p.window.left = static_cast<std::int64_t>(below(6)) - 1; break;
    case 5: p.window.right = static_cast<std::int64_t>(below(3)) - 1; break;
    case 6: p.direction = static_cast<Direction>(below(3)); break;
    case 7: p.dtype = dtypes[below(dtypes.size())]; break;
    case 8: s.placement = placements[below(placements.size())]; break;
    case 9: p.scale *= 1.5; break;
    case 10: p.max_logit = !p.max_logit; break;
    case 11: p.transition = static_cast<Transition>(below(3)); break;
    case 12:
      if (p.slopes.empty()) return {};
      p.slopes[below(p.slopes.size())] *= 2;
      break;
    default: p.softcap = p.softcap == 0 ? 2 : 0;
  }
  // Of a batch of equal sequences a file says one length: what has several is packed.
  if (how < 3 && !p.packed) p.packed = true, p.format = Format::thd, p.batch = p.sequence = 0;
  try {
    require_sizes(p, s.parallel);
  } catch (const ScenarioError&) {
    p = before;
    return {};
  }
  for (RankPlan& rank : plan_.ranks)  // of the dtype that it now is
    for (Buffer& buffer : rank.buffers)
      buffer.bytes =
          buffer.slots * buffer.rows * buffer.heads * buffer.width * element_bytes(buffer.role, p.dtype);
  return "problem: scenario changed";
}

// What an operation wrote goes through a buffer of the other dtype role and back.
std::string Mutation::round_trip() {
  if (op().writes.count == 0) return {};
  const View written = rank_->views[rank_->writes(op())[below(op().writes.count)].view];
  Buffer other = rank_->buffers[written.buffer];
  if (other.category == Category::input) return {};
  const bool of_columns = below(3) == 0;
  other.role = below(4) == 0 || other.role == Role::wide ? Role::nominal : Role::wide;
  other.name = "of_other_role";
  other.category = Category::working;
  other.slab.clear();
  other.bytes = other.slots * other.rows * other.heads * other.width *
                element_bytes(other.role, plan_.scenario.problem.dtype);
  other.offset = rank_->arena_bytes;
  rank_->arena_bytes += (other.bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
  rank_->buffers.push_back(other);
  View here = written, there = written;
  if (of_columns && here.width_end - here.width_begin > 1) here.width_begin = here.width_end - 1;
  there = here;
  there.buffer = static_cast<std::uint32_t>(rank_->buffers.size() - 1);
  const auto cast = [&](const View& from, const View& into) {
    Operation one;
    one.kind = OpKind::cast;
    one.phase = op().phase;
    one.lane = op().lane;
    one.reads = add_accesses(*rank_, {{add_view(*rank_, from), WriteMode::store, Operand::from}});
    one.writes = add_accesses(*rank_, {{add_view(*rank_, into), WriteMode::store, Operand::into}});
    return one;
  };
  const Operation out = cast(here, there), back = cast(there, here);
  const std::string text = said("rounded on the way");
  insert_operation(*rank_, at_ + 1, out);
  insert_operation(*rank_, at_ + 2, back);
  derive_edges(*rank_);
  return text;
}

// Lists of rows, columns and pairs are written otherwise: nothing changes.
std::string Mutation::spelling() {
  spell_otherwise(plan_, below(std::size_t{1} << 20));
  return "plan: spelt otherwise";
}

}  // namespace cplab::hand
