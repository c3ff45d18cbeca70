// What must hold at the end of the symbolic run: outputs are complete, every computed value was read, states
// are there. And sums of states wherever they are added. See check/contents.hpp, check/linear.hpp.
#include "check/contents.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "check/linear.hpp"

namespace cplab::checking {

void Contents::finish() {
  const Problem& p = model_.plan->scenario.problem;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    const bool linear = p.attention == Attention::linear;
    check_output(r, "out", Holds::out, 0, p.value_size);
    if (!linear) check_output(r, "lse", Holds::lse, 0, 1);
    if (p.has_backward()) {
      const bool raw = p.convolves();
      check_output(r, "dq", raw ? Holds::draw_q : Holds::dq, 0, p.head_size);
      if (p.has_latent()) {
        check_output(r, "dlatent", Holds::dlatent, 0, p.kv_latent);
        check_output(r, "dlatent", Holds::drope_key, p.kv_latent, p.kv_latent + p.rope_size);
        check_whole_output(r, "dkey_weights", Holds::dkey_weights);
        check_whole_output(r, "dvalue_weights", Holds::dvalue_weights);
      } else {
        check_output(r, "dkv", raw ? Holds::draw_k : Holds::dk, 0, p.head_size);
        check_output(r, "dkv", raw ? Holds::draw_v : Holds::dv, p.head_size, p.head_size + p.value_size);
      }
      const std::int64_t behind = p.head_size + p.value_size;
      if (p.bias == BiasForm::keys) check_output(r, "dkv", Holds::dbias, behind, behind + 1);
      if (p.bias == BiasForm::full) check_output(r, "dbias", Holds::dbias, 0, p.pair_columns());
      if (p.bias == BiasForm::buckets) check_whole_output(r, "dbias_table", Holds::dtable);
      if (p.sink) check_whole_output(r, "dsink", Holds::dsink);
    }
    if (p.max_logit) check_whole_output(r, "max_logit", Holds::max_logit);
    if (linear) check_linear_outputs(r);
    const bool backward = p.has_backward();
    for (const Buffer& b : model_.ranks[r].plan->buffers) {
      const bool known =
          b.name == "out" || (!linear && b.name == "lse") || (p.max_logit && b.name == "max_logit") ||
          (backward && (b.name == "dq" || b.name == (p.has_latent() ? "dlatent" : "dkv"))) ||
          (backward && p.has_latent() && (b.name == "dkey_weights" || b.name == "dvalue_weights")) ||
          (backward && p.bias == BiasForm::full && b.name == "dbias") ||
          (backward && p.bias == BiasForm::buckets && b.name == "dbias_table") ||
          (backward && p.sink && b.name == "dsink") || (linear && is_linear_output(p, b.name));
      if (b.category == Category::output && !known)
        findings_.add(FindingKind::leak, model_.ranks[r].plan, none,
                      static_cast<std::uint32_t>(&b - model_.ranks[r].plan->buffers.data()),
                      "buffer " + b.name + " is an output that the problem does not have");
    }
    find_leaks(r);
  }
}

void Contents::check_output(std::uint32_t r, std::string_view wanted, Holds holds, std::int64_t width_begin,
                            std::int64_t width_end) {
  const RankModel& rank = model_.ranks[r];
  const Problem& p = model_.plan->scenario.problem;
  const int replica = rank.plan->replica, position = rank.plan->position;
  const Side side = of_keys(holds) ? Side::keys : Side::queries;
  const std::int64_t rows = tokens_.rows(replica, side), heads = wanted == "dkv"       ? p.kv_heads
                                                                 : wanted == "dlatent" ? 1
                                                                                       : p.heads;
  if (rows == 0) return;
  const auto& list = rank.plan->buffers;
  const auto at = std::find_if(list.begin(), list.end(), [&](const Buffer& b) {
    return b.name == wanted && b.category == Category::output;
  });
  const bool wide = holds == Holds::lse || holds == Holds::dlog_decay || holds == Holds::dbeta;
  const Role role = wide ? Role::wide : Role::nominal;
  if (at == list.end() || at->role != role || at->slots != 1 || at->rows != rows || at->heads != heads ||
      at->width < width_end)
    return;  // the structural validator says so
  Box box;
  box.buffer = static_cast<std::uint32_t>(at - list.begin());
  box.width_begin = static_cast<std::int32_t>(width_begin);
  Region& slot = region(r, box.buffer, 0);
  slot.align(0, static_cast<std::int32_t>(heads), box.width_begin, static_cast<std::int32_t>(width_end),
             budget_);
  for (const Column& c : slot.columns()) {
    if (c.width_begin < width_begin || c.width_end > width_end) continue;
    std::int64_t end = 0;
    for (const Piece& piece : c.pieces) {
      if (piece.begin == end) end = piece.end;
      if (piece.value.writer != none) ranks_[r].writes[piece.value.writer].read = true;
      check_piece({r, none}, box, c, piece, holds);
    }
    if (end == rows) continue;
    findings_.add(
        FindingKind::uninitialised, rank.plan, none, box.buffer,
        "output " + std::string(wanted) + " row " + std::to_string(end) + " (" +
            tokens_.describe(tokens_.at(tokens_.first_row(replica, position, side) + end).part(0, 1)) +
            ") and maybe more is never written");
  }
}

void Contents::check_piece(Site s, const Box& box, const Column& c, const Piece& piece, Holds holds) {
  const RankModel& rank = model_.ranks[s.rank];
  const Value& v = piece.value;
  if (v.holds == Holds::unknown) return;
  const bool sums = holds == Holds::out || holds == Holds::lse;
  const Axis axis = of_keys(holds) ? Axis::keys : sums ? Axis::sums : Axis::queries;
  const Side side = axis == Axis::keys ? Side::keys : Side::queries;
  const std::int64_t id = tokens_.first_row(rank.plan->replica, rank.plan->position, side) + piece.begin,
                     count = piece.end - piece.begin;
  const auto wrong = [&](const std::string& what) {
    findings_.add(FindingKind::coverage, rank.plan, none, box.buffer,
                  "output " + rank.plan->buffers[box.buffer].name + " heads " + std::to_string(c.head_begin) +
                      ".." + std::to_string(c.head_end - 1) + " " + what);
  };
  const bool blank = v.holds == (holds == Holds::lse ? Holds::minus_infinity : Holds::zero);
  if (!blank) {
    // Gradients of padding may be any number.
    bool padding = axis == Axis::keys || (holds != Holds::out && holds != Holds::lse);
    if (padding) tokens_.for_each(id, count, [&](const Stretch& t) { padding = padding && t.valid == 0; });
    if (padding) return;
    if (v.holds != holds)
      return wrong("holds " + std::string(name(v.holds)) + " where " + std::string(name(holds)) + " belongs");
    if (piece.begin + v.shift != id || v.head_shift != 0 || v.width_shift != -box.width_begin)
      return wrong("holds the rows, heads or columns of " +
                   tokens_.describe(tokens_.at(piece.begin + v.shift)) + " at " +
                   tokens_.describe(tokens_.at(id)));
    if (holds == Holds::out && v.set != v.norm &&
        model_.plan->scenario.problem.attention != Attention::linear)
      return wrong("is normalised by other keys than it covers, for " + tokens_.describe(tokens_.at(id)));
  }
  const bool complete_as_computed =
      !blank && (holds == Holds::dlog_decay || holds == Holds::dbeta || holds == Holds::draw_q ||
                 holds == Holds::draw_k || holds == Holds::draw_v);
  const std::uint32_t set = blank ? 0 : v.set;
  if (!complete_as_computed && !complete(axis, id, count, set))
    wrong(missing(axis, id, count, set, c.head_begin));
}

void Contents::find_leaks(std::uint32_t r) {
  const RankModel& rank = model_.ranks[r];
  for (const Write& w : ranks_[r].writes) {
    // Scratch of kernels and of frameworks holds nothing that anybody would read.
    if (w.read || (w.buffer < rank.plan->buffers.size() &&
                   rank.plan->buffers[w.buffer].category == Category::workspace))
      continue;
    findings_.add(FindingKind::leak, rank.plan, w.operation, w.buffer,
                  "what " + describe_operation(rank, w.operation) + " writes into " +
                      rank.plan->buffers[w.buffer].name + " is never read");
  }
}

namespace {

// States at the edges of a rank's tokens, one for each sequence that it has rows of, or in a stream the one
// that lies at the edge. carry and dcarry: what entered the rank. state_last and dstate_first: with the
// rank's own tokens, what a scan may leave where nobody reads it any more.
struct EdgeStates {
  std::string_view name;
  Holds holds;
  bool left_edge;
};
constexpr std::array<EdgeStates, 4> edge_states{{{"carry", Holds::state, true},
                                                 {"dcarry", Holds::dstate, false},
                                                 {"state_last", Holds::state, false},
                                                 {"dstate_first", Holds::dstate, true}}};

}  // namespace

bool is_linear_output(const Problem& p, std::string_view name) {
  const bool backward = p.has_backward();
  if (std::ranges::find(convolved, name, &Convolved::gradient_name) != convolved.end())
    return backward && p.convolves();
  if (name == "dlog_decay") return backward && p.transition != Transition::decay;
  if (name == "dbeta") return backward && p.transition == Transition::matrix;
  return std::ranges::any_of(edge_states, [&](const EdgeStates& e) {
    return e.name == name && (backward || e.holds == Holds::state);
  });
}

namespace {

// What other ranks computed enters this one: its operations read it as that operand, for all heads. Where
// ranks trade heads for tokens, none enters, or some enters a team of ranks.
bool takes_states(const RankModel& rank, std::int64_t heads, std::string_view name) {
  if (name != "carry" && name != "dcarry") return false;
  const Operand operand = name == "carry" ? Operand::carry : Operand::dcarry;
  for (std::uint32_t i = 0; i < rank.plan->operations.size(); ++i) {
    const Operation& op = rank.op(i);
    if (rank.forms[i] != Form::good || !is_linear(op.kind) || !rank.plan->find(op, operand)) continue;
    if (rank.plan->buffers[rank.operand(i, operand).buffer].heads == heads) return true;
  }
  return false;
}

}  // namespace

// ---- texts --------------------------------------------------------------------------------------

std::string Contents::tokens_of(std::uint32_t set) const {
  const auto intervals = sets_[set];
  if (intervals.empty()) return "no tokens";
  const Tokens::Origin origin = tokens_.origin(intervals.front().begin);
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(intervals.size(), 3); ++i) {
    const std::int64_t begin = intervals[i].begin - origin.first, last = intervals[i].end - origin.first - 1;
    text += (i == 0 ? "" : ", ") + std::to_string(begin);
    if (last > begin) text += ".." + std::to_string(last);
  }
  const bool one = intervals.size() == 1 && intervals[0].end - intervals[0].begin == 1;
  if (intervals.size() > 3) text += ", ...";
  return (one ? "token " : "tokens ") + text + " of sequence " + std::to_string(origin.sequence);
}

std::string Contents::edge_in(std::uint32_t set, std::int64_t edge) const {
  return "token " + std::to_string(edge - tokens_.origin(sets_[set].front().begin).first);
}

// ---- sums ---------------------------------------------------------------------------------------

// The sum of two states of one direction. Only what lies at one edge can be added, and no token twice.
Value Contents::join_states(Site s, const Box& into, const Run& a, const Run& b) {
  const Value &x = a.value, &y = b.value;
  const auto wrong = [&](const std::string& what) {
    report(s, FindingKind::coverage, into,
           "adds the state of " + tokens_of(x.set) + " to that of " + tokens_of(y.set) + what);
    return Value::unknown();
  };
  if (!a.same_rows(b) || x.head_shift != y.head_shift || x.width_shift != y.width_shift)
    return wrong(" in other rows of D, heads or columns");
  if (tokens_.origin(sets_[x.set].front().begin).sequence !=
      tokens_.origin(sets_[y.set].front().begin).sequence)
    return wrong("");
  if (x.edge != y.edge)
    return wrong(", but they lie before " + edge_in(x.set, x.edge) + " and before " + edge_in(y.set, y.edge));
  const auto set = sets_.join(x.set, y.set);
  if (!set) return wrong(": tokens count twice");
  Value sum = y;
  sum.set = *set;
  return sum;
}

// ---- outputs ------------------------------------------------------------------------------------

void Contents::check_linear_outputs(std::uint32_t r) {
  const Problem& p = model_.plan->scenario.problem;
  const RankModel& rank = model_.ranks[r];
  if (p.has_backward() && p.transition != Transition::decay)
    check_output(r, "dlog_decay", Holds::dlog_decay, 0, p.gate_columns());
  if (p.has_backward() && p.transition == Transition::matrix) check_output(r, "dbeta", Holds::dbeta, 0, 1);
  if (p.has_backward() && p.convolves())
    for (const Convolved& c : convolved) check_whole_output(r, c.gradient_name, c.dfilter);
  for (const EdgeStates& e : edge_states) {
    if (!is_linear_output(p, e.name)) continue;
    const bool given = std::ranges::any_of(rank.plan->buffers, [&](const Buffer& b) {
      return b.name == e.name && b.category == Category::output;
    });
    if (given || takes_states(rank, p.heads, e.name)) check_edge_states(r, e.name, e.holds, e.left_edge);
  }
}

// States of tokens before an edge (of queries: from there on), padding being behind the last token. A rank
// without a token of a sequence may leave the whole buffer out, since nobody reads what enters; where it has
// the buffer, that holds what the comparison (cli/verify/states.cpp) asks for.
void Contents::check_edge_states(std::uint32_t r, std::string_view wanted, Holds holds, bool left_edge) {
  const RankModel& rank = model_.ranks[r];
  const Problem& p = model_.plan->scenario.problem;
  const std::string_view placement = model_.plan->scenario.placement;
  const bool stream = placement == "stream";
  if (!stream && placement != "contiguous")
    return findings_.add(FindingKind::coverage, rank.plan, none, none,
                         "rank " + std::to_string(rank.plan->rank) + " takes states at its edges as " +
                             std::string(wanted) + ", but placement \"" + std::string(placement) +
                             "\" does not lay consecutive tokens on a rank");
  struct Expected {
    Sets::Interval tokens;
    std::int64_t edge = 0;
    std::uint32_t sequence = 0;
    bool has_tokens = false;
  };
  std::vector<Expected> list;
  const std::int64_t id = tokens_.first_row(rank.plan->replica, rank.plan->position, Side::queries),
                     rows = tokens_.rows(rank.plan->replica, Side::queries);
  tokens_.for_each(id, rows, [&](const Stretch& t) {
    const Tokens::Origin o = tokens_.origin_of(t.sequence, Side::queries);
    const std::int64_t last = o.first + o.length,
                       edge = std::min(left_edge ? t.token : t.token + t.count, last);
    const Sets::Interval all =
        holds == Holds::state ? Sets::Interval{o.first, edge} : Sets::Interval{edge, last};
    list.push_back({all, edge, t.sequence, t.valid > 0});
  });
  if (stream) {  // one state, of the first (last) sequence that the rank has tokens of
    std::erase_if(list, [](const Expected& e) { return !e.has_tokens; });
    if (!list.empty()) list.assign(1, left_edge ? list.front() : list.back());
  }
  const auto& buffers = rank.plan->buffers;
  const auto at = std::ranges::find_if(
      buffers, [&](const Buffer& b) { return b.name == wanted && b.category == Category::output; });
  if (at == buffers.end()) {
    const auto passes = [](const Expected& e) { return e.tokens.begin < e.tokens.end && e.has_tokens; };
    if (std::ranges::any_of(list, passes))
      findings_.add(FindingKind::uninitialised, rank.plan, none, none,
                    "rank " + std::to_string(rank.plan->rank) + " has no output " + std::string(wanted));
    return;
  }
  const auto buffer = static_cast<std::uint32_t>(at - buffers.begin());
  const std::int64_t D = p.head_size;
  const bool compared = !list.empty();  // in a stream without tokens a state has no meaning
  if (at->role != Role::wide || at->slots != 1 || at->heads != p.heads || at->width != p.value_size ||
      (compared && at->rows != std::ssize(list) * D))
    return findings_.add(FindingKind::uninitialised, rank.plan, none, buffer,
                         "output " + std::string(wanted) + " is not of the problem's shape and dtype");
  const RowRange all_rows{0, at->rows, 1};
  Box box;
  box.buffer = buffer;
  box.ranges = {&all_rows, 1};
  box.rows = box.high = at->rows;
  box.slot_end = 1;
  box.head_end = static_cast<std::int32_t>(at->heads);
  box.width_end = static_cast<std::int32_t>(at->width);
  box.valid = true;
  const HeadsOf operand{&box, 1};
  for (const Heads& h : cut_heads(r, std::span(&operand, 1), box.heads())) {
    read(r, box, h, a_);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const HeldState found = held_state(a_, static_cast<std::int64_t>(i) * D, D, 0);
      const Expected& want = list[i];
      const std::uint32_t set = want.tokens.begin < want.tokens.end ? sets_.of({&want.tokens, 1}) : 0;
      using enum HeldState::Kind;
      if (found.kind == unknown) continue;
      if (found.kind == empty && set == 0) continue;
      if (found.kind == known && found.holds == holds && found.set == set && found.edge == want.edge)
        continue;
      std::string what = "output " + std::string(wanted) + " state " + std::to_string(i) + " heads " +
                         std::to_string(h.begin) + ".." + std::to_string(h.end - 1);
      if (found.kind == nothing) {
        findings_.add(FindingKind::uninitialised, rank.plan, none, buffer,
                      what + " is never written, or not all of it");
        continue;
      }
      if (found.kind == mixed || found.kind == misplaced)
        what += " has D rows of different states, or rows, heads or columns at other places";
      else if (found.kind != known)
        what += " holds " + std::string(name(found.holds));
      else
        what += " holds " + std::string(name(found.holds)) + " of " + tokens_of(found.set) + " before " +
                edge_in(found.set, found.edge);
      what += " where " + std::string(name(holds)) + " of " + tokens_of(set);
      if (set != 0) what += " before " + edge_in(set, want.edge);
      findings_.add(FindingKind::coverage, rank.plan, none, buffer, what + " belongs");
    }
  }
}

}  // namespace cplab::checking
