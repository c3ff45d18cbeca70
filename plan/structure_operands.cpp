// What each kind of operation takes and writes, as plan.hpp lists it: counts, shapes, dtype roles, modes.
#include "plan/structure_operands.hpp"

#include <algorithm>
#include <map>

namespace cplab {
namespace {

constexpr const char* wrong_count = "has the wrong number of operands";
constexpr const char* wrong_shape = "has operands whose shapes do not fit each other";
constexpr const char* wrong_mode = "writes in a mode that it does not have";
constexpr const char* wrong_role = "has an operand of the wrong dtype role";

class Operands {
 public:
  Operands(const RankPlan& plan, const Operation& op, const std::vector<std::int64_t>& rows)
      : plan_(plan), op_(op), rows_(rows) {}

  // Null: nothing is wrong.
  const char* test() const {
    for (const Access& a : plan_.reads(op_))
      if (role(a.view) == Role::integer) return "has an integer operand, which no operation takes";
    for (const Access& a : plan_.writes(op_))
      if (role(a.view) == Role::integer) return "has an integer operand, which no operation takes";
    for (const Part& p : plan_.parts_of(op_))
      if (role(p.view) == Role::integer) return "has an integer operand, which no operation takes";
    if (op_.parts.count > 0 && !has_parts()) return "has parts, which it cannot have";
    switch (op_.kind) {
      case OpKind::attend:
      case OpKind::attend_backward: return attention();
      case OpKind::row_dot: return row_dot();
      case OpKind::merge: return merge();
      case OpKind::copy:
      case OpKind::cast:
      case OpKind::add: return pair();
      case OpKind::fill:
        if (!counts(0, 1)) return wrong_count;
        return all_modes(WriteMode::store) ? nullptr : wrong_mode;
      case OpKind::reduce_scatter: return counts(0, 0) ? reduce_scatter() : wrong_count;
      case OpKind::all_reduce: return all_reduce();
      case OpKind::exchange:
      case OpKind::all_gather:
      case OpKind::all_to_all:
      case OpKind::barrier:
      case OpKind::host_sync: return counts(0, 0) ? nullptr : wrong_count;
    }
    return "is of an unknown kind";
  }

 private:
  const View& read(std::size_t i) const { return plan_.views[plan_.reads(op_)[i].view]; }
  const View& write(std::size_t i) const { return plan_.views[plan_.writes(op_)[i].view]; }
  std::int64_t rows(const View& v) const { return rows_[static_cast<std::size_t>(&v - plan_.views.data())]; }
  static std::int32_t slots(const View& v) { return v.slot_end - v.slot_begin; }
  static std::int32_t heads(const View& v) { return v.head_end - v.head_begin; }
  static std::int32_t width(const View& v) { return v.width_end - v.width_begin; }
  const Buffer& buffer(const View& v) const { return plan_.buffers[v.buffer]; }
  Role role(std::uint32_t view) const { return buffer(plan_.views[view]).role; }
  bool nominal(const View& v) const { return buffer(v).role == Role::nominal; }
  bool wide(const View& v) const { return buffer(v).role == Role::wide; }
  bool has_parts() const { return op_.kind >= OpKind::exchange && op_.kind <= OpKind::all_to_all; }

  bool counts(std::uint32_t reads, std::uint32_t writes) const {
    return op_.reads.count == reads && op_.writes.count == writes;
  }
  bool all_modes(WriteMode mode) const {
    return std::ranges::all_of(plan_.writes(op_), [&](const Access& a) { return a.mode == mode; });
  }
  // Rows x heads x width numbers in one slot and one plane: what a tile takes.
  bool tensor(const View& v, std::int64_t n, std::int64_t h, std::int64_t w) const {
    return slots(v) == 1 && plane_cut(buffer(v), v) == 0 && rows(v) == n && heads(v) == h && width(v) == w;
  }
  bool same_shape(const View& a, const View& b) const {
    return rows(a) == rows(b) && slots(a) == slots(b) && heads(a) == heads(b) && width(a) == width(b);
  }

  const char* attention() const {
    const bool forward = op_.kind == OpKind::attend;
    if (!counts(forward ? 3 : 6, forward ? 2 : 3)) return wrong_count;
    const View &q = read(0), &k = read(1), &v = read(2);
    const std::int32_t H = heads(q), G = heads(k), D = width(q), E = width(v);
    const std::int64_t n = rows(q), m = rows(k);
    if (H < 1 || G < 1 || H % G != 0) return "has q heads that are no multiple of its k heads";
    bool fits = tensor(q, n, H, D) && tensor(k, m, G, D) && tensor(v, m, G, E);
    fits = fits && (forward ? tensor(write(0), n, H, E) && tensor(write(1), n, H, 1)
                            : tensor(read(3), n, H, E) && tensor(read(4), n, H, 1) &&
                                  tensor(read(5), n, H, 1) && tensor(write(0), n, H, D) &&
                                  tensor(write(1), m, G, D) && tensor(write(2), m, G, E));
    if (!fits) return "has operands whose shapes do not fit each other, or not one slot and plane";
    if (!nominal(q) || !nominal(k) || !nominal(v) ||
        !(forward ? wide(write(1)) : nominal(read(3)) && wide(read(4)) && wide(read(5))))
      return wrong_role;
    if (op_.head_end - op_.head_begin != H || op_.head_begin < 0)
      return "names query heads that its q view does not have";
    const auto modes = plan_.writes(op_);
    if (forward && (modes[0].mode != modes[1].mode || modes[0].mode == WriteMode::add))
      return "must write out and lse both with store or both with merge";
    if (!forward && (modes[1].mode != modes[2].mode || modes[0].mode == WriteMode::merge ||
                     modes[1].mode == WriteMode::merge))
      return "must write dq with store or add, and dk and dv alike";
    return segments(n, m);
  }

  const char* segments(std::int64_t n, std::int64_t m) const {
    const auto run = [](std::int64_t begin, std::int64_t count, std::int64_t all) {
      return begin >= 0 && count >= 0 && begin <= all && count <= all - begin;
    };
    const auto small = [](std::int64_t x) { return x >= -most_extent && x <= most_extent; };
    for (const Segment& s : plan_.segments_of(op_)) {
      if (!run(s.q_begin, s.q_count, n) || !run(s.k_begin, s.k_count, m))
        return "has a segment outside its views";
      if (!small(s.offset) || !small(s.left) || !small(s.right)) return "has a segment with a senseless band";
    }
    return nullptr;
  }

  const char* row_dot() const {
    if (!counts(2, 1)) return wrong_count;
    const View& dout = read(0);
    const std::int64_t n = rows(dout);
    if (!tensor(dout, n, heads(dout), width(dout)) || !tensor(read(1), n, heads(dout), width(dout)) ||
        !tensor(write(0), n, heads(dout), 1))
      return wrong_shape;
    if (!nominal(dout) || !nominal(read(1)) || !wide(write(0))) return wrong_role;
    return all_modes(WriteMode::store) ? nullptr : wrong_mode;
  }

  // The three forms of merge are told apart by how many operands they have.
  const char* merge() const {
    if (op_.reads.count < 1 || op_.reads.count > 3 || op_.writes.count != (op_.reads.count == 2 ? 2u : 1u))
      return wrong_count;
    const View& first = read(0);
    const std::int64_t n = rows(first);
    const std::int32_t h = heads(first), w = width(first);
    const auto lse = [&](const View& v) { return tensor(v, n, h, 1) && wide(v); };
    if (op_.reads.count == 1) {
      if (!lse(first) || !lse(write(0))) return "folds LSEs of different shapes, or not wide";
      return all_modes(WriteMode::merge) ? nullptr : "must write with merge";
    }
    const bool fits = tensor(first, n, h, w) && lse(read(1)) && tensor(write(0), n, h, w);
    if (op_.reads.count == 2) {
      if (!fits || !lse(write(1))) return "merges results of different shapes, or LSEs that are not wide";
      return all_modes(WriteMode::merge) ? nullptr : "must write with merge";
    }
    if (!fits || !lse(read(2))) return "rescales a result of another shape, or LSEs that are not wide";
    return all_modes(WriteMode::merge) ? "must write with store or add" : nullptr;
  }

  const char* pair() const {
    if (!counts(1, 1)) return wrong_count;
    if (!same_shape(read(0), write(0))) return wrong_shape;
    if (op_.kind == OpKind::copy && buffer(read(0)).role != buffer(write(0)).role)
      return "copies between different dtypes";
    return all_modes(op_.kind == OpKind::add ? WriteMode::add : WriteMode::store) ? nullptr : wrong_mode;
  }

  const char* all_reduce() const {
    if (!counts(1, 1)) return wrong_count;
    if (op_.reduction > Reduction::max) return "reduces in a way that is unknown";
    if (!same_shape(read(0), write(0))) return "reads and writes different shapes";
    if (buffer(read(0)).role != buffer(write(0)).role) return wrong_role;
    if (plane_cut(buffer(read(0)), read(0)) != plane_cut(buffer(write(0)), write(0)))
      return "reads and writes with different planes";
    return all_modes(WriteMode::store) ? nullptr : wrong_mode;
  }

  // Every peer contributes to the same views, in the same order.
  const char* reduce_scatter() const {
    std::map<int, std::vector<std::uint32_t>> received;
    for (const Part& p : plan_.parts_of(op_))
      if (!p.send) received[p.peer].push_back(p.view);
    for (const auto& [peer, views] : received)
      if (views != received.begin()->second)
        return "does not sum the same views, in the same order, of every peer";
    for (const auto& [peer, views] : received)
      for (std::size_t i = 0; i < views.size(); ++i)
        if (std::find(views.begin() + static_cast<std::ptrdiff_t>(i) + 1, views.end(), views[i]) !=
            views.end())
          return "sums two parts of one peer into one view";
    return nullptr;
  }

  const RankPlan& plan_;
  const Operation& op_;
  const std::vector<std::int64_t>& rows_;
};

}  // namespace

WrongOperands wrong_operands(const RankPlan& plan, const Operation& op,
                             const std::vector<std::int64_t>& view_rows) {
  const char* what = Operands(plan, op, view_rows).test();
  return {is_communication(op.kind) ? FindingKind::unmatched : FindingKind::coverage, what ? what : ""};
}

}  // namespace cplab
