// States of linear attention in the symbolic run: state, scan and combine; see check/linear.hpp.
#include <algorithm>
#include <ranges>

#include "check/linear.hpp"

namespace cplab::checking {

// The states of chunks' own tokens, and what the chunks do to states that pass.
void LinearStep::own_states() {
  Written* const of_queries = find_written(Operand::dstate);
  Written& into = of_queries ? *of_queries : *find_written(Operand::state);
  Written* const transition = find_written(Operand::transition);
  for (const Chunk& chunk : chunks()) {
    const std::optional<Interval> t = tokens(chunk);
    MaybeState own;
    if (t) own = State{set_of(*t), of_queries ? t->begin : t->end};
    into.runs.push_back(state_run(chunk.state, own, of_queries ? Holds::dstate : Holds::state));
    if (!transition) continue;
    Run run =
        state_run(chunk.state, t ? MaybeState(State{set_of(*t), t->end}) : std::nullopt, Holds::transition);
    if (t && chunk.count == 0) {  // the identity, not zero
      run.value.holds = Holds::transition;
      run.value.head_shift = op_.head_begin;
    }
    transition->runs.push_back(run);
  }
  for (Written& w : written_) write_states(w, false);
}

// In place: own states become what the run of chunks holds before (behind) each.
void LinearStep::scan() {
  const Operand operand = op_.reverse ? Operand::dstate : Operand::state;
  Written* const in_place = find_written(operand);  // null: the sums alone
  Written* const final_state = find_written(Operand::final_state);
  const Holds holds = op_.reverse ? Holds::dstate : Holds::state;
  Held before{operand, in_place ? in_place->box : find(operand)->box, {}};
  contents_.read(site_.rank, *before.box, heads_, before.runs);
  std::vector<MaybeState> totals(
      final_state ? static_cast<std::size_t>(final_state->box->rows / problem_.head_size) : 0, State{});
  MaybeState run = State{};
  // Both are at the edge that the sum lies at; reports what does not fit.
  const auto sum = [&](const Box& box, const MaybeState& x, std::int64_t x_edge, const MaybeState& y,
                       std::int64_t y_edge) -> MaybeState {
    if (!x || !y) return {};
    Run a = state_run(0, x, holds), b = state_run(0, y, holds);
    a.value.edge = x_edge, b.value.edge = y_edge;
    if (x->set == 0 || y->set == 0) return x->set == 0 ? State{y->set, y_edge} : State{x->set, x_edge};
    const Value v = contents_.join_states(site_, box, a, b);
    return v.holds == holds ? MaybeState(State{v.set, v.edge}) : std::nullopt;
  };
  const auto step = [&](const Chunk& chunk) {
    const MaybeState own = state(before, chunk.state, holds);
    if (in_place) {
      in_place->runs.push_back(state_run(chunk.state, run, holds));
      const std::int64_t behind = op_.reverse ? -chunk.count : chunk.count;
      if (run && own && run->set != 0 && own->set != 0 && same_sequence(run->set, own->set) &&
          run->edge + behind != own->edge) {
        wrong(*in_place->box, wrong_exponent(*run, *own, chunk.count));
        run.reset();
      }
      run = sum(*in_place->box, run, run ? run->edge + behind : 0, own, own ? own->edge : 0);
    }
    const std::int32_t number = op_.reverse ? chunk.left : chunk.right;
    if (!final_state || number < 0) return;
    MaybeState& total = totals[static_cast<std::size_t>(number)];
    const std::int64_t more = op_.reverse ? -chunk.left_exponent : chunk.right_exponent;
    total = sum(*final_state->box, own, own ? own->edge + more : 0, total, total ? total->edge : 0);
  };
  // `resets` cuts before its chunk in the order of the list.
  const auto list = chunks();
  if (op_.reverse) {
    for (const Chunk& chunk : std::views::reverse(list)) {
      step(chunk);
      if (chunk.resets) run = State{};
    }
  } else {
    for (const Chunk& chunk : list) {
      if (chunk.resets) run = State{};
      step(chunk);
    }
  }
  if (in_place) write_states(*in_place, false);
  if (!final_state) return;
  for (std::size_t i = 0; i < totals.size(); ++i)
    final_state->runs.push_back(state_run(static_cast<std::int64_t>(i), totals[i], holds));
  write_states(*final_state, true);
}

std::string LinearStep::wrong_exponent(const State& from, const State& into, std::int64_t count) const {
  const std::int64_t right = op_.reverse ? from.edge - into.edge : into.edge - from.edge;
  return "passes the state of " + contents_.tokens_of(from.set) + " on by " + std::to_string(count) +
         " tokens and adds it to that of " + contents_.tokens_of(into.set) + "; " +
         (right < 0 ? "no exponent would be right, it lies behind"
                    : "exponent " + std::to_string(right) + " would be right");
}

// What the operation's transition is of; false, and reported, where it is none of its heads and columns.
bool LinearStep::is_transition(const Value& t) const {
  const Held& held = *find(Operand::transition);
  if (t.holds == Holds::unknown) return false;
  if (t.holds == Holds::nothing)
    return wrong(*held.box, "reads " + place(*held.box) + ", part of which nobody has written",
                 FindingKind::uninitialised);
  if (t.holds != Holds::transition)
    return wrong(*held.box, "reads " + std::string(name(t.holds)) + " where it needs a transition");
  return (t.head_shift == op_.head_begin && t.width_shift == 0) ||
         wrong(*held.box, "passes on by a transition of other heads or columns");
}

// The edge that a state comes to; nothing where the transition is not of the tokens that follow.
std::optional<std::int64_t> LinearStep::edge_behind(const Value& from, const Run* transition,
                                                    const Chunk& chunk) const {
  if (!transition) return op_.reverse ? from.edge - chunk.count : from.edge + chunk.count;
  const Held& held = *find(Operand::transition);
  const Value& t = transition->value;
  const auto state = [&] { return "state of " + contents_.tokens_of(from.set); };
  if (!is_transition(t)) return {};
  if (t.set == 0) return from.edge;
  const Interval passed = contents_.sets_[t.set].front();
  const std::int64_t begins = op_.reverse ? passed.end : passed.begin,
                     ends = op_.reverse ? passed.begin : passed.end;
  if (begins == from.edge && same_sequence(t.set, from.set)) return ends;
  wrong(*held.box, "passes the " + state() + ", which lies before " + contents_.edge_in(from.set, from.edge) +
                       ", through the transition of " + contents_.tokens_of(t.set));
  return {};
}

// Two transitions: of the tokens of `from`, then of those of the operation's, as one. T2 T1 is what tokens 1
// do before tokens 2; factors of columns are the same in either order.
Value LinearStep::composed(const Run& from, const Run* transition, const Chunk& chunk) const {
  const Box& target = *written_.front().box;
  const auto refuse = [&](const std::string& what) {
    wrong(target, what);
    return Value::unknown();
  };
  if (written_.front().mode != WriteMode::store) return refuse("adds up transitions, which are composed");
  const bool commutes = problem_.transition != Transition::matrix;
  if (op_.reverse && !commutes)
    return refuse("composes transitions from right to left; they are of tokens in order");
  Value zero;
  zero.holds = Holds::zero;
  if (chunk.resets) return zero;
  if (!transition) return refuse("decays a transition by a slope");
  Value first = from.value;
  const Value& then = transition->value;
  if (!is_transition(then)) return Value::unknown();
  if (first.head_shift != op_.head_begin) return refuse("composes transitions of different heads");
  if (!transition->same_rows(from)) return refuse("composes different rows of transitions");
  if (then.set == 0) return first;
  const auto begin_of = [&](std::uint32_t set) { return contents_.sets_[set].front().begin; };
  const auto end_of = [&](std::uint32_t set) { return contents_.sets_[set].back().end; };
  const auto follows = [&](std::uint32_t before, std::uint32_t behind) {
    return same_sequence(before, behind) && end_of(before) == begin_of(behind);
  };
  if (first.set != 0 && !follows(first.set, then.set) && !(commutes && follows(then.set, first.set)))
    return refuse("composes the transition of " + contents_.tokens_of(first.set) + " with that of " +
                  contents_.tokens_of(then.set) + ", which do not follow them");
  const auto both = contents_.sets_.join(first.set, then.set);
  if (!both) return refuse("composes transitions that share tokens");
  first.set = *both;
  first.edge = end_of(*both);
  return first;
}

// What `into` holds afterwards, for rows that have one content each.
Value LinearStep::passed_on(const Run& from, const Run& into, const Run* transition, const Chunk& chunk,
                            Holds wanted) const {
  const Box &source = *find(Operand::from)->box, &target = *written_.front().box;
  const bool adds = written_.front().mode == WriteMode::add;
  const Value &x = from.value, &y = into.value;
  if (x.holds == Holds::transition) return composed(from, transition, chunk);
  const auto refuse = [&](const Box& box, const std::string& what, FindingKind kind = FindingKind::coverage) {
    wrong(box, what, kind);
    return Value::unknown();
  };
  const auto test = [&](const Value& v, const Box& box) {  // true: nothing is wrong with it
    if (v.holds == Holds::unknown) return false;
    if (v.holds == Holds::zero) return true;
    if (v.holds == Holds::nothing)
      return wrong(box, "reads " + place(box) + ", part of which nobody has written",
                   FindingKind::uninitialised);
    if (v.holds != wanted)
      return wrong(box, "reads " + std::string(name(v.holds)) + " in " + place(box) + " where it needs " +
                            std::string(name(wanted)));
    return v.head_shift == op_.head_begin ||
           wrong(box, "passes on states of other heads than the operation says");
  };
  if (!test(x, source) || (adds && !test(y, target))) return Value::unknown();
  Value zero;
  zero.holds = Holds::zero;
  const Value unchanged = adds ? y : zero;
  if (chunk.resets) {
    if (x.located() && unchanged.located() && same_sequence(x.set, y.set))
      return refuse(target, "resets between the state of " + contents_.tokens_of(x.set) + " and that of " +
                                contents_.tokens_of(y.set) + ", which are one sequence");
    return unchanged;
  }
  if (!x.located()) return unchanged;
  const std::optional<std::int64_t> edge = edge_behind(x, transition, chunk);
  if (!edge) return Value::unknown();
  if (transition && !transition->same_rows(from))
    return refuse(*find(Operand::transition)->box, "takes other rows of a transition than of the state");
  Run moved = from;
  moved.value.edge = *edge;
  if (!unchanged.located()) return moved.value;
  if (same_sequence(x.set, y.set) && *edge != y.edge && !transition)
    return refuse(target, wrong_exponent({x.set, x.edge}, {y.set, y.edge}, chunk.count));
  return contents_.join_states(site_, target, moved, into);
}

void LinearStep::combine() {
  Written& into = written_.front();
  const Held &from = *find(Operand::from), *transition = find(Operand::transition);
  const Holds wanted = op_.reverse ? Holds::dstate : Holds::state;
  const std::int64_t rows = into.box->rows / std::ssize(chunks());
  Runs before;
  if (into.mode == WriteMode::add)
    contents_.read(site_.rank, *into.box, heads_, before);
  else
    before.push_back({0, into.box->rows, 0, 1, {}});
  for (const Chunk& chunk : chunks()) {
    const std::int64_t first = chunk.state * rows;
    const bool whole = transition && transition->box->width() > 1;  // it mixes the rows of the state
    if (whole) {
      const HeldState state = held_state(from.runs, first, rows, op_.head_begin);
      const HeldState t = held_state(transition->runs, first, rows, op_.head_begin);
      const auto bad = [](const HeldState& s) {
        return s.kind == HeldState::Kind::mixed || s.kind == HeldState::Kind::misplaced;
      };
      if (bad(state) || bad(t)) {
        wrong(bad(state) ? *from.box : *transition->box,
              "reads state " + std::to_string(chunk.state) +
                  ", whose D rows are of different states or lie at other places");
        into.runs.push_back({first, rows, 0, 1, Value::unknown()});
        continue;
      }
    }
    zip(clipped_runs(from.runs, first, rows), clipped_runs(before, first, rows),
        [&](const Run& a, const Run& b, std::int64_t at, std::int64_t count) {
          const auto put = [&](const Run& x, const Run& y, const Run* t) {
            Run result = y.value.located() ? y : x;
            result.first = x.first, result.count = x.count;
            result.value = passed_on(x, y, t, chunk, wanted);
            into.runs.push_back(result);
          };
          if (!transition) return put(a, b, nullptr);
          for (const Run& t : clipped_runs(transition->runs, at, count)) {
            const std::int64_t end = t.first + t.count;
            put(clipped(a, t.first, end), clipped(b, t.first, end), &t);
          }
        });
  }
  write_states(into, false);
}

}  // namespace cplab::checking
