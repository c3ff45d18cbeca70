// What the operations of linear attention share in the symbolic run: operands, tokens of chunks, states; see
// check/linear.hpp.
#include "check/linear.hpp"

#include <algorithm>
#include <initializer_list>

namespace cplab::checking {

Runs clipped_runs(const Runs& runs, std::int64_t first, std::int64_t count) {
  Runs result;
  const std::int64_t end = first + count;
  auto run = std::partition_point(runs.begin(), runs.end(),
                                  [&](const Run& r) { return r.first + r.count <= first; });
  for (; run != runs.end() && run->first < end; ++run)
    result.push_back(clipped(*run, std::max(run->first, first), std::min(run->first + run->count, end)));
  return result;
}

HeldState held_state(const Runs& runs, std::int64_t first, std::int64_t rows, std::int32_t head) {
  using enum HeldState::Kind;
  HeldState state;
  bool elsewhere = false, begun = false;
  for (const Run& run : clipped_runs(runs, first, rows)) {
    const Value& v = run.value;
    if (v.holds == Holds::unknown) return {unknown, v.holds};
    if (v.holds == Holds::nothing) return {nothing, v.holds};
    const bool of_tokens =
        v.holds == Holds::state || v.holds == Holds::dstate || v.holds == Holds::transition;
    if (!of_tokens && v.holds != Holds::zero) return {other, v.holds};
    if (of_tokens)
      elsewhere = elsewhere || v.head_shift != head || v.width_shift != 0 || run.id() != run.first - first ||
                  (run.step != 1 && run.count > 1);
    const HeldState next{of_tokens ? known : empty, v.holds, v.set, v.edge};
    if (begun && (next.kind != state.kind || next.holds != state.holds || next.set != state.set ||
                  next.edge != state.edge))
      return {mixed, v.holds};
    state = next;
    begun = true;
  }
  if (elsewhere) state.kind = misplaced;
  return state;
}

// ---- operands -----------------------------------------------------------------------------------

void LinearStep::run() {
  contents_.result_.flops[site_.rank] += flops();
  std::vector<Contents::HeadsOf> all;
  std::int32_t heads = 0;
  for (const Access& a : rank_.plan->reads(op_)) {
    held_.push_back({a.operand, &rank_.boxes[a.view], {}});
    all.push_back({held_.back().box, 1});
  }
  for (const Access& a : rank_.plan->writes(op_)) {
    const Box& box = rank_.boxes[a.view];
    std::uint32_t writer = none;
    for (const Written& w : written_)
      if (w.box->buffer == box.buffer) writer = w.writer;
    if (writer == none) writer = contents_.writer(site_, box);
    written_.push_back({a.operand, &box, a.mode, writer, {}});
    all.push_back({&box, 1});
    heads = box.heads();
  }
  if (std::ranges::all_of(written_, [](const Written& w) { return w.box->empty(); })) return;
  for (const Contents::Heads& h : contents_.cut_heads(site_.rank, all, heads)) {
    heads_ = h;
    for (Held& held : held_) {
      held.runs.clear();
      if (!held.box->empty()) contents_.read(site_.rank, *held.box, heads_, held.runs);
    }
    for (Written& written : written_) written.runs.clear();
    switch (op_.kind) {
      case OpKind::state: own_states(); break;
      case OpKind::scan: scan(); break;
      case OpKind::combine: combine(); break;
      case OpKind::convolve: convolve(); break;
      case OpKind::filter_gradient: filter_gradient(); break;
      default: local(); break;
    }
  }
}

const LinearStep::Held* LinearStep::find(Operand operand) const {
  const auto at = std::ranges::find(held_, operand, &Held::operand);
  return at == held_.end() ? nullptr : &*at;
}
LinearStep::Written* LinearStep::find_written(Operand operand) {
  const auto at = std::ranges::find(written_, operand, &Written::operand);
  return at == written_.end() ? nullptr : &*at;
}

// Reports; returns false, for whoever says that something is wrong.
bool LinearStep::wrong(const Box& box, const std::string& what, FindingKind kind) const {
  contents_.report(site_, kind, box, what);
  return false;
}

// ---- tokens of chunks ---------------------------------------------------------------------------

std::string LinearStep::chunk_name(const Interval& tokens) const {
  return "the chunk of " + contents_.tokens_of(set_of(tokens));
}

std::optional<LinearStep::Interval> LinearStep::tokens(const Held& held, Holds wanted,
                                                       const Chunk& chunk) const {
  std::optional<Interval> all;
  std::uint32_t sequence = 0;
  for (const Run& run : clipped_runs(held.runs, chunk.row, chunk.count)) {
    const Value& v = run.value;
    if (v.holds == Holds::unknown) return {};
    bool good = true;
    if (v.holds == Holds::nothing)
      good = wrong(*held.box, "reads " + place(*held.box) + ", part of which nobody has written",
                   FindingKind::uninitialised);
    else if (v.holds != wanted)
      good = wrong(*held.box, "reads " + std::string(name(v.holds)) + " in " + place(*held.box) +
                                  " where it needs " + std::string(name(wanted)));
    else if (v.head_shift != op_.head_begin || v.width_shift != 0)
      good = wrong(*held.box, "reads " + std::string(name(wanted)) + " of other heads or columns in " +
                                  place(*held.box) + " than the operation says");
    else if (run.step != 1 && run.count > 1)
      good = wrong(*held.box, "has a chunk of rows that are not consecutive tokens");
    if (!good) return {};
    contents_.tokens_.for_each(run.id(), run.count, [&](const Stretch& t) {
      if (!good) return;
      const auto rows = [&] { return contents_.tokens_.describe(t); };
      if (t.valid < t.count)
        good = wrong(*held.box, "has a chunk with padding rows, in " + rows());
      else if (all && t.sequence != sequence)
        good = wrong(*held.box, "has a chunk across sequences: " + rows() + " follow " +
                                    contents_.tokens_of(set_of(*all)));
      else if ((t.stride != 1 && t.count > 1) || (all && t.token != all->end))
        good = wrong(*held.box, "has a chunk of rows that are not consecutive tokens: " + rows());
      if (!all) all = Interval{t.token, t.token};
      all->end = t.token + t.count;
      sequence = t.sequence;
    });
    if (!good) return {};
  }
  return all;
}

std::optional<LinearStep::Interval> LinearStep::tokens(const Chunk& chunk) const {
  if (chunk.count == 0) return Interval{};
  constexpr std::pair<Operand, Holds> inputs[] = {
      {Operand::q, Holds::q},       {Operand::k, Holds::k},       {Operand::v, Holds::v},
      {Operand::dout, Holds::dout}, {Operand::beta, Holds::beta}, {Operand::log_decay, Holds::log_decay}};
  std::optional<Interval> first;
  Holds holds = Holds::nothing;
  for (const auto& [operand, wanted] : inputs) {
    const Held* held = find(operand);
    if (!held) continue;
    const std::optional<Interval> mine = tokens(*held, wanted, chunk);
    if (!mine) return {};
    if (!first) {
      first = mine;
      holds = wanted;
    } else if (!(*mine == *first)) {
      wrong(*held->box, "reads " + std::string(name(wanted)) + " of " + contents_.tokens_of(set_of(*mine)) +
                            " beside " + std::string(name(holds)) + " of " +
                            contents_.tokens_of(set_of(*first)));
      return {};
    }
  }
  return first;
}

// ---- states -------------------------------------------------------------------------------------

std::uint32_t LinearStep::sequence_of(std::uint32_t set) const {
  return contents_.tokens_.origin(contents_.sets_[set].front().begin).sequence;
}

LinearStep::MaybeState LinearStep::state(const Held& held, std::int32_t number, Holds wanted) const {
  using enum HeldState::Kind;
  const std::int64_t D = problem_.head_size;
  const HeldState found = held_state(held.runs, number * D, D, op_.head_begin);
  const auto where = [&] { return "state " + std::to_string(number) + " of " + place(*held.box); };
  switch (found.kind) {
    case unknown: return {};
    case nothing:
      wrong(*held.box, "reads " + where() + ", which nobody has written, or not all of it",
            FindingKind::uninitialised);
      return {};
    case mixed: wrong(*held.box, "reads " + where() + ", whose D rows are of different states"); return {};
    case misplaced:
      wrong(*held.box, "reads " + where() + ", whose D rows, heads or columns lie at other places");
      return {};
    case empty: return State{};
    case other:
    case known: break;
  }
  if (found.holds == wanted) return State{found.set, found.edge};
  wrong(*held.box, "reads " + std::string(name(found.holds)) +
                       (found.kind == known ? " of " + contents_.tokens_of(found.set) : "") + " in " +
                       where() + " where it needs " + std::string(name(wanted)));
  return {};
}

Run LinearStep::state_run(std::int64_t number, const MaybeState& state, Holds holds) const {
  const std::int64_t D = problem_.head_size;
  Run run{number * D, D, 0, 1, {}};
  run.value.holds = !state ? Holds::unknown : state->set == 0 ? Holds::zero : holds;
  if (!run.value.located()) return run;
  run.value.set = state->set;
  run.value.edge = state->edge;
  run.value.head_shift = op_.head_begin;
  return run;
}

// States that were not given stay as they are, or become zero.
void LinearStep::write_states(Written& written, bool clear_others) {
  if (written.box->empty()) return;
  std::ranges::sort(written.runs, {}, &Run::first);
  std::int64_t given = 0;
  for (const Run& run : written.runs) given += run.count;
  Runs before, all;
  if (given < written.box->rows && !clear_others) contents_.read(site_.rank, *written.box, heads_, before);
  std::int64_t at = 0;
  const auto fill = [&](std::int64_t end) {
    if (at >= end) return;
    if (clear_others) {
      all.push_back({at, end - at, 0, 1, {}});
      all.back().value.holds = Holds::zero;
    } else {
      for (const Run& run : clipped_runs(before, at, end - at)) all.push_back(run);
    }
  };
  for (const Run& run : written.runs) {
    fill(run.first);
    all.push_back(run);
    at = run.first + run.count;
  }
  fill(written.box->rows);
  contents_.write(site_, *written.box, heads_, all, written.writer);
}

// Rows in no chunk become zero, or stay as they are where the operation adds.
void LinearStep::write_rows(Written& written) {
  if (written.box->empty()) return;
  std::ranges::sort(written.runs, {}, &Run::first);
  Runs all;
  std::int64_t at = 0;
  const auto fill = [&](std::int64_t end) {
    if (at >= end) return;
    all.push_back({at, end - at, 0, 1, {}});
    all.back().value.holds = Holds::zero;
  };
  for (const Run& run : written.runs) {
    fill(run.first);
    all.push_back(run);
    at = run.first + run.count;
  }
  fill(written.box->rows);
  contents_.store_or_add(site_, *written.box, heads_, all, written.mode, written.writer);
}

// ---- work ---------------------------------------------------------------------------------------

// plan/chunk_flops.hpp says what is counted; counted here again from the problem.
double LinearStep::flops() const {
  const auto has = [&](std::initializer_list<Operand> any) {
    return std::ranges::any_of(any, [&](Operand o) { return rank_.plan->find(op_, o) != nullptr; });
  };
  const auto elements = [&](Operand operand) {
    const Box& b = contents_.box_of(site_, operand);
    return static_cast<double>(b.rows) * b.heads() * b.width();
  };
  const auto D = static_cast<double>(problem_.head_size), E = static_cast<double>(problem_.value_size);
  const double heads = op_.head_end - op_.head_begin, product = 2 * D * E;
  if (is_convolution(op_.kind)) return 2 * taps() * contents_.box_of(site_, Operand::from).width() * heads;
  if (op_.kind == OpKind::scan) return 2 * elements(op_.reverse ? Operand::dstate : Operand::state);
  if (op_.kind == OpKind::combine)
    return 2 * elements(Operand::into) *
           (has({Operand::transition}) ? contents_.box_of(site_, Operand::transition).width() : 1);
  constexpr std::int64_t block = 64;
  double sum = 0;
  for (const Chunk& c : chunks()) {
    const auto all = static_cast<double>(c.count);
    const auto tokens = [&](bool states) { return states || c.count > block ? all : 0.0; };
    const auto triangle = [](std::int64_t n) { return static_cast<double>(n * (n + 1) / 2); };
    const double pairs = static_cast<double>(c.count / block) * triangle(block) + triangle(c.count % block);
    const bool of_keys = has({Operand::state, Operand::carry}),
               of_queries = has({Operand::dstate, Operand::dcarry}), leaves = has({Operand::final_state});
    if (op_.kind == OpKind::state) sum += product * all;
    if (op_.kind == OpKind::inter) sum += product * all * static_cast<double>(op_.writes.count);
    if (op_.kind == OpKind::local) sum += pairs * 2 * (D + E) + product * (tokens(of_keys) + tokens(leaves));
    if (op_.kind == OpKind::local_backward)
      sum += pairs * 2 * (3 * D + 2 * E) +
             product * (tokens(of_keys) + tokens(false) + 2 * tokens(of_queries) + tokens(leaves));
  }
  return sum * heads;
}

}  // namespace cplab::checking
