// The checker's first pass: every reference of a plan is tested before anything else follows it, views become
// boxes, and operands are compared with what plan.hpp says each kind of operation takes.
#include <algorithm>
#include <cmath>
#include <string>

#include "algorithms/check_model.hpp"

namespace cplab::checking {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 40;  // of any extent; products are tested in double
constexpr std::int64_t most_slots = 1 << 16;
constexpr std::int64_t most_strided_rows = 1 << 24;  // of one view: their values are kept row by row

bool inside(Span span, std::size_t size) {
  return std::uint64_t{span.first} + span.count <= size;
}

// Sorted, and neighbouring plain runs joined.
RowSet normalise(std::span<const RowRange> ranges) {
  RowSet set;
  set.distinct = true;
  std::vector<RowRange> sorted;
  for (const RowRange& r : ranges)
    if (r.count > 0) sorted.push_back(r.count == 1 ? RowRange{r.begin, 1, 1} : r);
  std::sort(sorted.begin(), sorted.end(),
            [](const RowRange& a, const RowRange& b) { return a.begin < b.begin; });
  for (const RowRange& r : sorted) {
    set.strided = set.strided || r.step != 1;
    if (!set.sorted.empty() && !set.strided) {
      RowRange& last = set.sorted.back();
      if (r.begin < last.begin + last.count) set.distinct = false;
      if (r.begin <= last.begin + last.count) {
        last.count = std::max(last.count, r.begin + r.count - last.begin);
        continue;
      }
    }
    set.sorted.push_back(r);
  }
  for (std::size_t i = 0; set.strided && set.distinct && i < sorted.size(); ++i)
    for (std::size_t j = i + 1; set.distinct && j < sorted.size(); ++j)
      set.distinct = !runs_meet(sorted[i], sorted[j]);
  return set;
}

class Resolver {
 public:
  Resolver(const Plan& plan, RankModel& rank, const Model& model, Findings& findings)
      : plan_(plan), problem_(plan.scenario.problem), rank_(rank), model_(model), findings_(findings) {}

  void run() {
    for (std::uint32_t b = 0; b < rank_.plan->buffers.size(); ++b) test_buffer(b);
    for (const View& view : rank_.plan->views) rank_.boxes.push_back(box_of(view));
    find_lanes();
    const std::size_t count = rank_.plan->operations.size();
    rank_.forms.assign(count, Form::broken);
    for (std::uint32_t i = 0; i < count; ++i) test_operation(i);
  }

 private:
  void test_buffer(std::uint32_t index) {
    const Buffer& b = rank_.plan->buffers[index];
    const auto legal = [](std::int64_t n) { return n >= 0 && n <= most; };
    const double elements = static_cast<double>(b.slots) * static_cast<double>(b.rows) *
                            static_cast<double>(b.heads) * static_cast<double>(b.width);
    const bool good = legal(b.slots) && b.slots <= most_slots && legal(b.rows) && legal(b.heads) &&
                      legal(b.width) && elements < 1e17;
    good_buffers_.push_back(good);
    if (!good)
      return findings_.add(FindingKind::coverage, rank_.plan, none, index,
                           "buffer " + b.name + " has no sensible shape");
    const auto need = static_cast<std::int64_t>(elements) * element(b.role);
    if (b.bytes > 0 && b.bytes != need)
      findings_.add(FindingKind::lifetime, rank_.plan, none, index,
                    "buffer " + b.name + " says " + std::to_string(b.bytes) + " bytes but its axes need " +
                        std::to_string(need));
    if (b.bytes > 0 && (!in_arena(b)))
      findings_.add(FindingKind::lifetime, rank_.plan, none, index,
                    "buffer " + b.name + " does not lie within the arena");
  }

  bool in_arena(const Buffer& b) const {
    return b.offset >= 0 && b.bytes <= rank_.plan->arena_bytes &&
           b.offset <= rank_.plan->arena_bytes - b.bytes;
  }

  std::int64_t element(Role role) const {
    if (role == Role::integer) return 4;
    if (problem_.dtype == DType::fp64) return 8;
    return role == Role::wide || problem_.dtype == DType::fp32 ? 4 : 2;
  }

  Box box_of(const View& view) {
    Box box;
    const RankPlan& plan = *rank_.plan;
    if (view.buffer >= plan.buffers.size() || !good_buffers_[view.buffer]) return box;
    if (!inside(view.ranges, plan.row_ranges.size())) return box;
    const Buffer& b = plan.buffers[view.buffer];
    const auto within = [](std::int32_t begin, std::int32_t end, std::int64_t size) {
      return 0 <= begin && begin <= end && end <= size;
    };
    if (!within(view.slot_begin, view.slot_end, b.slots) ||
        !within(view.head_begin, view.head_end, b.heads) ||
        !within(view.width_begin, view.width_end, b.width)) {
      return box;
    }
    box.buffer = view.buffer;
    box.slot_begin = view.slot_begin, box.slot_end = view.slot_end;
    box.head_begin = view.head_begin, box.head_end = view.head_end;
    box.width_begin = view.width_begin, box.width_end = view.width_end;
    box.ranges = plan.rows_of(view);
    box.low = b.rows;
    bool plain = true, strided = false;
    for (const RowRange& r : box.ranges) {
      if (r.count < 0 || r.begin < 0 || r.step < 1) return box;
      if (r.count == 0) continue;
      if (r.begin >= b.rows || r.count > b.rows || (r.count - 1) > (b.rows - 1 - r.begin) / r.step)
        return box;
      plain = plain && (r.step == 1 || r.count == 1) && (box.rows == 0 || r.begin == box.high);
      strided = strided || (r.step != 1 && r.count > 1);
      box.low = std::min(box.low, r.begin);
      box.high = std::max(box.high, r.begin + (r.count - 1) * r.step + 1);
      box.rows += r.count;
      if (box.rows > most) return box;
    }
    if (!plain) {
      if (strided && box.rows > most_strided_rows) return box;
      const std::uint64_t key = (std::uint64_t{view.ranges.first} << 32) | view.ranges.count;
      const auto [at, fresh] = row_sets_.try_emplace(key, static_cast<std::int32_t>(rank_.row_sets.size()));
      if (fresh) rank_.row_sets.push_back(normalise(box.ranges));
      box.row_set = at->second;
    }
    box.valid = true;
    return box;
  }

  void find_lanes() {
    std::unordered_map<std::uint32_t, std::uint16_t> index;
    for (std::uint32_t i = 0; i < rank_.plan->operations.size(); ++i) {
      const Lane lane = rank_.plan->operations[i].lane;
      const std::uint32_t key = static_cast<std::uint32_t>(lane.kind) * 256u + lane.index;
      std::uint16_t number = last_lane_;
      if (rank_.lanes.empty() || key != last_key_) {
        number = index.try_emplace(key, static_cast<std::uint16_t>(rank_.lanes.size())).first->second;
        if (number == rank_.lanes.size()) rank_.lanes.emplace_back();
        last_key_ = key;
        last_lane_ = number;
      }
      rank_.lane_of.push_back(number);
      rank_.place.push_back(static_cast<std::uint32_t>(rank_.lanes[number].size()));
      rank_.lanes[number].push_back(i);
    }
  }

  void test_operation(std::uint32_t i) {
    const RankPlan& plan = *rank_.plan;
    const Operation& op = plan.operations[i];
    if (!inside(op.reads, plan.accesses.size()) || !inside(op.writes, plan.accesses.size()) ||
        !inside(op.parts, plan.parts.size()) || !inside(op.segments, plan.segments.size()) ||
        !inside(op.after, plan.edges.size()) || op.kind > OpKind::host_sync) {
      return report(i, FindingKind::coverage, "refers outside the plan");
    }
    rank_.forms[i] = Form::malformed;
    for (std::uint32_t e : plan.after(op)) {
      if (e < i) continue;
      report(i, FindingKind::deadlock,
             e == i ? "waits for itself" : "waits for an operation that is issued later");
    }
    const bool comm = op.kind >= OpKind::exchange && op.kind <= OpKind::barrier;
    const FindingKind kind = comm ? FindingKind::unmatched : FindingKind::coverage;
    for (const Access& a : plan.reads(op))
      if (!sound(a.view)) return report(i, FindingKind::uninitialised, "reads outside a buffer");
    for (const Access& a : plan.writes(op))
      if (!sound(a.view) || !distinct(a.view))
        return report(i, kind, "writes outside a buffer or a row twice");
    for (const Part& p : plan.parts_of(op))
      if (!sound(p.view) || (!p.send && !distinct(p.view)))
        return report(i, kind, "a part leaves its buffer");
    const char* wrong = comm ? test_communication(op) : test_operands(op);
    if (wrong) return report(i, kind, wrong);
    rank_.forms[i] = Form::good;
  }

  bool sound(std::uint32_t view) const { return view < rank_.boxes.size() && rank_.boxes[view].valid; }
  bool distinct(std::uint32_t view) const {
    const Box& box = rank_.boxes[view];
    return box.row_set < 0 || rank_.row_sets[static_cast<std::size_t>(box.row_set)].distinct;
  }

  const char* test_communication(const Operation& op) const {
    if (op.group >= plan_.groups.size()) return "names a group that does not exist";
    const auto& positions = model_.group_position[op.group];
    const auto member = [&](int rank) {
      return rank >= 0 && static_cast<std::size_t>(rank) < positions.size() &&
             positions[static_cast<std::size_t>(rank)] >= 0;
    };
    if (!member(rank_.plan->rank)) return "is not a member of the group it names";
    for (const Part& p : rank_.plan->parts_of(op))
      if (!member(p.peer)) return "has a part with a rank outside its group";
    const bool reduce = op.kind == OpKind::all_reduce;
    if (op.reads.count != (reduce ? 1u : 0u) || op.writes.count != (reduce ? 1u : 0u))
      return "has operands it cannot have";
    if ((reduce || op.kind == OpKind::barrier) && op.parts.count) return "has parts, which it cannot have";
    if (reduce) return same_shape(read(op, 0), write(op, 0)) ? nullptr : "reads and writes different shapes";
    return nullptr;
  }

  const Box& read(const Operation& op, std::size_t i) const {
    return rank_.boxes[rank_.plan->reads(op)[i].view];
  }
  const Box& write(const Operation& op, std::size_t i) const {
    return rank_.boxes[rank_.plan->writes(op)[i].view];
  }
  Role role(const Box& box) const { return rank_.plan->buffers[box.buffer].role; }

  static bool same_shape(const Box& a, const Box& b) {
    return a.rows == b.rows && a.slots() == b.slots() && a.heads() == b.heads() && a.width() == b.width();
  }
  // Tiles take operands in the problem's dtype, and LSEs and row sums in the wide one.
  bool nominal(const Box& box) const { return role(box) == Role::nominal; }
  bool wide(const Box& box) const { return role(box) == Role::wide; }
  // One slot of rows x heads x width numbers.
  bool shaped(const Box& box, std::int64_t rows, std::int64_t heads, std::int64_t width) const {
    return box.slots() == 1 && box.rows == rows && box.heads() == heads && box.width() == width &&
           role(box) != Role::integer;
  }
  bool counts(const Operation& op, std::uint32_t reads, std::uint32_t writes) const {
    return op.reads.count == reads && op.writes.count == writes && op.parts.count == 0;
  }
  bool modes(const Operation& op, WriteMode mode) const {
    for (const Access& a : rank_.plan->writes(op))
      if (a.mode != mode) return false;
    return true;
  }

  // What is wrong with the operands of a compute or host operation, or null.
  const char* test_operands(const Operation& op) const {
    constexpr const char* count = "has the wrong number of operands";
    constexpr const char* shape = "has operands whose shapes do not fit each other";
    constexpr const char* mode = "writes in a mode that it does not have";
    constexpr const char* dtype = "has an operand of the wrong dtype role";
    switch (op.kind) {
      case OpKind::attend:
      case OpKind::attend_backward: return test_attention(op);
      case OpKind::row_dot: {
        if (!counts(op, 2, 1)) return count;
        const Box& dout = read(op, 0);
        if (!shaped(read(op, 1), dout.rows, dout.heads(), dout.width()) ||
            !shaped(write(op, 0), dout.rows, dout.heads(), 1) || dout.slots() != 1)
          return shape;
        if (!nominal(dout) || !nominal(read(op, 1)) || !wide(write(op, 0))) return dtype;
        return modes(op, WriteMode::store) ? nullptr : mode;
      }
      case OpKind::merge: return test_merge(op);
      case OpKind::copy:
      case OpKind::cast:
      case OpKind::add:
        if (!counts(op, 1, 1)) return count;
        if (!same_shape(read(op, 0), write(op, 0))) return shape;
        if (op.kind == OpKind::copy && role(read(op, 0)) != role(write(op, 0)))
          return "copies between different dtypes";
        return modes(op, op.kind == OpKind::add ? WriteMode::add : WriteMode::store) ? nullptr : mode;
      case OpKind::fill:
        if (!counts(op, 0, 1)) return count;
        return modes(op, WriteMode::store) ? nullptr : mode;
      case OpKind::host_sync: return counts(op, 0, 0) ? nullptr : count;
      case OpKind::exchange:
      case OpKind::all_gather:
      case OpKind::reduce_scatter:
      case OpKind::all_to_all:
      case OpKind::all_reduce:
      case OpKind::barrier: return "is no compute operation";
    }
    return "is of an unknown kind";
  }

  const char* test_merge(const Operation& op) const {
    if (op.parts.count || op.reads.count < 1 || op.reads.count > 3) return "has the wrong number of operands";
    if (op.writes.count != (op.reads.count == 2 ? 2u : 1u)) return "has the wrong number of operands";
    const Box& first = read(op, 0);
    const std::int64_t n = first.rows;
    const std::int32_t heads = first.heads(), width = first.width();
    bool fits = shaped(first, n, heads, width);
    if (op.reads.count == 1) {
      fits = fits && width == 1 && shaped(write(op, 0), n, heads, 1) && wide(first) && wide(write(op, 0));
      return !fits                         ? "folds LSEs of different shapes, or not wide"
             : modes(op, WriteMode::merge) ? nullptr
                                           : "must write with merge";
    }
    fits = fits && shaped(read(op, 1), n, heads, 1) && shaped(write(op, 0), n, heads, width) &&
           wide(read(op, 1)) && wide(op.reads.count == 2 ? write(op, 1) : read(op, 2));
    if (op.reads.count == 2) {
      fits = fits && shaped(write(op, 1), n, heads, 1);
      return !fits                         ? "merges results of different shapes, or LSEs that are not wide"
             : modes(op, WriteMode::merge) ? nullptr
                                           : "must write with merge";
    }
    if (!fits || !shaped(read(op, 2), n, heads, 1)) return "rescales a result of another shape";
    return modes(op, WriteMode::merge) ? "must write with store or add" : nullptr;
  }

  const char* test_attention(const Operation& op) const {
    const bool forward = op.kind == OpKind::attend;
    if (!counts(op, forward ? 3 : 6, forward ? 2 : 3)) return "has the wrong number of operands";
    const Box &q = read(op, 0), &k = read(op, 1), &v = read(op, 2);
    const auto D = static_cast<std::int32_t>(problem_.head_size),
               E = static_cast<std::int32_t>(problem_.value_size);
    const std::int32_t heads = q.heads();
    if (heads < 1 || k.heads() < 1 || heads % k.heads() != 0)
      return "has q heads that are no multiple of its k heads";
    bool fits =
        shaped(q, q.rows, heads, D) && shaped(k, k.rows, k.heads(), D) && shaped(v, k.rows, k.heads(), E);
    if (forward) {
      fits = fits && shaped(write(op, 0), q.rows, heads, E) && shaped(write(op, 1), q.rows, heads, 1);
    } else {
      fits = fits && shaped(read(op, 3), q.rows, heads, E) && shaped(read(op, 4), q.rows, heads, 1) &&
             shaped(read(op, 5), q.rows, heads, 1) && shaped(write(op, 0), q.rows, heads, D) &&
             shaped(write(op, 1), k.rows, k.heads(), D) && shaped(write(op, 2), k.rows, k.heads(), E);
    }
    if (!fits) return "has operands whose shapes do not fit each other";
    const bool roles =
        nominal(q) && nominal(k) && nominal(v) &&
        (forward ? wide(write(op, 1)) : nominal(read(op, 3)) && wide(read(op, 4)) && wide(read(op, 5)));
    if (!roles) return "has an operand of the wrong dtype role";
    if (!(std::abs(op.value - problem_.scale) <= 1e-12 * std::abs(problem_.scale)))
      return "scales the logits by another factor than the problem's";
    if (q.rows > most_tokens || k.rows > most_tokens) return "has more rows than can be counted exactly";
    if (op.head_begin < 0 || op.head_end > problem_.heads || op.head_end - op.head_begin != heads ||
        heads < 1)
      return "names query heads that its q view does not have";
    const auto modes = rank_.plan->writes(op);
    if (forward && (modes[0].mode != modes[1].mode || modes[0].mode == WriteMode::add))
      return "must write out and lse both with store or both with merge";
    if (!forward && (modes[1].mode != modes[2].mode || modes[0].mode == WriteMode::merge ||
                     modes[1].mode == WriteMode::merge))
      return "must write dq with store or add, and dk and dv alike";
    for (const Segment& s : rank_.plan->segments_of(op)) {
      const auto run = [](std::int64_t begin, std::int64_t count, std::int64_t rows) {
        return begin >= 0 && count >= 0 && begin <= rows && count <= rows - begin;
      };
      if (!run(s.q_begin, s.q_count, q.rows) || !run(s.k_begin, s.k_count, k.rows))
        return "has a segment outside its views";
      const auto small = [](std::int64_t n) { return n >= -most && n <= most; };
      if (!small(s.offset) || !small(s.left) || !small(s.right)) return "has a segment with a senseless band";
    }
    return nullptr;
  }

  void report(std::uint32_t i, FindingKind kind, const char* what) {
    findings_.add(kind, rank_.plan, i, none, describe_operation(rank_, i) + " " + what);
  }

  const Plan& plan_;
  const Problem& problem_;
  RankModel& rank_;
  const Model& model_;
  Findings& findings_;
  std::vector<char> good_buffers_;
  std::unordered_map<std::uint64_t, std::int32_t> row_sets_;
  std::uint32_t last_key_ = 0;
  std::uint16_t last_lane_ = 0;
};

}  // namespace

std::span<const Access> RankModel::reads(std::uint32_t i) const {
  return forms[i] == Form::broken ? std::span<const Access>{} : plan->reads(op(i));
}
std::span<const Access> RankModel::writes(std::uint32_t i) const {
  return forms[i] == Form::broken ? std::span<const Access>{} : plan->writes(op(i));
}
std::span<const Part> RankModel::parts(std::uint32_t i) const {
  return forms[i] == Form::broken ? std::span<const Part>{} : plan->parts_of(op(i));
}
std::span<const Segment> RankModel::segments(std::uint32_t i) const {
  return forms[i] == Form::broken ? std::span<const Segment>{} : plan->segments_of(op(i));
}

void resolve(const Plan& plan, Model& model, Findings& findings) {
  model.plan = &plan;
  for (const Group& group : plan.groups) {
    std::vector<std::int32_t>& positions = model.group_position.emplace_back(plan.ranks.size(), -1);
    for (std::size_t i = 0; i < group.ranks.size(); ++i)
      positions[static_cast<std::size_t>(group.ranks[i])] = static_cast<std::int32_t>(i);
  }
  model.ranks.resize(plan.ranks.size());
  model.first_operation.push_back(0);
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    model.ranks[r].plan = &plan.ranks[r];
    Resolver(plan, model.ranks[r], model, findings).run();
    model.first_operation.push_back(model.first_operation.back() +
                                    static_cast<std::uint32_t>(plan.ranks[r].operations.size()));
  }
}

}  // namespace cplab::checking
