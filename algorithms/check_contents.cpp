// Buffers, moves and sums of the symbolic run, and what must stand at its end; see check_contents.hpp.
#include "algorithms/check_contents.hpp"

#include <algorithm>
#include <limits>

namespace cplab::checking {

Contents::Contents(Model& model, Findings& findings, CheckResult& result)
    : model_(model),
      findings_(findings),
      result_(result),
      tokens_(model.plan->scenario),
      ranks_(model.ranks.size()),
      known_(1024) {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) hold_inputs(r);
}

// q, kv and dout hold the rank's own rows, padding included.
void Contents::hold_inputs(std::uint32_t r) {
  const RankModel& rank = model_.ranks[r];
  const Problem& p = model_.plan->scenario.problem;
  const std::int64_t n = tokens_.rows(rank.plan->replica),
                     id = tokens_.first_row(rank.plan->replica, rank.plan->position);
  ranks_[r].buffers.resize(rank.plan->buffers.size());
  for (std::uint32_t b = 0; b < rank.plan->buffers.size(); ++b) {
    const Buffer& buffer = rank.plan->buffers[b];
    if (buffer.category != Category::input) continue;
    const auto hold = [&](Holds holds, std::int64_t begin, std::int64_t width) {
      if (n == 0) return;
      Region& slot = region(r, b, 0);
      const auto from = static_cast<std::int32_t>(begin), to = static_cast<std::int32_t>(begin + width);
      slot.align(0, static_cast<std::int32_t>(buffer.heads), from, to);
      Value value;
      value.holds = holds;
      value.shift = id;
      value.width_shift = -from;
      for (Column& column : slot.columns())
        if (column.width_begin >= from && column.width_end <= to) column.pieces.push_back({0, n, value});
    };
    const auto is = [&](std::int64_t heads, std::int64_t width) {
      return buffer.slots == 1 && buffer.rows == n && buffer.heads == heads && buffer.width == width;
    };
    if (buffer.name == "q" && is(p.heads, p.head_size)) {
      hold(Holds::q, 0, p.head_size);
    } else if (buffer.name == "kv" && is(p.kv_heads, p.head_size + p.value_size)) {
      hold(Holds::k, 0, p.head_size);
      hold(Holds::v, p.head_size, p.value_size);
    } else if (buffer.name == "dout" && is(p.heads, p.value_size)) {
      hold(Holds::dout, 0, p.value_size);
    } else {
      findings_.add(FindingKind::coverage, rank.plan, none, b,
                    "input " + buffer.name + " is none that this problem has, or not of its shape");
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

std::uint32_t Contents::writer(Site s, const Box& box) {
  if (box.empty()) return none;
  ranks_[s.rank].writes.push_back({s.operation, box.buffer, false});
  return static_cast<std::uint32_t>(ranks_[s.rank].writes.size() - 1);
}

void Contents::mark_read(std::uint32_t r, const Runs& runs) {
  for (const Run& run : runs)
    if (run.value.writer != none) ranks_[r].writes[run.value.writer].read = true;
}

// What came of something wrong is no leak besides.
void Contents::excuse(std::uint32_t r, const Runs& runs, std::uint32_t writer) {
  if (writer == none) return;
  for (const Run& run : runs)
    if (run.value.holds == Holds::unknown) ranks_[r].writes[writer].read = true;
}

void Contents::report(Site s, FindingKind kind, const Box& box, const std::string& what) {
  const RankModel& rank = model_.ranks[s.rank];
  findings_.add(kind, rank.plan, s.operation, box.buffer, describe_operation(rank, s.operation) + " " + what);
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
    // Other columns of the same heads must say the same, or nothing is known.
    bool same = runs.size() == into.size();
    for (std::size_t i = 0; same && i < runs.size(); ++i) {
      runs[i].value.writer = into[i].value.writer;
      same = runs[i].first == into[i].first && runs[i].value == into[i].value;
    }
    if (same) continue;
    const bool lost =
        std::any_of(into.begin(), into.end(), [](const Run& x) { return x.value.holds == Holds::nothing; }) ||
        std::any_of(runs.begin(), runs.end(), [](const Run& x) { return x.value.holds == Holds::nothing; });
    Value mixed;
    mixed.holds = lost ? Holds::nothing : Holds::constant;
    runs.assign(1, {0, box.rows, box.low, 1, mixed});
  }
  for (Run& run : runs) {
    if (!run.value.located()) continue;
    run.value.head_shift += box.head_begin;
    run.value.width_shift += box.width_begin;
  }
}

void Contents::write(std::uint32_t r, const Box& box, Heads heads, Runs& runs, std::uint32_t writer) {
  excuse(r, runs, writer);
  for (Run& run : runs) {
    run.value.writer = writer;
    const bool located = run.value.located();
    run.value.head_shift = located ? run.value.head_shift - box.head_begin : 0;
    run.value.width_shift = located ? run.value.width_shift - box.width_begin : 0;
  }
  Region& slot = region(r, box.buffer, box.slot_begin);
  const std::int32_t from = box.head_begin + heads.begin, to = box.head_begin + heads.end;
  slot.align(from, to, box.width_begin, box.width_end);
  for (Column& c : slot.columns())
    if (c.head_begin >= from && c.head_end <= to && c.width_begin >= box.width_begin &&
        c.width_end <= box.width_end)
      write_rows(c, box, runs);
}

void Contents::write_unknown(Site s, const Box& box, std::uint32_t writer) {
  if (box.empty()) return;
  Value unknown;
  unknown.holds = Holds::unknown;
  Box slot = box;
  for (std::int32_t k = box.slot_begin; k < box.slot_end; ++k) {
    slot.slot_begin = k, slot.slot_end = k + 1;
    for (const Column& c :
         region(s.rank, box.buffer, k).columns()) {  // what it replaces may have been needed
      read_rows(c, slot, joined_);
      mark_read(s.rank, joined_);
    }
    Runs runs{{0, box.rows, 0, 1, unknown}};
    write(s.rank, slot, {0, box.heads()}, runs, writer);
  }
}

// Heads at which some operand's columns end: between them every operand says one thing.
std::vector<Contents::Heads> Contents::cut_heads(std::uint32_t r, std::initializer_list<Operand> operands,
                                                 std::int32_t heads) {
  std::vector<std::int32_t> cuts;
  for (const Operand& o : operands) {
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

// Calls visit(runs, column of `into`, slot of it) for what every column of `from` holds; shifts are those
// that the values will have in `into`.
template <class Visit>
void Contents::for_each_column(std::uint32_t from_rank, const Box& from, std::uint32_t into_rank,
                               const Box& into, Visit visit) {
  if (from.empty()) return;
  for (std::int32_t k = 0; k < from.slots(); ++k) {
    std::vector<Column> copied;  // only where source and target may be the same columns
    const bool same = from_rank == into_rank && from.buffer == into.buffer;
    region(into_rank, into.buffer, into.slot_begin + k);  // may grow the list that holds the source
    if (same) copied = region(from_rank, from.buffer, from.slot_begin + k).columns();
    const std::vector<Column>& columns =
        same ? copied : region(from_rank, from.buffer, from.slot_begin + k).columns();
    for (const Column& c : columns) {
      const std::int32_t h0 = std::max(c.head_begin, from.head_begin),
                         h1 = std::min(c.head_end, from.head_end);
      const std::int32_t w0 = std::max(c.width_begin, from.width_begin),
                         w1 = std::min(c.width_end, from.width_end);
      if (h0 >= h1 || w0 >= w1) continue;
      read_rows(c, from, a_);
      mark_read(from_rank, a_);
      const std::int32_t heads = into.head_begin - from.head_begin,
                         width = into.width_begin - from.width_begin;
      for (Run& run : a_) {
        if (!run.value.located()) continue;
        run.value.head_shift -= heads;
        run.value.width_shift -= width;
      }
      Region& slot = region(into_rank, into.buffer, into.slot_begin + k);
      slot.align(h0 + heads, h1 + heads, w0 + width, w1 + width);
      for (Column& t : slot.columns())
        if (t.head_begin >= h0 + heads && t.head_end <= h1 + heads && t.width_begin >= w0 + width &&
            t.width_end <= w1 + width)
          visit(a_, t);
    }
  }
}

void Contents::move(Site s, std::uint32_t from_rank, const Box& from, const Box& into, bool report_nothing,
                    std::uint32_t writer) {
  for_each_column(from_rank, from, s.rank, into, [&](Runs& runs, Column& column) {
    for (Run& run : runs) {
      run.value.writer = writer;
      if (!report_nothing || run.value.holds != Holds::nothing) continue;
      report(s, FindingKind::uninitialised, from,
             "reads " + describe_box(model_.ranks[from_rank], from) + ", part of which nobody has written");
      run.value.holds = Holds::unknown;
    }
    excuse(s.rank, runs, writer);
    write_rows(column, into, runs);
  });
}

// into += from, row by row.
void Contents::add(Site s, std::uint32_t from_rank, const Box& from, const Box& into, bool report_nothing,
                   std::uint32_t writer) {
  for_each_column(from_rank, from, s.rank, into, [&](Runs& runs, Column& column) {
    read_rows(column, into, b_);
    mark_read(s.rank, b_);
    joined_.clear();
    zip(runs, b_, [&](const Run& a, const Run& b, std::int64_t first, std::int64_t count) {
      Run sum = b.value.located() ? b : a;
      sum.first = first;
      sum.count = count;
      if (a.value.holds == Holds::nothing || b.value.holds == Holds::nothing) {
        sum.value = Value{};
        if (report_nothing) {
          const bool source = a.value.holds == Holds::nothing;
          report(s, FindingKind::uninitialised, source ? from : into,
                 "adds " + describe_box(model_.ranks[source ? from_rank : s.rank], source ? from : into) +
                     ", part of which nobody has written");
          sum.value.holds = Holds::unknown;
        }
      } else {
        sum.value = join(s, into, a, b);
      }
      sum.value.writer = writer;
      joined_.push_back(sum);
    });
    excuse(s.rank, joined_, writer);
    write_rows(column, into, joined_);
  });
}

// The sum of two partial results of the same rows.
Value Contents::join(Site s, const Box& into, const Run& a, const Run& b) {
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
  const bool summable =
      x.holds == Holds::out || x.holds == Holds::dq || x.holds == Holds::dk || x.holds == Holds::dv;
  if (x.holds != y.holds || !summable)
    return wrong("adds " + std::string(name(x.holds)) + " to " + std::string(name(y.holds)));
  if (a.id() != b.id() || x.head_shift != y.head_shift || x.width_shift != y.width_shift)
    return wrong("adds " + std::string(name(x.holds)) + " of " + tokens_.describe(tokens_.at(a.id())) +
                 " to that of " + tokens_.describe(tokens_.at(b.id())) +
                 (a.id() == b.id() ? " in other heads or columns" : ""));
  if (x.norm != y.norm) return wrong("adds parts of out that are normalised by different keys");
  const auto set = sets_.join(x.set, y.set);
  if (!set)
    return wrong("adds contributions to " + std::string(name(x.holds)) + " that cover a pair twice, for " +
                 tokens_.describe(tokens_.at(b.id())));
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
    if (!box.empty()) write(s.rank, slot, {0, box.heads()}, runs, w);
  }
}

void Contents::run(std::uint32_t r, std::uint32_t i) {
  const RankModel& rank = model_.ranks[r];
  const Site s{r, i};
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
    case OpKind::merge: return merge(s);
    case OpKind::copy:
    case OpKind::cast:
      return move(s, r, box_of_read(s, 0), box_of_write(s, 0), true, writer(s, box_of_write(s, 0)));
    case OpKind::add:
      return add(s, r, box_of_read(s, 0), box_of_write(s, 0), true, writer(s, box_of_write(s, 0)));
    case OpKind::fill: return fill(s, op, box_of_write(s, 0));
    default: return;
  }
}

// Regions that hold nothing may travel: the target then holds nothing.
void Contents::transfer(std::uint32_t from_rank, std::uint32_t, const Part& send, std::uint32_t into_rank,
                        std::uint32_t receive_operation, const Part& receive, bool fits, bool first) {
  const Site s{into_rank, receive_operation};
  const Box &from = model_.ranks[from_rank].boxes[send.view],
            &into = model_.ranks[into_rank].boxes[receive.view];
  if (!fits) return write_unknown(s, into);
  first ? move(s, from_rank, from, into, false, none) : add(s, from_rank, from, into, false, none);
}

// A sum over the group of results of the same rows; of equal values the maximum is one of them.
void Contents::all_reduce(std::span<const std::pair<std::uint32_t, std::uint32_t>> members) {
  for (const auto& [r, i] : members)
    if (model_.ranks[r].forms[i] != Form::good) {
      for (const auto& [q, j] : members)
        for (const Access& a : model_.ranks[q].writes(j))
          write_unknown({q, j}, model_.ranks[q].boxes[a.view]);
      return;
    }
  // The first member's target collects the sum; what the others hold is read before anything is overwritten.
  const Site root{members[0].first, members[0].second};
  const Box& target = box_of_write(root, 0);
  const bool max = model_.ranks[root.rank].op(root.operation).reduction == Reduction::max;
  move(root, root.rank, box_of_read(root, 0), target, true, none);
  for (const auto& [r, i] : members.subspan(1))
    if (!max) add(root, r, box_of_read({r, i}, 0), target, true, none);
  if (max) write_unknown(root, target);  // a maximum is no sum that this checker follows
  for (const auto& [r, i] : members.subspan(1))
    move({r, i}, root.rank, target, box_of_write({r, i}, 0), false, none);
}

// ---- the end ------------------------------------------------------------------------------------

void Contents::finish() {
  const Problem& p = model_.plan->scenario.problem;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    check_output(r, "out", Holds::out, 0, p.value_size);
    check_output(r, "lse", Holds::lse, 0, 1);
    if (p.direction == Direction::forward_backward) {
      check_output(r, "dq", Holds::dq, 0, p.head_size);
      check_output(r, "dkv", Holds::dk, 0, p.head_size);
      check_output(r, "dkv", Holds::dv, p.head_size, p.head_size + p.value_size);
    }
    find_leaks(r);
  }
}

void Contents::check_output(std::uint32_t r, std::string_view wanted, Holds holds, std::int64_t width_begin,
                            std::int64_t width_end) {
  const RankModel& rank = model_.ranks[r];
  const Problem& p = model_.plan->scenario.problem;
  const std::int64_t rows = tokens_.rows(rank.plan->replica), heads = wanted == "dkv" ? p.kv_heads : p.heads;
  if (rows == 0) return;
  const auto& list = rank.plan->buffers;
  const auto at = std::find_if(list.begin(), list.end(), [&](const Buffer& b) {
    return b.name == wanted && b.category == Category::output;
  });
  if (at == list.end() || at->slots != 1 || at->rows != rows || at->heads != heads || at->width < width_end)
    return findings_.add(FindingKind::uninitialised, rank.plan, none, none,
                         "rank " + std::to_string(rank.plan->rank) + " has no output " + std::string(wanted) +
                             " of the problem's shape");
  Box box;
  box.buffer = static_cast<std::uint32_t>(at - list.begin());
  box.width_begin = static_cast<std::int32_t>(width_begin);
  Region& slot = region(r, box.buffer, 0);
  slot.align(0, static_cast<std::int32_t>(heads), box.width_begin, static_cast<std::int32_t>(width_end));
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
            tokens_.describe(
                tokens_.at(tokens_.first_row(rank.plan->replica, rank.plan->position) + end).part(0, 1)) +
            ") and maybe more is never written");
  }
}

void Contents::check_piece(Site s, const Box& box, const Column& c, const Piece& piece, Holds holds) {
  const RankModel& rank = model_.ranks[s.rank];
  const Value& v = piece.value;
  if (v.holds == Holds::unknown) return;
  const std::int64_t id = tokens_.first_row(rank.plan->replica, rank.plan->position) + piece.begin,
                     count = piece.end - piece.begin;
  const Axis axis = holds == Holds::dk || holds == Holds::dv ? Axis::keys : Axis::queries;
  const auto wrong = [&](const std::string& what) {
    findings_.add(FindingKind::coverage, rank.plan, none, box.buffer,
                  "output " + rank.plan->buffers[box.buffer].name + " heads " + std::to_string(c.head_begin) +
                      ".." + std::to_string(c.head_end - 1) + " " + what);
  };
  const bool blank = v.holds == (holds == Holds::lse ? Holds::minus_infinity : Holds::zero);
  if (!blank) {
    bool padding = axis == Axis::keys || holds == Holds::dq;  // of gradients: anything that is written
    if (padding) tokens_.for_each(id, count, [&](const Stretch& t) { padding = padding && t.valid == 0; });
    if (padding) return;
    if (v.holds != holds)
      return wrong("holds " + std::string(name(v.holds)) + " where " + std::string(name(holds)) + " belongs");
    if (piece.begin + v.shift != id || v.head_shift != 0 || v.width_shift != -box.width_begin)
      return wrong("holds the rows, heads or columns of " +
                   tokens_.describe(tokens_.at(piece.begin + v.shift)) + " at " +
                   tokens_.describe(tokens_.at(id)));
    if (holds == Holds::out && v.set != v.norm)
      return wrong("is normalised by other keys than it covers, for " + tokens_.describe(tokens_.at(id)));
  }
  const std::uint32_t set = blank ? 0 : v.set;
  if (!complete(axis, id, count, set)) wrong(missing(axis, id, count, set));
}

void Contents::find_leaks(std::uint32_t r) {
  const RankModel& rank = model_.ranks[r];
  for (const Write& w : ranks_[r].writes) {
    if (w.read) continue;
    findings_.add(FindingKind::leak, rank.plan, w.operation, w.buffer,
                  "what " + describe_operation(rank, w.operation) + " writes into " +
                      rank.plan->buffers[w.buffer].name + " is never read");
  }
}

namespace {

Value unknown_value() {
  Value value;
  value.holds = Holds::unknown;
  return value;
}

bool same_rows(const Run& a, const Run& b) {
  return a.id() == b.id() && (a.count == 1 || b.count == 1 || a.step == b.step);
}

}  // namespace

// ---- what operands must hold --------------------------------------------------------------------

bool Contents::expect(Site s, const Box& box, const Runs& runs, Holds wanted, std::int32_t head) {
  bool good = true;
  for (const Run& run : runs) {
    const Value& v = run.value;
    if (v.holds == wanted && v.head_shift == head && v.width_shift == 0) continue;
    good = false;
    if (v.holds == Holds::unknown) continue;
    const std::string place = describe_box(model_.ranks[s.rank], box);
    if (v.holds == Holds::nothing)
      report(s, FindingKind::uninitialised, box, "reads " + place + ", part of which nobody has written");
    else if (v.holds != wanted)
      report(s, FindingKind::coverage, box,
             "reads " + std::string(name(v.holds)) + " in " + place + " where it needs " +
                 std::string(name(wanted)));
    else
      report(s, FindingKind::coverage, box,
             "reads " + std::string(name(wanted)) + " in " + place + " from head " +
                 std::to_string(v.head_shift) + " on, but needs it from head " + std::to_string(head) +
                 " on, all columns");
  }
  return good;
}

bool Contents::expect_same_rows(Site s, const Box& box, const Runs& a, const Runs& b) {
  bool good = true;
  zip(a, b, [&](const Run& x, const Run& y, std::int64_t, std::int64_t) {
    if (!good || !x.value.located() || !y.value.located() || same_rows(x, y)) return;
    good = false;
    report(s, FindingKind::coverage, box,
           "reads " + std::string(name(y.value.holds)) + " of " + tokens_.describe(tokens_.at(y.id())) +
               " beside " + std::string(name(x.value.holds)) + " of " + tokens_.describe(tokens_.at(x.id())));
  });
  return good;
}

// Query head h belongs to key head h / (H / G).
bool Contents::expect_group(Site s, const Operation& op, const Box& q, const Box& k, const Runs& k_runs) {
  const Problem& p = model_.plan->scenario.problem;
  const auto group = static_cast<std::int32_t>(p.heads / p.kv_heads);
  if (k_runs.empty()) return true;
  const std::int32_t head = k_runs.front().value.head_shift;
  bool good = q.heads() == k.heads() * group && op.head_begin == head * group;
  if (!good && op.kind == OpKind::attend && k.heads() == 1)  // part of a group
    good = op.head_begin / group == head && (op.head_end - 1) / group == head;
  if (!good)
    report(s, FindingKind::coverage, k,
           "takes query heads " + std::to_string(op.head_begin) + ".." + std::to_string(op.head_end - 1) +
               " with key heads " + std::to_string(head) + ".." + std::to_string(head + k.heads() - 1) +
               ", which are not their group");
  return good;
}

bool Contents::complete(Axis axis, std::int64_t id, std::int64_t count, std::uint32_t set) {
  const std::uint64_t hash = (static_cast<std::uint64_t>(id) * 31 + static_cast<std::uint64_t>(count)) * 31 +
                             set * 2 + (axis == Axis::keys);
  Known& known = known_[hash % known_.size()];
  if (known.id == id && known.count == count && known.set == set && known.axis == axis) return known.result;
  bool result = true;
  tokens_.for_each(id, count, [&](const Stretch& t) {
    if (t.valid == 0) return;
    std::int64_t left = axis == Axis::queries ? tokens_.live_of_queries(t) : tokens_.live_of_keys(t);
    for (const Sets::Interval& i : sets_[set])
      left -= axis == Axis::queries ? tokens_.live_with_keys(t, i.begin, i.end)
                                    : tokens_.live_with_queries(t, i.begin, i.end);
    result = result && left == 0;
  });
  known = {id, count, set, axis, result};
  return result;
}

std::string Contents::missing(Axis axis, std::int64_t id, std::int64_t count, std::uint32_t set) const {
  std::string text;
  tokens_.for_each(id, count, [&](const Stretch& t) {
    if (t.valid == 0 || !text.empty()) return;
    std::int64_t left = axis == Axis::queries ? tokens_.live_of_queries(t) : tokens_.live_of_keys(t);
    for (const Sets::Interval& i : sets_[set])
      left -= axis == Axis::queries ? tokens_.live_with_keys(t, i.begin, i.end)
                                    : tokens_.live_with_queries(t, i.begin, i.end);
    if (left == 0) return;
    text = "lacks " + std::to_string(left) + " live (query, key) pairs of the " +
           (axis == Axis::queries ? "queries " : "keys ") + tokens_.describe(t.part(0, t.valid));
  });
  return text;
}

bool Contents::expect_complete_lse(Site s, const Box& box, const Runs& q, const Runs& lse) {
  bool good = true;
  zip(q, lse, [&](const Run& x, const Run& y, std::int64_t, std::int64_t count) {
    const Value& v = y.value;
    if (!good) return;
    good = false;
    if (v.holds == Holds::unknown) return;
    if (v.holds == Holds::nothing)
      return report(
          s, FindingKind::uninitialised, box,
          "reads " + describe_box(model_.ranks[s.rank], box) + ", part of which nobody has written");
    const bool blank = v.holds == Holds::minus_infinity;
    if (!blank && v.holds != Holds::lse)
      return report(s, FindingKind::coverage, box,
                    "reads " + std::string(name(v.holds)) + " where it needs lse");
    if (!blank && (!same_rows(x, y) || v.head_shift != x.value.head_shift))
      return report(s, FindingKind::coverage, box, "reads the lse of other queries or heads than its q");
    const std::uint32_t set = blank ? 0 : v.set;
    bool all = true;
    if (x.step == 1) all = complete(Axis::queries, x.id(), count, set);
    for (std::int64_t i = 0; x.step != 1 && i < count; ++i)
      all = all && complete(Axis::queries, x.id() + i * x.step, 1, set);
    if (!all)
      return report(s, FindingKind::coverage, box,
                    "reads an lse that " + missing(Axis::queries, x.id(), x.step == 1 ? count : 1, set));
    good = true;
  });
  return good;
}

// ---- tiles --------------------------------------------------------------------------------------

void Contents::places(const Runs& runs, std::int64_t begin, std::int64_t count,
                      std::vector<Place>& result) const {
  result.clear();
  auto run = runs.begin();
  if (runs.size() > 4)
    run = std::partition_point(runs.begin(), runs.end(),
                               [&](const Run& x) { return x.first + x.count <= begin; });
  for (; run != runs.end() && run->first < begin + count; ++run) {
    std::int64_t at = std::max(run->first, begin);
    const std::int64_t end = std::min(run->first + run->count, begin + count);
    std::int64_t id = run->id() + (at - run->first) * run->step;
    while (at < end) {
      Stretch stretch = tokens_.at(id);
      const std::int64_t take = run->step == 1 ? std::min(stretch.count, end - at) : 1;
      if (take < stretch.count) stretch = stretch.part(0, take);
      result.push_back({stretch, at - begin, at});
      at += take;
      id += take * run->step;
    }
  }
}

// Tests every segment against the mask and collects what the tile covers, by query and by key.
void Contents::cover_tile(Site s, const Runs& q, const Runs& k) {
  by_query_.clear();
  by_key_.clear();
  const Box& k_box = box_of_read(s, 1);
  for (const Segment& segment : model_.ranks[s.rank].segments(s.operation)) {
    places(q, segment.q_begin, segment.q_count, q_places_);
    places(k, segment.k_begin, segment.k_count, k_places_);
    for (const Place& x : q_places_) {
      for (const Place& y : k_places_) {
        bool live = false;
        const Pairs pairs = compare_band(tokens_, segment, x.stretch, x.at, y.stretch, y.at, live);
        if (live && x.stretch.sequence == y.stretch.sequence) {
          by_query_.push_back({x.view, x.stretch.count, y.stretch.token, y.stretch.token + y.stretch.count});
          by_key_.push_back({y.view, y.stretch.count, x.stretch.token, x.stretch.token + x.stretch.count});
        }
        if (pairs == Pairs::right) continue;
        const char* what = pairs == Pairs::padding   ? "touches padding rows"
                           : pairs == Pairs::foreign ? "attends across sequences"
                           : pairs == Pairs::dead    ? "computes pairs that the mask forbids"
                                                     : "leaves out pairs that the mask allows";
        report(s, FindingKind::coverage, k_box,
               std::string(what) + ": queries " + tokens_.describe(x.stretch) + " with keys " +
                   tokens_.describe(y.stretch));
      }
    }
  }
}

// The rows of a tile's result with their sets; rows in no segment are empty partials.
void Contents::tile_runs(const Runs& rows, const std::vector<Cover>& covers, Holds holds,
                         Runs& result) const {
  result.clear();
  auto cover = covers.begin();
  for (const Run& run : rows) {
    std::int64_t at = run.first;
    const std::int64_t end = run.first + run.count;
    while (at < end) {
      while (cover != covers.end() && cover->first + cover->count <= at) ++cover;
      const bool inside = cover != covers.end() && cover->first <= at;
      const std::int64_t stop =
          cover == covers.end() ? end : std::min(end, inside ? cover->first + cover->count : cover->first);
      Run piece = advanced(run, at);
      piece.count = stop - at;
      piece.value.holds = holds;
      piece.value.set = inside ? cover->set : 0;
      piece.value.norm = holds == Holds::out ? piece.value.set : 0;
      piece.value.width_shift = 0;
      result.push_back(piece);
      at = stop;
    }
  }
}

void Contents::attend(Site s, const Operation& op) {
  const Box &q = box_of_read(s, 0), &k = box_of_read(s, 1), &v = box_of_read(s, 2);
  const Box &out = box_of_write(s, 0), &lse = box_of_write(s, 1);
  const Problem& p = model_.plan->scenario.problem;
  std::int64_t pairs = 0;
  constexpr std::int64_t far = std::int64_t{1} << 42;
  for (const Segment& g : model_.ranks[s.rank].segments(s.operation))
    pairs += pairs_in_band(g.q_count, g.k_count, g.left < 0 ? -far : g.offset - g.left,
                           g.right < 0 ? far : g.offset + g.right);
  result_.flops[s.rank] +=
      static_cast<double>(pairs) * q.heads() * 2 * static_cast<double>(p.head_size + p.value_size);
  if (out.empty()) return;
  const std::uint32_t out_writer = writer(s, out), lse_writer = writer(s, lse);
  const std::int32_t ratio = q.heads() / k.heads();
  for (const Heads h :
       cut_heads(s.rank, {{&q, 1}, {&k, ratio}, {&v, ratio}, {&out, 1}, {&lse, 1}}, q.heads())) {
    const Heads g{h.begin / ratio, (h.end + ratio - 1) / ratio};
    read(s.rank, q, h, q_);
    read(s.rank, k, g, k_);
    read(s.rank, v, g, v_);
    bool good = expect(s, q, q_, Holds::q, op.head_begin);
    const std::int32_t kv_head = k_.empty() ? 0 : k_.front().value.head_shift;
    good = expect(s, k, k_, Holds::k, kv_head) && good;
    good = expect(s, v, v_, Holds::v, kv_head) && good;
    good = good && expect_same_rows(s, v, k_, v_) && expect_group(s, op, q, k, k_);
    if (good) {
      cover_tile(s, q_, k_);
      if (!collect(by_query_, sets_, covers_))
        report(s, FindingKind::coverage, k, "covers a pair twice by its own segments");
      tile_runs(q_, covers_, Holds::out, tile_);
    } else {
      tile_.assign(1, {0, q.rows, 0, 1, unknown_value()});
    }
    if (mode_of_write(s, 0) == WriteMode::merge) {
      merge_into(s, out, lse, h, tile_, out_writer, lse_writer);
      continue;
    }
    b_ = tile_;
    write(s.rank, out, h, tile_, out_writer);
    for (Run& run : b_)
      if (run.value.holds == Holds::out) run.value.holds = Holds::lse, run.value.norm = 0;
    write(s.rank, lse, h, b_, lse_writer);
  }
}

void Contents::attend_backward(Site s, const Operation& op) {
  const Box &q = box_of_read(s, 0), &k = box_of_read(s, 1), &v = box_of_read(s, 2), &dout = box_of_read(s, 3);
  const Box &lse = box_of_read(s, 4), &delta = box_of_read(s, 5);
  const Box &dq = box_of_write(s, 0), &dk = box_of_write(s, 1), &dv = box_of_write(s, 2);
  const Problem& p = model_.plan->scenario.problem;
  std::int64_t pairs = 0;
  constexpr std::int64_t far = std::int64_t{1} << 42;
  for (const Segment& g : model_.ranks[s.rank].segments(s.operation))
    pairs += pairs_in_band(g.q_count, g.k_count, g.left < 0 ? -far : g.offset - g.left,
                           g.right < 0 ? far : g.offset + g.right);
  result_.flops[s.rank] +=
      static_cast<double>(pairs) * q.heads() * 2 * static_cast<double>(3 * p.head_size + 2 * p.value_size);
  const std::uint32_t dq_writer = writer(s, dq), dk_writer = writer(s, dk);
  const std::uint32_t dv_writer = dv.buffer == dk.buffer ? dk_writer : writer(s, dv);
  const std::int32_t ratio = q.heads() / k.heads();
  for (const Heads h : cut_heads(s.rank,
                                 {{&q, 1},
                                  {&k, ratio},
                                  {&v, ratio},
                                  {&dout, 1},
                                  {&lse, 1},
                                  {&delta, 1},
                                  {&dq, 1},
                                  {&dk, ratio},
                                  {&dv, ratio}},
                                 q.heads())) {
    const Heads g{h.begin / ratio, (h.end + ratio - 1) / ratio};
    read(s.rank, q, h, q_);
    read(s.rank, k, g, k_);
    read(s.rank, v, g, v_);
    read(s.rank, dout, h, dout_);
    read(s.rank, lse, h, lse_);
    read(s.rank, delta, h, delta_);
    const std::int32_t kv_head = k_.empty() ? 0 : k_.front().value.head_shift;
    bool good = expect(s, q, q_, Holds::q, op.head_begin);
    good = expect(s, k, k_, Holds::k, kv_head) && good;
    good = expect(s, v, v_, Holds::v, kv_head) && good;
    good = expect(s, dout, dout_, Holds::dout, op.head_begin) && good;
    good = expect(s, delta, delta_, Holds::delta, op.head_begin) && good;
    good = good && expect_complete_lse(s, lse, q_, lse_) && expect_same_rows(s, v, k_, v_) &&
           expect_same_rows(s, dout, q_, dout_) && expect_same_rows(s, delta, q_, delta_) &&
           expect_group(s, op, q, k, k_);
    if (!good) {
      write_unknown(s, dq, dq_writer);
      write_unknown(s, dk, dk_writer);
      write_unknown(s, dv, dv_writer);
      continue;
    }
    cover_tile(s, q_, k_);
    if (!collect(by_query_, sets_, covers_))
      report(s, FindingKind::coverage, k, "covers a pair twice by its own segments");
    tile_runs(q_, covers_, Holds::dq, tile_);
    store_or_add(s, dq, h, tile_, mode_of_write(s, 0), dq_writer);
    collect(by_key_, sets_, covers_);
    tile_runs(k_, covers_, Holds::dk, tile_);
    store_or_add(s, dk, g, tile_, mode_of_write(s, 1), dk_writer);
    tile_runs(v_, covers_, Holds::dv, tile_);
    store_or_add(s, dv, g, tile_, mode_of_write(s, 2), dv_writer);
  }
}

// Rows to which the tile contributes nothing are stored as zero, but stay as they are in an add.
void Contents::store_or_add(Site s, const Box& box, Heads heads, Runs& tile, WriteMode mode,
                            std::uint32_t writer) {
  if (box.empty()) return;
  if (mode == WriteMode::store) return write(s.rank, box, heads, tile, writer);
  read(s.rank, box, heads, b_);
  Runs sum;
  zip(tile, b_, [&](const Run& a, const Run& b, std::int64_t first, std::int64_t count) {
    Run result = b.value.located() ? b : a;
    result.first = first;
    result.count = count;
    if (a.value.set == 0) {
      result.value = b.value;
    } else if (b.value.holds == Holds::nothing) {
      report(s, FindingKind::uninitialised, box,
             "adds to " + describe_box(model_.ranks[s.rank], box) + ", part of which nobody has written");
      result.value = unknown_value();
    } else {
      result.value = join(s, box, a, b);
    }
    sum.push_back(result);
  });
  write(s.rank, box, heads, sum, writer);
}

// delta of rows whose out and dout are complete.
void Contents::row_dot(Site s) {
  const Box &dout = box_of_read(s, 0), &out = box_of_read(s, 1), &delta = box_of_write(s, 0);
  if (delta.empty()) return;
  const std::uint32_t w = writer(s, delta);
  for (const Heads h : cut_heads(s.rank, {{&dout, 1}, {&out, 1}, {&delta, 1}}, dout.heads())) {
    read(s.rank, dout, h, a_);
    read(s.rank, out, h, b_);
    const std::int32_t head = a_.empty() ? 0 : a_.front().value.head_shift;
    const bool good = expect(s, dout, a_, Holds::dout, head);
    Runs result;
    zip(a_, b_, [&](const Run& a, const Run& b, std::int64_t first, std::int64_t count) {
      Run run = a;
      run.first = first;
      run.count = count;
      run.value.holds = Holds::delta;
      const Value& v = b.value;
      const auto wrong = [&](FindingKind kind, const std::string& what) {
        report(s, kind, out, what);
        run.value = unknown_value();
      };
      const std::uint32_t set = v.holds == Holds::zero ? 0 : v.set;
      if (!good || v.holds == Holds::unknown) {
        run.value = unknown_value();
      } else if (v.holds == Holds::nothing) {
        wrong(FindingKind::uninitialised,
              "reads " + describe_box(model_.ranks[s.rank], out) + ", part of which nobody has written");
      } else if (v.holds != Holds::zero && v.holds != Holds::out) {
        wrong(FindingKind::coverage, "reads " + std::string(name(v.holds)) + " where it needs out");
      } else if (v.holds == Holds::out && (!same_rows(a, b) || v.head_shift != head || v.width_shift != 0)) {
        wrong(FindingKind::coverage, "reads the out of other queries or heads than its dout");
      } else if (v.holds == Holds::out && v.set != v.norm) {
        wrong(FindingKind::coverage, "reads an out that is normalised by other keys than it covers");
      } else if (a.step == 1 && !complete(Axis::queries, a.id(), count, set)) {
        wrong(FindingKind::coverage, "reads an out that " + missing(Axis::queries, a.id(), count, set));
      }
      run.value.set = run.value.norm = 0;
      result.push_back(run);
    });
    write(s.rank, delta, h, result, w);
  }
}

// ---- merges -------------------------------------------------------------------------------------

// Joins out and lse of one partial result into runs of `out`. own_norm: the LSE must be of the keys that out
// covers.
void Contents::pair_up(Site s, const Box& out_box, const Box& lse_box, const Runs& out, const Runs& lse,
                       bool own_norm, Runs& result) {
  result.clear();
  zip(out, lse, [&](const Run& a, const Run& b, std::int64_t first, std::int64_t count) {
    const Value &x = a.value, &y = b.value;
    Run run = x.located() ? a : b;
    run.first = first;
    run.count = count;
    const auto wrong = [&](FindingKind kind, const Box& box, const std::string& what) {
      report(s, kind, box, what);
      run.value = unknown_value();
      result.push_back(run);
    };
    const auto unwritten = [&](const Box& box) {
      wrong(FindingKind::uninitialised, box,
            "reads " + describe_box(model_.ranks[s.rank], box) + ", part of which nobody has written");
    };
    if (x.holds == Holds::nothing) return unwritten(out_box);
    if (y.holds == Holds::nothing) return unwritten(lse_box);
    if (x.holds == Holds::unknown || y.holds == Holds::unknown) {
      run.value = unknown_value();
      return result.push_back(run);
    }
    if (x.holds != Holds::out && x.holds != Holds::zero)
      return wrong(FindingKind::coverage, out_box,
                   "reads " + std::string(name(x.holds)) + " where it needs out");
    if (y.holds != Holds::lse && y.holds != Holds::minus_infinity)
      return wrong(FindingKind::coverage, lse_box,
                   "reads " + std::string(name(y.holds)) + " where it needs lse");
    const std::uint32_t norm = y.holds == Holds::lse ? y.set : 0;
    if (x.holds == Holds::out) {
      if (x.width_shift != 0 || (y.holds == Holds::lse && (!same_rows(a, b) || x.head_shift != y.head_shift)))
        return wrong(FindingKind::coverage, lse_box,
                     "reads the lse of " + tokens_.describe(tokens_.at(b.id())) + " beside the out of " +
                         tokens_.describe(tokens_.at(a.id())) + " or of other heads");
      if (x.norm != norm)
        return wrong(FindingKind::coverage, out_box,
                     "reads an out that is not normalised by the lse beside it");
    }
    const std::uint32_t set = x.holds == Holds::out ? x.set : 0;
    if (own_norm && set != norm)
      return wrong(FindingKind::coverage, out_box, "reads an out and an lse that cover different keys");
    if (x.holds == Holds::zero && y.holds == Holds::lse)
      run.value.holds = Holds::out, run.value.width_shift = 0;
    if (x.holds == Holds::zero && y.holds == Holds::minus_infinity) run.value = x;
    run.value.set = set;
    run.value.norm = norm;
    result.push_back(run);
  });
}

// (out, lse) of `into` becomes its softmax merge with the partial result `part`.
void Contents::merge_into(Site s, const Box& out, const Box& lse, Heads heads, const Runs& part,
                          std::uint32_t out_writer, std::uint32_t lse_writer) {
  const bool fused = model_.ranks[s.rank].op(s.operation).kind == OpKind::attend;
  read(s.rank, out, heads, into_out_);
  read(s.rank, lse, heads, into_lse_);
  if (fused) {
    // Rows that see no key here stay as they are, whatever that is: they take no part.
    const auto keep = [&](Runs& runs) {
      Runs kept;
      zip(part, runs, [&](const Run& a, const Run& b, std::int64_t first, std::int64_t count) {
        Run run = b;
        run.first = first;
        run.count = count;
        if (a.value.holds == Holds::out && a.value.set == 0) run.value.holds = Holds::zero;
        kept.push_back(run);
      });
      return kept;
    };
    Runs outs = keep(into_out_), lses = keep(into_lse_);
    for (Run& run : lses)
      if (run.value.holds == Holds::zero) run.value.holds = Holds::minus_infinity;
    pair_up(s, out, lse, outs, lses, true, joined_);
  } else {
    pair_up(s, out, lse, into_out_, into_lse_, true, joined_);
  }
  Runs outs, lses;
  zip(part, joined_, [&](const Run& a, const Run& b, std::int64_t first, std::int64_t count) {
    const Value &x = a.value, &y = b.value;
    Run run = y.located() ? b : a;
    run.first = first;
    run.count = count;
    if (x.holds == Holds::unknown || y.holds == Holds::unknown) {
      run.value = unknown_value();
    } else if (x.located() && y.located() && (!same_rows(a, b) || x.head_shift != y.head_shift)) {
      report(s, FindingKind::coverage, out,
             "merges a result of " + tokens_.describe(tokens_.at(a.id())) + " into one of " +
                 tokens_.describe(tokens_.at(b.id())) + (a.id() == b.id() ? " in other heads or rows" : ""));
      run.value = unknown_value();
    } else {
      const auto set = sets_.join(x.located() ? x.set : 0, y.located() ? y.set : 0);
      if (!set)
        report(s, FindingKind::coverage, out,
               "merges keys that are there already: a pair is covered twice, for queries " +
                   tokens_.describe(tokens_.at(b.id())));
      if (set)
        run.value.set = run.value.norm = *set;
      else
        run.value = unknown_value();
    }
    outs.push_back(run);
    if (run.value.holds == Holds::out) run.value.holds = Holds::lse, run.value.norm = 0;
    if (run.value.holds == Holds::zero)
      run.value.holds = Holds::minus_infinity, run.value.set = run.value.norm = 0;
    lses.push_back(run);
  });
  if (fused) {
    const auto restore = [&](Runs& runs, const Runs& old) {
      Runs kept;
      zip(part, old, [&](const Run& a, const Run& b, std::int64_t first, std::int64_t count) {
        zip(runs, {{first, count, 0, 1, {}}}, [&](const Run& c, const Run&, std::int64_t f, std::int64_t n) {
          Run run = a.value.holds == Holds::out && a.value.set == 0 ? advanced(b, f) : c;
          run.first = f;
          run.count = n;
          kept.push_back(run);
        });
      });
      runs = std::move(kept);
    };
    restore(outs, into_out_);
    restore(lses, into_lse_);
  }
  write(s.rank, out, heads, outs, out_writer);
  write(s.rank, lse, heads, lses, lse_writer);
}

void Contents::merge(Site s) {
  const std::size_t reads = model_.ranks[s.rank].reads(s.operation).size();
  const Box& first = box_of_read(s, 0);
  if (first.empty()) return;
  const Box& target = box_of_write(s, 0);
  const std::uint32_t w = writer(s, target);
  if (reads == 1) {  // deferred: the LSEs only
    for (const Heads h : cut_heads(s.rank, {{&first, 1}, {&target, 1}}, first.heads())) {
      read(s.rank, first, h, a_);
      read(s.rank, target, h, b_);
      // As the LSE of an out that covers nothing: the same rules and messages.
      Runs zeros(1, {0, first.rows, 0, 1, {}}), x, y, result;
      zeros[0].value.holds = Holds::zero;
      pair_up(s, first, first, zeros, a_, false, x);
      pair_up(s, target, target, zeros, b_, false, y);
      zip(x, y, [&](const Run& a, const Run& b, std::int64_t f, std::int64_t count) {
        Run run = b.value.located() ? b : a;
        run.first = f;
        run.count = count;
        const bool known = a.value.holds != Holds::unknown && b.value.holds != Holds::unknown;
        const bool both = a.value.located() && b.value.located();
        const auto set =
            sets_.join(a.value.located() ? a.value.norm : 0, b.value.located() ? b.value.norm : 0);
        if (known && both && (!same_rows(a, b) || a.value.head_shift != b.value.head_shift))
          report(s, FindingKind::coverage, target,
                 "folds the lse of " + tokens_.describe(tokens_.at(a.id())) + " into that of " +
                     tokens_.describe(tokens_.at(b.id())));
        else if (known && !set)
          report(s, FindingKind::coverage, target,
                 "folds keys that are there already: a pair is covered twice, for queries " +
                     tokens_.describe(tokens_.at(b.id())));
        else if (known && run.value.located())
          run.value.holds = Holds::lse, run.value.set = *set, run.value.norm = 0;
        else if (known)
          run.value.holds = Holds::minus_infinity;
        if (!known || !set || (both && !same_rows(a, b))) run.value = unknown_value();
        result.push_back(run);
      });
      write(s.rank, target, h, result, w);
    }
    return;
  }
  const Box& part_lse = box_of_read(s, 1);
  if (reads == 2) {  // incremental
    const Box& lse = box_of_write(s, 1);
    const std::uint32_t lse_writer = writer(s, lse);
    for (const Heads h :
         cut_heads(s.rank, {{&first, 1}, {&part_lse, 1}, {&target, 1}, {&lse, 1}}, first.heads())) {
      read(s.rank, first, h, a_);
      read(s.rank, part_lse, h, b_);
      pair_up(s, first, part_lse, a_, b_, true, tile_);
      merge_into(s, target, lse, h, tile_, w, lse_writer);
    }
    return;
  }
  const Box& lse = box_of_read(s, 2);  // deferred: out (+)= part_out exp(part_lse - lse)
  for (const Heads h :
       cut_heads(s.rank, {{&first, 1}, {&part_lse, 1}, {&lse, 1}, {&target, 1}}, first.heads())) {
    read(s.rank, first, h, a_);
    read(s.rank, part_lse, h, b_);
    read(s.rank, lse, h, lse_);
    pair_up(s, first, part_lse, a_, b_, true, tile_);
    Runs scaled;
    zip(tile_, lse_, [&](const Run& a, const Run& b, std::int64_t f, std::int64_t count) {
      const Value& y = b.value;
      Run run = a.value.located() ? a : b;
      run.first = f;
      run.count = count;
      if (y.holds == Holds::nothing)
        report(s, FindingKind::uninitialised, lse,
               "reads " + describe_box(model_.ranks[s.rank], lse) + ", part of which nobody has written");
      else if (y.holds != Holds::lse && y.holds != Holds::minus_infinity && y.holds != Holds::unknown)
        report(s, FindingKind::coverage, lse, "reads " + std::string(name(y.holds)) + " where it needs lse");
      else if (a.value.located() && y.located() && (!same_rows(a, b) || a.value.head_shift != y.head_shift))
        report(s, FindingKind::coverage, lse,
               "rescales a result of " + tokens_.describe(tokens_.at(a.id())) + " by the lse of " +
                   tokens_.describe(tokens_.at(b.id())));
      else if (a.value.holds != Holds::unknown && y.holds != Holds::unknown) {
        const std::uint32_t set = a.value.located() ? a.value.set : 0;
        if (run.value.located()) run.value.holds = Holds::out, run.value.width_shift = 0;
        run.value.set = set;
        run.value.norm = y.holds == Holds::lse ? y.set : 0;
        if (!run.value.located()) run.value.holds = Holds::zero, run.value.set = run.value.norm = 0;
        return scaled.push_back(run);
      }
      run.value = unknown_value();
      scaled.push_back(run);
    });
    if (mode_of_write(s, 0) == WriteMode::store) {
      write(s.rank, target, h, scaled, w);
      continue;
    }
    read(s.rank, target, h, b_);
    Runs sum;
    zip(scaled, b_, [&](const Run& a, const Run& b, std::int64_t f, std::int64_t count) {
      Run run = b.value.located() ? b : a;
      run.first = f;
      run.count = count;
      if (b.value.holds == Holds::nothing)
        report(
            s, FindingKind::uninitialised, target,
            "adds to " + describe_box(model_.ranks[s.rank], target) + ", part of which nobody has written");
      run.value = b.value.holds == Holds::nothing ? unknown_value() : join(s, target, a, b);
      sum.push_back(run);
    });
    write(s.rank, target, h, sum, w);
  }
}

}  // namespace cplab::checking
