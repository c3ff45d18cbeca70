// Buffers, moves and sums of the symbolic run, within a rank and between ranks; see check/contents.hpp.
#include "check/contents.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "check/columns.hpp"
#include "check/linear.hpp"
#include "check/matching.hpp"

namespace cplab::checking {
namespace {

// Whose gradients come together in that of a key: of a key head its group's, of a latent all.
std::int32_t heads_of_a_key(const Problem& p) {
  return static_cast<std::int32_t>(p.has_latent() ? p.heads : p.heads / p.kv_heads);
}

}  // namespace

Contents::Contents(Model& model, Findings& findings, CheckResult& result)
    : model_(model),
      findings_(findings),
      result_(result),
      tokens_(model.plan->scenario),
      head_sets_(sets_, heads_of_a_key(model.plan->scenario.problem)),
      ranks_(model.ranks.size()),
      known_(1024) {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) hold_inputs(r);
}

// q, kv and dout hold the rank's own rows, padding included.
void Contents::hold_inputs(std::uint32_t r) {
  const RankModel& rank = model_.ranks[r];
  const Problem& p = model_.plan->scenario.problem;
  const int replica = rank.plan->replica, position = rank.plan->position;
  ranks_[r].buffers.resize(rank.plan->buffers.size());
  for (std::uint32_t b = 0; b < rank.plan->buffers.size(); ++b) {
    const Buffer& buffer = rank.plan->buffers[b];
    if (buffer.category != Category::input) continue;
    const Side side = buffer.name == "kv" || buffer.name == "latent" ? Side::keys : Side::queries;
    const std::int64_t n = tokens_.rows(replica, side), id = tokens_.first_row(replica, position, side);
    const auto hold = [&](Holds holds, std::int64_t begin, std::int64_t width) {
      if (n == 0) return;
      Region& slot = region(r, b, 0);
      const auto from = static_cast<std::int32_t>(begin), to = static_cast<std::int32_t>(begin + width);
      slot.align(0, static_cast<std::int32_t>(buffer.heads), from, to, budget_);
      Value value;
      value.holds = holds;
      value.shift = id;
      value.width_shift = -from;
      for (Column& column : slot.columns())
        if (column.width_begin >= from && column.width_end <= to) column.pieces.push_back({0, n, value});
    };
    const auto is = [&](std::int64_t heads, std::int64_t width, Role role = Role::nominal) {
      return buffer.role == role && buffer.slots == 1 && buffer.rows == n && buffer.heads == heads &&
             buffer.width == width;
    };
    const bool raw = p.convolves();
    if (buffer.name == "q" && is(p.heads, p.head_size)) {
      hold(raw ? Holds::raw_q : Holds::q, 0, p.head_size);
    } else if (p.has_latent() && buffer.name == "latent" && is(1, p.kv_latent + p.rope_size)) {
      hold(Holds::latent, 0, p.kv_latent);
      hold(Holds::rope_key, p.kv_latent, p.rope_size);
    } else if (!p.has_latent() && buffer.name == "kv" &&
               is(p.kv_heads, p.head_size + p.value_size + p.key_columns())) {
      hold(raw ? Holds::raw_k : Holds::k, 0, p.head_size);
      hold(raw ? Holds::raw_v : Holds::v, p.head_size, p.value_size);
      if (p.key_columns() > 0) hold(Holds::bias, p.head_size + p.value_size, 1);
      if (p.key_columns() > 1) hold(Holds::keep, p.head_size + p.value_size + 1, 1);
    } else if (buffer.name == "bias" && p.bias == BiasForm::full && is(p.heads, p.pair_columns())) {
      hold(Holds::bias, 0, p.pair_columns());
    } else if (buffer.name == "keep" && p.bias == BiasForm::full && p.keep != Keep::none &&
               is(p.heads, p.pair_columns())) {
      hold(Holds::keep, 0, p.pair_columns());
    } else if (buffer.name == "dout" && is(p.heads, p.value_size)) {
      hold(Holds::dout, 0, p.value_size);
    } else if (buffer.name == "log_decay" && p.transition != Transition::decay &&
               is(p.heads, p.gate_columns(), Role::wide)) {
      hold(Holds::log_decay, 0, p.gate_columns());
    } else if (buffer.name == "beta" && p.transition == Transition::matrix && is(p.heads, 1, Role::wide)) {
      hold(Holds::beta, 0, 1);
    } else if (!hold_parameter(r, b)) {
      findings_.add(FindingKind::coverage, rank.plan, none, b,
                    "input " + buffer.name + " is none that this problem has, or not of its shape and dtype");
    }
  }
}

Region& Contents::region(std::uint32_t r, std::uint32_t b, std::int32_t slot) {
  const Buffer& buffer = model_.ranks[r].plan->buffers[b];
  std::vector<Region>& slots = ranks_[r].buffers[b];
  if (slots.size() <= static_cast<std::size_t>(slot)) slots.resize(static_cast<std::size_t>(slot) + 1);
  Region& region = slots[static_cast<std::size_t>(slot)];
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (!region.shaped())
    region.shape(static_cast<std::int32_t>(std::min(buffer.heads, most)),
                 static_cast<std::int32_t>(std::min(buffer.width, most)));
  return region;
}

// Buffers of a slab share bytes: the first write to one of them destroys the contents of the others.
void Contents::take_slab(std::uint32_t r, std::uint32_t view) {
  const RankModel& rank = model_.ranks[r];
  if (view >= rank.boxes.size() || !rank.boxes[view].valid || rank.boxes[view].empty()) return;
  const std::uint32_t buffer = rank.boxes[view].buffer;
  if (rank.plan->buffers[buffer].slab.empty()) return;
  const auto [at, fresh] = ranks_[r].slabs.try_emplace(rank.plan->buffers[buffer].slab, buffer);
  if (!fresh && at->second == buffer) return;
  at->second = buffer;
  rank.for_each_of_slab(buffer, [&](std::uint32_t other) { ranks_[r].buffers[other].clear(); });
}

std::uint32_t Contents::writer(Site s, const Box& box) {
  if (box.empty()) return none;
  ranks_[s.rank].writes.push_back({s.operation, box.buffer, false});
  return static_cast<std::uint32_t>(ranks_[s.rank].writes.size() - 1);
}

void Contents::mark_read(std::uint32_t r, const Runs& runs) {
  for (const Run& run : runs)
    if (run.value.writer != none) ranks_[r].writes[run.value.writer].read = true;
}

// An unknown value follows from a mistake that was reported. It counts as read, so that no leak is reported
// on top.
void Contents::excuse(std::uint32_t r, const Runs& runs, std::uint32_t writer) {
  if (writer == none) return;
  for (const Run& run : runs)
    if (run.value.holds == Holds::unknown) ranks_[r].writes[writer].read = true;
}

void Contents::report(Site s, FindingKind kind, const Box& box, const std::string& what) {
  report_peer(s, s.rank, kind, box, what);
}

// Finding::buffer is a buffer of the finding's rank, so a buffer of another rank is named in the text only.
void Contents::report_peer(Site s, std::uint32_t peer, FindingKind kind, const Box& box,
                           const std::string& what) {
  const RankModel& rank = model_.ranks[s.rank];
  findings_.add(
      kind, rank.plan, s.operation, peer == s.rank ? box.buffer : none,
      describe_operation(rank, s.operation) + " " + what +
          (peer == s.rank ? "" : " (on rank " + std::to_string(model_.ranks[peer].plan->rank) + ")"));
}

// Prepares `runs` for being written into the box.
void Contents::settle(Site s, const Box& box, Runs& runs, std::uint32_t writer) {
  const bool nominal = model_.ranks[s.rank].plan->buffers[box.buffer].role == Role::nominal;
  for (Run& run : runs) {
    Value& v = run.value;
    if (nominal && kept_wide(v.holds)) {
      report(s, FindingKind::coverage, box,
             "writes " + std::string(name(v.holds)) + " into a buffer of the nominal dtype; it is kept wide");
      v = Value::unknown();
    } else if (nominal && rounds_bias_alone(s, box, v.holds)) {
      report(
          s, FindingKind::coverage, box,
          "rounds dbias of keys alone to the nominal dtype; it is rounded with dk and dv, in one operation, "
          "or kept wide");
      v = Value::unknown();
    }
    lost_track_ = lost_track_ || v.holds == Holds::unknown;
    v.writer = writer;
  }
  excuse(s.rank, runs, writer);
}

// ---- reading and writing one slot's heads -------------------------------------------------------

void Contents::read(std::uint32_t r, const Box& box, Heads heads, Runs& runs) {
  runs.clear();
  bool found = false;
  for (const Column& c : region(r, box.buffer, box.slot_begin).columns()) {
    if (c.head_begin >= box.head_begin + heads.end || c.head_end <= box.head_begin + heads.begin ||
        c.width_begin >= box.width_end || c.width_end <= box.width_begin)
      continue;
    Runs& into = found ? joined_ : runs;
    read_rows(c, box, into);
    mark_read(r, into);
    if (!found) {
      found = true;
      continue;
    }
    // Rows in which the columns disagree hold no tensor of the problem: mere numbers at best.
    Runs both;
    zip(runs, into, [&](const Run& a, const Run& b, std::int64_t, std::int64_t) {
      Run run = a;
      Value other = b.value;
      other.writer = a.value.writer;
      if (!(other == a.value)) {
        const bool lost = a.value.holds == Holds::nothing || b.value.holds == Holds::nothing;
        const bool known = a.value.holds != Holds::unknown && b.value.holds != Holds::unknown;
        run.value = Value{};
        run.value.holds = !known ? Holds::unknown : lost ? Holds::nothing : Holds::constant;
      }
      both.push_back(run);
    });
    runs = std::move(both);
  }
  for (Run& run : runs) {
    if (!run.value.located()) continue;
    run.value.head_shift += box.head_begin;
    run.value.width_shift += box.width_begin;
  }
}

void Contents::write(Site s, const Box& box, Heads heads, Runs& runs, std::uint32_t writer) {
  settle(s, box, runs, writer);
  for (Run& run : runs) {
    const bool located = run.value.located();
    run.value.head_shift = located ? run.value.head_shift - box.head_begin : 0;
    run.value.width_shift = located ? run.value.width_shift - box.width_begin : 0;
  }
  Region& slot = region(s.rank, box.buffer, box.slot_begin);
  const std::int32_t from = box.head_begin + heads.begin, to = box.head_begin + heads.end;
  slot.align(from, to, box.width_begin, box.width_end, budget_);
  for (Column& c : slot.columns())
    if (c.head_begin >= from && c.head_end <= to && c.width_begin >= box.width_begin &&
        c.width_end <= box.width_end)
      write_rows(c, box, runs, budget_);
}

void Contents::write_unknown(Site s, const Box& box, std::uint32_t writer) {
  write_everywhere(s, box, Value::unknown(), writer);
}

void Contents::forget(Site s, const Box& box) {
  write_everywhere(s, box, Value{}, none);
}

void Contents::write_everywhere(Site s, const Box& box, const Value& value, std::uint32_t writer) {
  if (box.empty()) return;
  Box slot = box;
  for (std::int32_t k = box.slot_begin; k < box.slot_end; ++k) {
    slot.slot_begin = k, slot.slot_end = k + 1;
    for (const Column& c : region(s.rank, box.buffer, k).columns()) {  // no leak of what is overwritten
      read_rows(c, slot, joined_);
      mark_read(s.rank, joined_);
    }
    Runs runs{{0, box.rows, 0, 1, value}};
    write(s, slot, {0, box.heads()}, runs, writer);
  }
}

// Cuts the heads wherever a column of some operand ends: within each piece no operand changes its column.
std::vector<Contents::Heads> Contents::cut_heads(std::uint32_t r, std::span<const HeadsOf> operands,
                                                 std::int32_t heads) {
  std::vector<std::int32_t> cuts;
  for (const HeadsOf& o : operands) {
    const auto& columns = region(r, o.box->buffer, o.box->slot_begin).columns();
    if (columns.size() == 1) continue;
    for (const Column& c : columns) {
      if (c.width_begin >= o.box->width_end || c.width_end <= o.box->width_begin) continue;
      for (const std::int32_t at : {c.head_begin, c.head_end})
        if (at > o.box->head_begin && at < o.box->head_end)
          cuts.push_back((at - o.box->head_begin) * o.query_heads);
    }
  }
  if (cuts.empty()) return {{0, heads}};
  cuts.push_back(0), cuts.push_back(heads);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Heads> result;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) result.push_back({cuts[i], cuts[i + 1]});
  return result;
}

// ---- moves and sums -----------------------------------------------------------------------------

void Contents::move(Site s, std::uint32_t from_rank, const Box& from, const Box& into, bool report_nothing,
                    std::uint32_t writer) {
  for_each_column(from_rank, from, s.rank, into, [&](Runs& runs, Column& column) {
    for (Run& run : runs) {
      if (!report_nothing || run.value.holds != Holds::nothing) continue;
      report_peer(
          s, from_rank, FindingKind::uninitialised, from,
          "reads " + describe_box(model_.ranks[from_rank], from) + ", part of which nobody has written");
      run.value.holds = Holds::unknown;
    }
    settle(s, into, runs, writer);
    write_rows(column, into, runs, budget_);
  });
}

// into += from, row by row.
void Contents::add(Site s, std::uint32_t from_rank, const Box& from, const Box& into, bool report_nothing,
                   std::uint32_t writer) {
  for_each_column(from_rank, from, s.rank, into, [&](Runs& runs, Column& column) {
    read_rows(column, into, b_);
    mark_read(s.rank, b_);
    joined_.clear();
    zip(runs, b_, [&](const Run& a, const Run& b, std::int64_t, std::int64_t) {
      Run sum = b.value.located() ? b : a;
      if (a.value.holds == Holds::nothing || b.value.holds == Holds::nothing) {
        sum.value = Value{};
        if (report_nothing) {
          const bool source = a.value.holds == Holds::nothing;
          const std::uint32_t owner = source ? from_rank : s.rank;
          report_peer(s, owner, FindingKind::uninitialised, source ? from : into,
                      "adds " + describe_box(model_.ranks[owner], source ? from : into) +
                          ", part of which nobody has written");
          sum.value.holds = Holds::unknown;
        }
      } else {
        sum.value = join(s, into, a, b, column.head_begin);
      }
      joined_.push_back(sum);
    });
    settle(s, into, joined_, writer);
    write_rows(column, into, joined_, budget_);
  });
}

// The sum of two partial results of the same rows.
Value Contents::join(Site s, const Box& into, const Run& a, const Run& b, std::int32_t head) {
  const Value &x = a.value, &y = b.value;
  Value unknown;
  unknown.holds = Holds::unknown;
  if (x.holds == Holds::unknown || y.holds == Holds::unknown) return unknown;
  if (x.holds == Holds::zero) return y;
  if (y.holds == Holds::zero) return x;
  const auto wrong = [&](const std::string& what) {
    report(s, FindingKind::coverage, into, what);
    return unknown;
  };
  if (x.holds == y.holds && (x.holds == Holds::state || x.holds == Holds::dstate))
    return join_states(s, into, a, b);
  const bool summable = x.holds == Holds::out || x.holds == Holds::dq || x.holds == Holds::dbias ||
                        of_tokens(x.holds) || of_pairs(x.holds) || of_keys(x.holds);
  if (x.holds != y.holds || !summable)
    return wrong("adds " + std::string(name(x.holds)) + " to " + std::string(name(y.holds)));
  if (!a.same_rows(b) || x.head_shift != y.head_shift || x.width_shift != y.width_shift)
    return wrong("adds " + std::string(name(x.holds)) + " of " + tokens_.describe(tokens_.at(a.id())) +
                 " to that of " + tokens_.describe(tokens_.at(b.id())) +
                 (a.id() == b.id() ? " in other heads, columns or steps" : ""));
  if (x.norm != y.norm) return wrong("adds parts of out that are normalised by different keys");
  const bool by_key = of_keys(x.holds);
  const auto set = by_key              ? head_sets_.join(x.set, y.set)
                   : of_pairs(x.holds) ? pairs_.join(x.set, y.set)
                                       : sets_.join(x.set, y.set);
  if (!set && (of_tokens(x.holds) || of_pairs(x.holds)))
    return wrong("adds contributions to " + std::string(name(x.holds)) + " that are there already");
  if (!set)
    return wrong("adds contributions to " + std::string(name(x.holds)) + " that cover a pair twice, for " +
                 tokens_.describe(tokens_.at(b.id())) +
                 (by_key ? query_heads(y.head_shift + head, head_sets_.shared(x.set, y.set)) : ""));
  Value sum = y;
  sum.set = *set;
  return sum;
}

void Contents::fill(Site s, const Operation& op, const Box& box) {
  Value value;
  value.holds = op.value == 0                                          ? Holds::zero
                : op.value == -std::numeric_limits<double>::infinity() ? Holds::minus_infinity
                                                                       : Holds::constant;
  const std::uint32_t w = writer(s, box);
  Box slot = box;
  for (std::int32_t k = box.slot_begin; k < box.slot_end; ++k) {
    slot.slot_begin = k, slot.slot_end = k + 1;
    Runs runs{{0, box.rows, 0, 1, value}};
    if (!box.empty()) write(s, slot, {0, box.heads()}, runs, w);
  }
}

void Contents::run(std::uint32_t r, std::uint32_t i) {
  const RankModel& rank = model_.ranks[r];
  const Site s{r, i};
  for (const Access& a : rank.writes(i)) take_slab(r, a.view);
  if (rank.forms[i] != Form::good) {
    for (const Access& a : rank.writes(i))
      if (a.view < rank.boxes.size() && rank.boxes[a.view].valid) write_unknown(s, rank.boxes[a.view]);
    return;
  }
  const Operation& op = rank.op(i);
  switch (op.kind) {
    case OpKind::attend: return attend(s, op);
    case OpKind::attend_backward: return attend_backward(s, op);
    case OpKind::row_dot: return row_dot(s);
    case OpKind::sink_gradient: return sink_gradient(s);
    case OpKind::project: return project(s, op);
    case OpKind::project_backward: return project_backward(s, op);
    case OpKind::weight_gradient: return weight_gradient(s, op);
    case OpKind::merge: return merge(s);
    case OpKind::copy:
    case OpKind::cast:
      return move(s, r, box_of(s, Operand::from), box_of(s, Operand::into), true,
                  writer(s, box_of(s, Operand::into)));
    case OpKind::add:
      return add(s, r, box_of(s, Operand::from), box_of(s, Operand::into), true,
                 writer(s, box_of(s, Operand::into)));
    case OpKind::maximum:
      return maximum(s, r, box_of(s, Operand::from), box_of(s, Operand::into),
                     writer(s, box_of(s, Operand::into)));
    case OpKind::fill: return fill(s, op, box_of(s, Operand::into));
    case OpKind::local:
    case OpKind::local_backward:
    case OpKind::state:
    case OpKind::scan:
    case OpKind::combine:
    case OpKind::inter:
    case OpKind::convolve:
    case OpKind::filter_gradient: return LinearStep(*this, r, i).run();
    case OpKind::exchange:
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
    case OpKind::all_to_all:
    case OpKind::all_reduce:
    case OpKind::barrier:
    case OpKind::host_sync: return;  // data moves in transfer() and all_reduce()
  }
}

// ---- what comes from other ranks: parts that are received, sums and maxima over a group -----------

// Memory that nobody has written may be sent: the target then counts as unwritten too.
void Contents::transfer(std::uint32_t from_rank, std::uint32_t, const Part& send, std::uint32_t into_rank,
                        std::uint32_t receive_operation, const Part& receive, bool fits, bool first) {
  const Site s{into_rank, receive_operation};
  const Box &from = model_.ranks[from_rank].boxes[send.view],
            &into = model_.ranks[into_rank].boxes[receive.view];
  take_slab(into_rank, receive.view);
  if (!fits) return write_unknown(s, into);
  first ? move(s, from_rank, from, into, false, none) : add(s, from_rank, from, into, false, none);
}

// A sum or maximum over the group of results of the same rows.
void Contents::all_reduce(std::span<const std::pair<std::uint32_t, std::uint32_t>> members) {
  const Site root{members[0].first, members[0].second};
  for (const auto& [r, i] : members)
    for (const Access& a : model_.ranks[r].writes(i)) take_slab(r, a.view);
  const RankModel& home = model_.ranks[root.rank];
  const auto fits_root = [&](std::uint32_t r, std::uint32_t i) {
    const RankModel& rank = model_.ranks[r];
    return rank.forms[i] == Form::good && rank.op(i).kind == OpKind::all_reduce &&
           fits(rank, box_of({r, i}, Operand::from), home, box_of(root, Operand::into));
  };
  if (!std::ranges::all_of(members, [&](const auto& m) { return fits_root(m.first, m.second); })) {
    for (const auto& [r, i] : members)  // check/matching.cpp reports it
      for (const Access& a : model_.ranks[r].writes(i))
        if (a.view < model_.ranks[r].boxes.size() && model_.ranks[r].boxes[a.view].valid)
          write_unknown({r, i}, model_.ranks[r].boxes[a.view]);
    return;
  }
  // The first member's target collects the sum; what the others hold is read before anything is overwritten.
  const Box& target = box_of(root, Operand::into);
  const bool max = home.op(root.operation).reduction == Reduction::max;
  move(root, root.rank, box_of(root, Operand::from), target, true, none);
  for (const auto& [r, i] : members.subspan(1)) {
    const Box& from = box_of({r, i}, Operand::from);
    max ? maximum(root, r, from, target, none) : add(root, r, from, target, true, none);
  }
  for (const auto& [r, i] : members.subspan(1))
    move({r, i}, root.rank, target, box_of({r, i}, Operand::into), false, none);
}

// ---- what must not be rounded to the problem's dtype on its way -----------------------------------

// Nominal has fewer digits than sums have.
bool Contents::narrow() const {
  const DType dtype = model_.plan->scenario.problem.dtype;
  return dtype == DType::bf16 || dtype == DType::fp16;
}

// What a buffer of the nominal dtype may not hold. LSEs, deltas and max_logit are wide in every dtype. Gates,
// transitions and their gradients are so where nominal has fewer digits, and so are states that pass through
// transitions: no roundings are counted for them (cli/verify/linear_tolerance.hpp), as they are for states
// that decay by a slope.
bool Contents::kept_wide(Holds holds) const {
  const Problem& p = model_.plan->scenario.problem;
  switch (holds) {
    case Holds::lse:
    case Holds::delta:
    case Holds::sink:
    case Holds::bias_table:
    case Holds::dsink:
    case Holds::dtable:
    case Holds::dkey_weights:
    case Holds::dvalue_weights:
    case Holds::max_logit: return true;
    case Holds::log_decay:
    case Holds::beta:
    case Holds::dlog_decay:
    case Holds::dbeta:
    case Holds::transition: return narrow();
    case Holds::state:
    case Holds::dstate: return narrow() && p.transition != Transition::decay;
    default: return false;
  }
}

// dbias of keys is summed over the ranks as dk and dv are, in a column beside theirs, and roundings are
// counted for the three together (cli/verify/roundings.hpp): one that it alone goes through would not be. A
// bias of pairs has one contribution to each number, which rounding again leaves as it is.
bool Contents::rounds_bias_alone(Site s, const Box& box, Holds holds) const {
  if (holds != Holds::dbias || !of_keys(holds) || !narrow() || box.width() > 1) return false;
  const RankPlan& plan = *model_.ranks[s.rank].plan;
  const Operation& op = plan.operations[s.operation];
  const auto is_nominal = [&](Operand operand) {
    const Access* access = plan.find(op, operand);
    return access && plan.buffers[plan.views[access->view].buffer].role == Role::nominal;
  };
  switch (op.kind) {
    case OpKind::attend_backward: return !is_nominal(Operand::dk) && !plan.find(op, Operand::rounded_dk);
    case OpKind::copy:
    case OpKind::cast: return !is_nominal(Operand::from);
    case OpKind::fill:
    case OpKind::exchange:
    case OpKind::all_gather:
    case OpKind::all_to_all: return false;  // the bits that were sent
    default: return true;                   // sums
  }
}

}  // namespace cplab::checking
