// Rows of linear attention in the symbolic run: local, local_backward and inter; see check/linear.hpp.
#include <algorithm>

#include "check/linear.hpp"

namespace cplab::checking {
namespace {

bool is_of_tokens(Operand operand) {
  using enum Operand;
  return operand == q || operand == k || operand == v || operand == dout;
}

Holds result_of(Operand operand) {
  switch (operand) {
    case Operand::out: return Holds::out;
    case Operand::dq: return Holds::dq;
    case Operand::dk: return Holds::dk;
    case Operand::dv: return Holds::dv;
    case Operand::dlog_decay: return Holds::dlog_decay;
    default: return Holds::dbeta;
  }
}

}  // namespace

bool LinearStep::enters_at(const Held& held, const State& s, const Chunk& chunk, const Interval& tokens,
                           bool of_queries) const {
  const bool carry = held.operand == Operand::carry || held.operand == Operand::dcarry;
  const std::int64_t exponent = !carry ? 0 : of_queries ? chunk.right_exponent : chunk.left_exponent;
  const std::int64_t edge = of_queries ? tokens.end : tokens.begin,
                     wanted = of_queries ? edge + exponent : edge - exponent;
  const auto what = [&] {
    return "reads in " + place(*held.box) + " the state of " + contents_.tokens_of(s.set);
  };
  if (sequence_of(s.set) != contents_.tokens_.origin(tokens.begin).sequence)
    return wrong(*held.box, what() + " for " + chunk_name(tokens) + ", which is of another sequence");
  if (s.edge == wanted) return true;
  const std::int64_t right = of_queries ? s.edge - edge : edge - s.edge;
  std::string text = what() + ", which lies before " + contents_.edge_in(s.set, s.edge) + ", for " +
                     chunk_name(tokens) + ", ";
  if (!carry || right < 0)
    text += "which needs it before " + contents_.edge_in(s.set, wanted);
  else
    text += "with exponent " + std::to_string(exponent) + "; " + std::to_string(right) + " would be right";
  return wrong(*held.box, text);
}

LinearStep::MaybeState LinearStep::entering(const Chunk& chunk, const Interval& tokens,
                                            bool of_queries) const {
  State sum;
  const auto take = [&](const Held* held, std::int32_t number) {
    if (!held || number < 0) return true;
    const MaybeState s = state(*held, number, of_queries ? Holds::dstate : Holds::state);
    if (!s || s->set == 0) return s.has_value();
    if (tokens.begin < tokens.end && !enters_at(*held, *s, chunk, tokens, of_queries)) return false;
    if (sum.set != 0 && (sum.edge != s->edge || !same_sequence(sum.set, s->set)) &&
        tokens.begin == tokens.end)
      return wrong(*held->box, "passes states on together that lie at different edges");
    const auto both = contents_.sets_.join(sum.set, s->set);
    if (!both)
      return wrong(*held->box, "reads the state of " + contents_.tokens_of(s->set) + " beside that of " +
                                   contents_.tokens_of(sum.set) + ": tokens count twice");
    sum = {*both, s->edge};
    return true;
  };
  if (!take(find(of_queries ? Operand::dstate : Operand::state), chunk.state)) return {};
  if (!take(find(of_queries ? Operand::dcarry : Operand::carry), of_queries ? chunk.right : chunk.left))
    return {};
  return sum;
}

// What depends on the states of both sides at once is no sum over parts of them: it needs all tokens of the
// sequence before the chunk, and all behind it.
bool LinearStep::has_all(const Interval& tokens, const State& left, const State& right) const {
  const Tokens::Origin origin = contents_.tokens_.origin(tokens.begin);
  const std::uint32_t before = set_of({origin.first, tokens.begin}),
                      behind = set_of({tokens.end, origin.first + origin.length});
  const auto test = [&](const State& state, std::uint32_t all, const char* side, Operand own, Operand carry) {
    if (state.set == all) return true;
    const Held* held = find(own) ? find(own) : find(carry);
    return wrong(held ? *held->box : *written_.front().box,
                 "computes gradients of transitions of " + chunk_name(tokens) + " from the state of " +
                     (state.set == 0 ? "no tokens" : contents_.tokens_of(state.set)) + " at its " + side +
                     " edge, but needs that of " + (all == 0 ? "no tokens" : contents_.tokens_of(all)));
  };
  return test(left, before, "left", Operand::state, Operand::carry) &&
         test(right, behind, "right", Operand::dstate, Operand::dcarry);
}

void LinearStep::write_rows_of(const Chunk& chunk, const std::optional<Interval>& tokens,
                               const MaybeState& left, const MaybeState& right) {
  const auto source = std::ranges::find_if(held_, is_of_tokens, &Held::operand);
  const bool matrix = problem_.transition == Transition::matrix;
  const bool of_both_sides = op_.kind == OpKind::local_backward &&
                             (matrix || find_written(Operand::dlog_decay) || find_written(Operand::dbeta));
  const bool all_there = !of_both_sides || (tokens && left && right && has_all(*tokens, *left, *right));
  const std::uint32_t own = tokens && op_.kind != OpKind::inter ? set_of(*tokens) : 0;
  for (Written& w : written_) {
    if (w.operand == Operand::final_state) continue;
    const Holds holds = result_of(w.operand);
    const bool complete = holds == Holds::dlog_decay || holds == Holds::dbeta;
    const bool of_keys = holds == Holds::out || holds == Holds::dq;
    const MaybeState& entered = of_keys ? left : right;
    bool good = tokens && entered && (all_there || !(complete || (matrix && holds == Holds::dk)));
    const auto set = good ? contents_.sets_.join(own, complete ? 0 : entered->set) : std::nullopt;
    if (good && !set)
      good = wrong(*w.box, "covers tokens twice: " + chunk_name(*tokens) + " and the state of " +
                               contents_.tokens_of(entered->set));
    if (!good) {
      w.runs.push_back({chunk.row, chunk.count, 0, 1, Value::unknown()});
      continue;
    }
    for (Run run : clipped_runs(source->runs, chunk.row, chunk.count)) {
      run.value.holds = holds;
      run.value.set = complete ? 0 : *set;
      w.runs.push_back(run);
    }
  }
}

// The state that leaves a piece at its other edge: of its own tokens, and of what entered.
void LinearStep::write_final(Written& w, const Chunk& chunk, const std::optional<Interval>& tokens,
                             const MaybeState& entered) {
  const bool of_queries = op_.kind == OpKind::local_backward;
  const std::int32_t number = of_queries ? chunk.left : chunk.right;
  if (number < 0) return;
  MaybeState result = tokens ? entered : std::nullopt;
  const auto refuse = [&](const std::string& what) {
    wrong(*w.box, what);
    result.reset();
  };
  if (result && chunk.count > 0) {
    const auto all = contents_.sets_.join(set_of(*tokens), result->set);
    if (all)
      result = State{*all, of_queries ? tokens->begin : tokens->end};
    else
      refuse("covers tokens twice: " + chunk_name(*tokens) + " and the state of " +
             contents_.tokens_of(result->set));
  }
  w.runs.push_back(state_run(number, result, of_queries ? Holds::dstate : Holds::state));
}

void LinearStep::local() {
  for (const Chunk& chunk : chunks()) {
    const std::optional<Interval> t = tokens(chunk);
    const MaybeState left = t ? entering(chunk, *t, false) : std::nullopt,
                     right = t ? entering(chunk, *t, true) : std::nullopt;
    if (chunk.count > 0) write_rows_of(chunk, t, left, right);
    if (Written* w = find_written(Operand::final_state))
      write_final(*w, chunk, t, op_.kind == OpKind::local_backward ? right : left);
  }
  for (Written& w : written_) w.operand == Operand::final_state ? write_states(w, true) : write_rows(w);
}

}  // namespace cplab::checking
