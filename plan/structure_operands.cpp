// What each kind of operation takes and writes, as plan.hpp lists it: counts, shapes, dtype roles, modes.
#include "plan/structure_operands.hpp"

#include <algorithm>
#include <map>

#include "plan/layout.hpp"
#include "plan/operands.hpp"
#include "plan/structure.hpp"

namespace cplab {
namespace {

constexpr const char* wrong_count = "has the wrong number of operands";
constexpr const char* wrong_names = "has operands under other names than its kind has";
constexpr const char* wrong_shape = "has operands whose shapes do not fit each other";

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
    if (op_.kind > OpKind::host_sync) return "is of an unknown kind";
    if (op_.chunks.count > 0 && !is_linear(op_.kind)) return "has chunks, which it cannot have";
    if (op_.softcap != 0 && ((op_.kind != OpKind::attend && op_.kind != OpKind::attend_backward) ||
                             !(op_.softcap > 0) || !changes_alone()))
      return "has a softcap that it cannot have";
    if (op_.bias != BiasForm::none &&
        ((op_.kind != OpKind::attend && op_.kind != OpKind::attend_backward) || !changes_alone() ||
         (op_.bias != BiasForm::alibi && op_.bias != BiasForm::buckets)))
      return "has a bias of positions that it cannot have";
    if (op_.columns.count > 0 && op_.kind != OpKind::attend && op_.kind != OpKind::attend_backward)
      return "has columns, which it cannot have";
    if (!has_right_count()) return wrong_count;
    if (!find_signature(op_.kind, plan_.reads(op_), plan_.writes(op_))) return wrong_names;
    switch (op_.kind) {
      case OpKind::attend:
      case OpKind::attend_backward: return attention();
      case OpKind::row_dot: return row_dot();
      case OpKind::sink_gradient: return sink_gradient();
      case OpKind::project:
      case OpKind::project_backward:
      case OpKind::weight_gradient: return wrong_projection(plan_, op_, rows_);
      case OpKind::merge: return merge();
      case OpKind::copy:
      case OpKind::cast:
      case OpKind::add:
      case OpKind::maximum: return pair();
      case OpKind::local:
      case OpKind::local_backward:
      case OpKind::state:
      case OpKind::scan:
      case OpKind::combine:
      case OpKind::inter: return wrong_linear_operands(plan_, op_, rows_);
      case OpKind::convolve:
      case OpKind::filter_gradient: return wrong_convolution(plan_, op_, rows_);
      case OpKind::fill: return all_modes(WriteMode::store) ? nullptr : wrong_mode;
      case OpKind::reduce_scatter: return reduce_scatter();
      case OpKind::all_reduce: return all_reduce();
      case OpKind::exchange:
      case OpKind::all_gather:
      case OpKind::all_to_all:
      case OpKind::barrier:
      case OpKind::host_sync: return nullptr;
    }
    return "is of an unknown kind";
  }

 private:
  const View& view(Operand operand) const { return plan_.view_of(op_, operand); }
  bool has(Operand operand) const { return plan_.find(op_, operand) != nullptr; }
  WriteMode mode(Operand operand) const { return plan_.mode_of(op_, operand); }
  std::int64_t rows(const View& v) const { return rows_[static_cast<std::size_t>(&v - plan_.views.data())]; }
  static std::int32_t slots(const View& v) { return v.slot_end - v.slot_begin; }
  static std::int32_t heads(const View& v) { return v.head_end - v.head_begin; }
  static std::int32_t width(const View& v) { return v.width_end - v.width_begin; }
  const Buffer& buffer(const View& v) const { return plan_.buffers[v.buffer]; }
  Role role(std::uint32_t view) const { return buffer(plan_.views[view]).role; }
  bool nominal(const View& v) const { return buffer(v).role == Role::nominal; }
  bool wide(const View& v) const { return buffer(v).role == Role::wide; }
  bool has_parts() const { return op_.kind >= OpKind::exchange && op_.kind <= OpKind::all_to_all; }

  bool has_right_count() const {
    return std::ranges::any_of(signatures(), [&](const Signature& s) {
      const auto possible = [](std::size_t count, const std::vector<Operand>& names,
                               const std::vector<Operand>& more) {
        return count >= names.size() && count <= names.size() + more.size();
      };
      return s.kind == op_.kind && possible(op_.reads.count, s.reads, s.more_reads) &&
             possible(op_.writes.count, s.writes, s.more_writes);
    });
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

  // Kernels that change logits do nothing else beside.
  bool changes_alone() const {
    return !has(Operand::max_logit) && !has(Operand::rounded_dq) && !has(Operand::rounded_dk) &&
           !(op_.kind == OpKind::attend_backward && has(Operand::out));
  }

  const char* attention() const {
    const bool forward = op_.kind == OpKind::attend;
    const View &q = view(Operand::q), &k = view(Operand::k), &v = view(Operand::v), &lse = view(Operand::lse);
    const std::int32_t H = heads(q), G = heads(k), D = width(q), E = width(v);
    const std::int64_t n = rows(q), m = rows(k);
    if (H < 1 || G < 1 || H % G != 0) return "has q heads that are no multiple of its k heads";
    bool fits = tensor(q, n, H, D) && tensor(k, m, G, D) && tensor(v, m, G, E) && tensor(lse, n, H, 1);
    fits = fits && (forward ? tensor(view(Operand::out), n, H, E)
                            : tensor(view(Operand::dout), n, H, E) && tensor(view(Operand::delta), n, H, 1) &&
                                  tensor(view(Operand::dq), n, H, D) && tensor(view(Operand::dk), m, G, D) &&
                                  tensor(view(Operand::dv), m, G, E) &&
                                  (!has(Operand::out) || tensor(view(Operand::out), n, H, E)));
    if (!fits) return "has operands whose shapes do not fit each other, or not one slot and plane";
    if (!nominal(q) || !nominal(k) || !nominal(v) || !wide(lse) ||
        !(forward || (nominal(view(Operand::dout)) && wide(view(Operand::delta)))))
      return wrong_role;
    if (op_.head_end - op_.head_begin != H || op_.head_begin < 0)
      return "names query heads that its q view does not have";
    const auto either = [](WriteMode mode, WriteMode other) {
      return mode == WriteMode::store || mode == other;
    };
    if (forward &&
        (mode(Operand::out) != mode(Operand::lse) || !either(mode(Operand::out), WriteMode::merge)))
      return "must write out and lse both with store or both with merge";
    if (forward && has(Operand::max_logit)) {
      const View& max_logit = view(Operand::max_logit);
      if (!tensor(max_logit, 1, H, 1)) return "writes a max_logit that is not one number for each query head";
      if (!wide(max_logit)) return wrong_role;
      if (mode(Operand::max_logit) != WriteMode::max) return "must write max_logit with max";
    }
    if (has(Operand::sink)) {
      const View& sink = view(Operand::sink);
      if (!tensor(sink, 1, H, 1)) return "has a sink that is not one number for each query head";
      if (!wide(sink)) return wrong_role;
    }
    if (!forward && (mode(Operand::dk) != mode(Operand::dv) || !either(mode(Operand::dq), WriteMode::add) ||
                     !either(mode(Operand::dk), WriteMode::add)))
      return "must write dq with store or add, and dk and dv alike";
    if (!forward && has(Operand::out)) {  // it computes delta
      if (!nominal(view(Operand::out))) return wrong_role;
      if (mode(Operand::delta) != WriteMode::store) return "must write delta with store";
    }
    if (const char* what = rounded_gradients()) return what;
    if (const char* what = pair_mask()) return what;
    return segments(n, m);
  }

  // What is summed in a wide dtype and comes out in the problem's.
  const char* rounded_gradients() const {
    const View &q = view(Operand::q), &k = view(Operand::k), &v = view(Operand::v);
    if (has(Operand::rounded_dq)) {
      const View& rounded = view(Operand::rounded_dq);
      if (!tensor(rounded, rows(q), heads(q), width(q))) return "writes a rounded_dq that does not fit its q";
      if (!nominal(rounded) || !wide(view(Operand::dq))) return wrong_role;
      if (mode(Operand::rounded_dq) != WriteMode::store) return "must write rounded_dq with store";
    }
    if (!has(Operand::rounded_dk)) return nullptr;
    const View &dk = view(Operand::rounded_dk), &dv = view(Operand::rounded_dv);
    if (!tensor(dk, rows(k), heads(k), width(k)) || !tensor(dv, rows(v), heads(v), width(v)))
      return "writes a rounded_dk or rounded_dv that does not fit its k and v";
    if (!nominal(dk) || !nominal(dv) || !wide(view(Operand::dk)) || !wide(view(Operand::dv)))
      return wrong_role;
    for (const Operand each : {Operand::dk, Operand::rounded_dk, Operand::rounded_dv})
      if (mode(each) != WriteMode::store) return "must write rounded_dk and rounded_dv, and dk, with store";
    return nullptr;
  }

  // Bias, keep and dbias: one form for all that are there.
  const char* pair_mask() const {
    const View &q = view(Operand::q), &k = view(Operand::k);
    const bool placed = op_.bias != BiasForm::none, full = op_.columns.count > 0;
    std::int64_t columns = 0, width_needed = 0;
    for (const RowRange& r : plan_.columns_of(op_)) {
      // A query may stand before the first key.
      if (r.begin < (placed ? -most_extent : 0) || r.count < 0 || r.step < 0 || r.begin > most_extent ||
          r.count > most_extent || (r.count > 1 && r.step > most_extent / r.count))
        return "names columns that cannot be";
      columns += r.count;
      if (r.count > 0) width_needed = std::max(width_needed, r.begin + (r.count - 1) * r.step + 1);
      if (columns > most_extent) return "names columns that cannot be";
    }
    if (placed) {
      if (columns != rows(k) + rows(q)) return "does not name one position for each row of its k and q views";
      return bias_table();
    }
    if (has(Operand::bias_table) || has(Operand::dbias_table))
      return "has a table of a bias that it does not have";
    if (full && columns != rows(k)) return "does not name one column for each row of its k view";
    std::int32_t columns_of_all = -1;
    for (const Operand operand : {Operand::bias, Operand::keep, Operand::dbias}) {
      if (!has(operand)) continue;
      const View& v = view(operand);
      if (full ? !tensor(v, rows(q), heads(q), width(v)) || width(v) < width_needed
               : !tensor(v, rows(k), heads(k), 1))
        return "has a bias or keep mask of another shape than its pairs, or its keys";
      if (columns_of_all >= 0 && width(v) != columns_of_all)
        return "has a bias and a keep mask of different widths";
      columns_of_all = width(v);
      if (operand != Operand::dbias && !nominal(v)) return wrong_role;
      if (operand == Operand::dbias && mode(operand) != WriteMode::store && mode(operand) != WriteMode::add)
        return "must write dbias with store or add";
    }
    if (columns_of_all < 0 && full) return "names columns of nothing";
    return has(Operand::dbias) && !has(Operand::bias) ? "has a gradient of a bias that it does not have"
                                                      : nullptr;
  }

  const char* bias_table() const {
    for (const Operand operand : {Operand::bias, Operand::keep, Operand::dbias})
      if (has(operand)) return "has a stored bias beside one of positions";
    const bool buckets = op_.bias == BiasForm::buckets;
    if (has(Operand::bias_table) != buckets || (has(Operand::dbias_table) && !buckets))
      return "has a table of a bias that it does not have, or none of one that it has";
    for (const Operand operand : {Operand::bias_table, Operand::dbias_table}) {
      if (!has(operand)) continue;
      const View& v = view(operand);
      if (!tensor(v, 1, heads(view(Operand::q)), width(v)))
        return "has a table that is not a row for each query head";
      if (!wide(v)) return wrong_role;
      if (width(v) != width(view(Operand::bias_table))) return "has tables of different widths";
    }
    if (has(Operand::dbias_table) && mode(Operand::dbias_table) != WriteMode::add)
      return "must write dbias_table with add";
    return nullptr;
  }

  const char* sink_gradient() const {
    const View &sink = view(Operand::sink), &lse = view(Operand::lse), &delta = view(Operand::delta),
               &dsink = view(Operand::dsink);
    if (!tensor(sink, 1, heads(sink), 1) || !tensor(dsink, 1, heads(sink), 1) ||
        !tensor(lse, rows(lse), heads(sink), 1) || !tensor(delta, rows(lse), heads(sink), 1))
      return wrong_shape;
    if (!wide(sink) || !wide(dsink) || !wide(lse) || !wide(delta)) return wrong_role;
    return all_modes(WriteMode::store) ? nullptr : wrong_mode;
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
    const View &dout = view(Operand::dout), &out = view(Operand::out), &delta = view(Operand::delta);
    const std::int64_t n = rows(dout);
    if (!tensor(dout, n, heads(dout), width(dout)) || !tensor(out, n, heads(dout), width(dout)) ||
        !tensor(delta, n, heads(dout), 1))
      return wrong_shape;
    if (!nominal(dout) || !nominal(out) || !wide(delta)) return wrong_role;
    return all_modes(WriteMode::store) ? nullptr : wrong_mode;
  }

  // With part_out and a written lse: incremental. Without part_out: LSEs are folded. With lse read: part_out
  // is rescaled to it.
  const char* merge() const {
    const View &part_lse = view(Operand::part_lse),
               &first = has(Operand::part_out) ? view(Operand::part_out) : part_lse;
    const std::int64_t n = rows(first);
    const std::int32_t h = heads(first), w = width(first);
    const auto is_lse = [&](const View& v) { return tensor(v, n, h, 1) && wide(v); };
    if (!has(Operand::part_out)) {
      if (!is_lse(part_lse) || !is_lse(view(Operand::lse)))
        return "folds LSEs of different shapes, or not wide";
      return all_modes(WriteMode::merge) ? nullptr : "must write with merge";
    }
    const bool fits = tensor(first, n, h, w) && is_lse(part_lse) && tensor(view(Operand::out), n, h, w) &&
                      is_lse(view(Operand::lse));
    if (op_.writes.count == 2) {
      if (!fits) return "merges results of different shapes, or LSEs that are not wide";
      return all_modes(WriteMode::merge) ? nullptr : "must write with merge";
    }
    if (!fits) return "rescales a result of another shape, or LSEs that are not wide";
    return all_modes(WriteMode::store) || all_modes(WriteMode::add) ? nullptr
                                                                    : "must write with store or add";
  }

  const char* pair() const {
    const View &from = view(Operand::from), &into = view(Operand::into);
    if (!same_shape(from, into)) return wrong_shape;
    if (op_.kind == OpKind::copy && buffer(from).role != buffer(into).role)
      return "copies between different dtypes";
    if (op_.kind == OpKind::maximum && buffer(from).role != buffer(into).role) return wrong_role;
    const WriteMode mode = op_.kind == OpKind::add       ? WriteMode::add
                           : op_.kind == OpKind::maximum ? WriteMode::max
                                                         : WriteMode::store;
    return all_modes(mode) ? nullptr : wrong_mode;
  }

  const char* all_reduce() const {
    const View &from = view(Operand::from), &into = view(Operand::into);
    if (op_.reduction > Reduction::max) return "reduces in a way that is unknown";
    if (!same_shape(from, into)) return "reads and writes different shapes";
    if (buffer(from).role != buffer(into).role) return wrong_role;
    if (plane_cut(buffer(from), from) != plane_cut(buffer(into), into))
      return "reads and writes with different planes";
    if (!nest_alike(buffer(from), buffer(into), rows(from), heads(from)))
      return "reads and writes in different layouts";
    return all_modes(WriteMode::store) ? nullptr : wrong_mode;
  }

  // Every peer contributes to the same views, in the same order.
  const char* reduce_scatter() const {
    std::map<int, std::vector<std::uint32_t>> received;
    for (const Part& p : plan_.parts_of(op_))
      if (!p.send) received[p.peer].push_back(p.view);
    if (received.empty()) return nullptr;
    const auto same = [&](std::uint32_t a, std::uint32_t b) {
      return a == b || same_elements(plan_, plan_.views[a], plan_.views[b]);
    };
    const std::vector<std::uint32_t>& first = received.begin()->second;
    for (const auto& [peer, views] : received)
      if (!std::ranges::equal(views, first, same))
        return "does not sum the same views, in the same order, of every peer";
    for (std::size_t i = 0; i < first.size(); ++i)
      for (std::size_t j = i + 1; j < first.size(); ++j)
        if (same(first[i], first[j])) return "sums two parts of one peer into one view";
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
