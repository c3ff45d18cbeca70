// Shapes, roles, modes and chunks of the operations of linear attention, as plan.hpp lists them.
#include "plan/structure_operands.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "plan/structure.hpp"

namespace cplab {
namespace {

constexpr const char* wrong_state_shape =
    "has operands whose shapes do not fit each other, or not one slot and plane";
constexpr const char* wrong_chunk = "has a chunk outside its views";

class Linear {
 public:
  Linear(const RankPlan& plan, const Operation& op, const std::vector<std::int64_t>& rows)
      : plan_(plan), op_(op), view_rows_(rows) {}

  const char* test() {
    using enum Operand;
    if (op_.kind == OpKind::combine) return combine();
    find_sizes();
    if (heads_ < 1 || op_.head_end - op_.head_begin != heads_ || op_.head_begin < 0)
      return "names heads that its views do not have";
    for (const Access& a : plan_.reads(op_))
      if (const char* what = operand(a)) return what;
    for (const Access& a : plan_.writes(op_))
      if (const char* what = operand(a)) return what;
    if (has(beta) && !has(log_decay)) return "has beta without log_decay";
    if (keys_ < 1 || values_ < 1) return wrong_state_shape;
    if (has(dlog_decay) && !has(log_decay)) return "has dlog_decay without log_decay";
    if (has(dbeta) && !has(beta)) return "has dbeta without beta";
    if (op_.kind == OpKind::state && has(dstate) && has(beta) && !has(k))
      return "lacks the keys, which states of queries pass";
    if (const char* what = modes()) return what;
    if (op_.kind == OpKind::inter && !has(state) && !has(carry) && !has(dstate) && !has(dcarry))
      return "has no state to multiply with";
    return chunks();
  }

 private:
  bool has(Operand operand) const { return plan_.find(op_, operand) != nullptr; }
  const View& view(Operand operand) const { return plan_.view_of(op_, operand); }
  std::int64_t rows(const View& v) const {
    return view_rows_[static_cast<std::size_t>(&v - plan_.views.data())];
  }
  static std::int32_t heads(const View& v) { return v.head_end - v.head_begin; }
  static std::int32_t width(const View& v) { return v.width_end - v.width_begin; }
  const Buffer& buffer(const View& v) const { return plan_.buffers[v.buffer]; }

  // Rows of tokens, heads, D and E, from the operands that have them.
  void find_sizes() {
    using enum Operand;
    for (const Operand o : {q, k, v, dout, out, dq, dk, dv, state, dstate})
      if (has(o)) {
        heads_ = heads(view(o));
        if (o != state && o != dstate) tokens_ = rows(view(o));
      }
    for (const Operand o : {q, k, dq, dk})
      if (has(o)) keys_ = width(view(o));
    for (const Operand o : {v, dout, out, dv, state, dstate, carry, dcarry})
      if (has(o)) values_ = width(view(o));
    if (op_.kind == OpKind::scan) keys_ = problem_keys();
  }
  // A scan has states alone: its chunks number them.
  std::int64_t problem_keys() const {
    std::int64_t states = 1;
    for (const Chunk& c : plan_.chunks_of(op_)) states = std::max<std::int64_t>(states, c.state + 1);
    return rows(view(has(Operand::state) ? Operand::state : Operand::dstate)) / states;
  }

  const char* operand(const Access& a) const {
    using enum Operand;
    const View& x = plan_.views[a.view];
    if (x.slot_end - x.slot_begin != 1 || plane_cut(buffer(x), x) != 0 || heads(x) != heads_)
      return wrong_state_shape;
    const auto is = [&](bool fits, Role role) {
      return !fits ? wrong_state_shape : buffer(x).role != role ? wrong_role : nullptr;
    };
    const bool per_token = rows(x) == tokens_;
    switch (a.operand) {
      case q:
      case k: return is(per_token && width(x) == keys_, Role::nominal);
      case v:
      case dout: return is(per_token && width(x) == values_, Role::nominal);
      case dq:
      case dk: return per_token && width(x) == keys_ ? nullptr : wrong_state_shape;
      case out:
      case dv: return per_token && width(x) == values_ ? nullptr : wrong_state_shape;
      case log_decay:
      case dlog_decay: {
        // One gate for each column, or one for all of them; a gradient like its gates.
        const bool fits = width(x) == keys_ || width(x) == 1,
                   alike = !has(log_decay) || width(x) == width(view(log_decay));
        return is(per_token && fits && alike, Role::wide);
      }
      case beta:
      case dbeta: return is(per_token && width(x) == 1, Role::wide);
      case transition: return is(rows(x) % keys_ == 0 && (width(x) == keys_ || width(x) == 1), Role::wide);
      default: return is(keys_ > 0 && rows(x) % keys_ == 0 && width(x) == values_, Role::wide);
    }
  }

  const char* modes() const {
    using enum Operand;
    const auto stored_or_added = [](WriteMode mode) {
      return mode == WriteMode::store || mode == WriteMode::add;
    };
    for (const Access& a : plan_.writes(op_)) {
      switch (a.operand) {
        case out:
        case dq:
        case dk:
        case dv:
          if (!stored_or_added(a.mode) || a.mode != plan_.writes(op_).front().mode) return wrong_mode;
          break;
        case state:
        case dstate:
          if (a.mode != (op_.kind == OpKind::scan ? WriteMode::add : WriteMode::store)) return wrong_mode;
          break;
        default:
          if (a.mode != WriteMode::store) return wrong_mode;
      }
    }
    return nullptr;
  }

  std::int64_t states(Operand operand) const {
    return has(operand) ? rows(view(operand)) / keys_ : most_extent;
  }

  const char* chunks() const {
    using enum Operand;
    const std::int64_t own = std::min({states(state), states(dstate), states(transition)});
    const bool state_for_each =
        op_.kind == OpKind::state || op_.kind == OpKind::scan || has(state) || has(dstate);
    const bool reversed = op_.kind == OpKind::local_backward || op_.reverse;
    const std::int64_t left = std::min(states(carry), reversed ? states(final_state) : most_extent),
                       right = std::min(states(dcarry), reversed ? most_extent : states(final_state));
    for (const Chunk& c : plan_.chunks_of(op_)) {
      const bool rows_fit =
          c.row >= 0 && (op_.kind == OpKind::scan || (c.row <= tokens_ && c.count <= tokens_ - c.row));
      if (!rows_fit || c.count < 0 || c.count > most_extent) return wrong_chunk;
      if (c.state < (state_for_each ? 0 : -1) || (state_for_each && c.state >= own))
        return "has a chunk whose state is not in its views";
      if (c.left < -1 || c.left >= left || c.right < -1 || c.right >= right)
        return "has a chunk with an edge whose state is not in its views";
      if (c.left_exponent < 0 || c.right_exponent < 0 || c.left_exponent > most_extent ||
          c.right_exponent > most_extent)
        return "has a chunk with a senseless exponent";
    }
    if (const char* what = whole_pieces()) return what;
    return written_once();
  }

  // Transitions are no power of a slope: nothing can be said about tokens between an edge and a chunk. And a
  // final state is that of a whole piece, whatever the transition, and of all chunks of the operation.
  const char* whole_pieces() const {
    using enum Operand;
    if (op_.kind != OpKind::local && op_.kind != OpKind::local_backward) return nullptr;
    const bool of_queries = op_.kind == OpKind::local_backward, final = has(final_state),
               apart = final || has(log_decay);
    const bool left = (has(carry) && apart) || (of_queries && final),
               right = of_queries ? has(dcarry) && apart : final;
    for (const Chunk& c : plan_.chunks_of(op_)) {
      if (left && c.left >= 0 && c.left_exponent != 0)
        return "has a chunk that does not begin at the edge it names";
      if (right && c.right >= 0 && c.right_exponent != 0)
        return "has a chunk that does not end at the edge it names";
    }
    return nullptr;
  }

  // No two chunks write one state, or the same rows.
  const char* written_once() const {
    using enum Operand;
    const auto list = plan_.chunks_of(op_);
    const auto differ = [&](std::int32_t Chunk::*number) {
      std::vector<std::int32_t> named;
      for (const Chunk& c : list)
        if (c.*number >= 0) named.push_back(c.*number);
      std::ranges::sort(named);
      return std::ranges::adjacent_find(named) == named.end();
    };
    if (op_.kind == OpKind::state || op_.kind == OpKind::scan)
      return differ(&Chunk::state) ? nullptr : "has two chunks of one state";
    if (has(final_state) && !differ(op_.kind == OpKind::local_backward ? &Chunk::left : &Chunk::right))
      return "writes one final state twice";
    std::vector<std::pair<std::int64_t, std::int64_t>> rows;
    for (const Chunk& c : list)
      if (c.count > 0) rows.emplace_back(c.row, c.row + c.count);
    std::ranges::sort(rows);
    for (std::size_t i = 1; i < rows.size(); ++i)
      if (rows[i].first < rows[i - 1].second) return "has two chunks that share a row";
    return nullptr;
  }

  // Every state of the views is named once; the views may hold some of the D rows of every state.
  const char* combine() const {
    const View &from = view(Operand::from), &into = view(Operand::into);
    const auto list = plan_.chunks_of(op_);
    const auto n = static_cast<std::int64_t>(list.size());
    const auto one = [&](const View& x) {
      return x.slot_end - x.slot_begin == 1 && plane_cut(buffer(x), x) == 0;
    };
    if (!one(from) || !one(into) || rows(from) != rows(into) || heads(from) != heads(into) ||
        width(from) != width(into) || width(from) < 1 || n == 0 || rows(from) < n || rows(from) % n != 0)
      return wrong_state_shape;
    if (buffer(into).role != Role::wide) return wrong_role;
    if (op_.head_end - op_.head_begin != heads(from) || op_.head_begin < 0)
      return "names heads that its views do not have";
    if (has(Operand::transition)) {
      const View& t = view(Operand::transition);
      if (!one(t) || heads(t) != heads(from) || rows(t) != rows(from) ||
          (width(t) != 1 && width(t) != rows(from) / n))
        return wrong_state_shape;
      if (buffer(t).role != Role::wide) return wrong_role;
    }
    std::vector<char> named(list.size(), 0);
    for (const Chunk& c : list) {
      if (c.state < 0 || c.state >= n || named[static_cast<std::size_t>(c.state)]++)
        return "does not name each of its states once";
      if (c.row < 0 || c.left < -1 || c.right < -1) return wrong_chunk;
      if (std::min({c.count, c.left_exponent, c.right_exponent}) < 0 ||
          std::max({c.count, c.left_exponent, c.right_exponent}) > most_extent)
        return "has a chunk with a senseless exponent";
    }
    const WriteMode mode = plan_.mode_of(op_, Operand::into);
    return mode == WriteMode::store || mode == WriteMode::add ? nullptr : wrong_mode;
  }

  const RankPlan& plan_;
  const Operation& op_;
  const std::vector<std::int64_t>& view_rows_;
  std::int64_t tokens_ = 0;
  std::int32_t heads_ = 0;
  std::int64_t keys_ = 0, values_ = 0;
};

}  // namespace

const char* wrong_linear_operands(const RankPlan& plan, const Operation& op,
                                  const std::vector<std::int64_t>& view_rows) {
  return Linear(plan, op, view_rows).test();
}

}  // namespace cplab
