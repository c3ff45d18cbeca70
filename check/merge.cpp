// Partial results that become one in the symbolic run: merges (incremental, fused, deferred) and maxima of
// logits, over tiles, lanes and ranks; see check/contents.hpp.
#include "check/contents.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "check/columns.hpp"

namespace cplab::checking {

// ---- merges ---------------------------------------------------------------------------------------

// Joins out and lse of one partial result into runs of `out`. own_norm: the LSE must cover the same keys as
// out.
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
      run.value = Value::unknown();
      result.push_back(run);
    };
    const auto unwritten = [&](const Box& box) {
      wrong(FindingKind::uninitialised, box,
            "reads " + describe_box(model_.ranks[s.rank], box) + ", part of which nobody has written");
    };
    if (x.holds == Holds::nothing) return unwritten(out_box);
    if (y.holds == Holds::nothing) return unwritten(lse_box);
    if (x.holds == Holds::unknown || y.holds == Holds::unknown) {
      run.value = Value::unknown();
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
      if (x.width_shift != 0 || (y.holds == Holds::lse && (!a.same_rows(b) || x.head_shift != y.head_shift)))
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

// Why two sets cannot be joined.
std::string Contents::twice(const char* verb, std::uint32_t a, std::uint32_t b) const {
  const bool sinks = counts_sink(a) && counts_sink(b);
  return std::string(verb) + (sinks ? " a sink that is there already: it is counted twice, for queries "
                                    : " keys that are there already: a pair is covered twice, for queries ");
}

// (out, lse) of `into` becomes its softmax merge with the partial result `part`.
void Contents::merge_into(Site s, const Box& out, const Box& lse, Heads heads, const Runs& part,
                          std::uint32_t out_writer, std::uint32_t lse_writer) {
  const bool fused = model_.ranks[s.rank].op(s.operation).kind == OpKind::attend;
  read(s.rank, out, heads, into_out_);
  read(s.rank, lse, heads, into_lse_);
  if (fused) {
    // Rows that see no key of this tile are left alone, so it does not matter what they hold.
    const auto keep = [&](const Runs& runs, Holds empty) {
      Runs kept;
      zip(part, runs, [&](const Run& a, const Run& b, std::int64_t first, std::int64_t count) {
        Run run = b;
        run.first = first;
        run.count = count;
        if (a.value.holds == Holds::out && a.value.set == 0) run.value.holds = empty;
        kept.push_back(run);
      });
      return kept;
    };
    const Runs outs = keep(into_out_, Holds::zero), lses = keep(into_lse_, Holds::minus_infinity);
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
      run.value = Value::unknown();
    } else if (x.located() && y.located() && (!a.same_rows(b) || x.head_shift != y.head_shift)) {
      report(s, FindingKind::coverage, out,
             "merges a result of " + tokens_.describe(tokens_.at(a.id())) + " into one of " +
                 tokens_.describe(tokens_.at(b.id())) + (a.id() == b.id() ? " in other heads or rows" : ""));
      run.value = Value::unknown();
    } else {
      const auto set = sets_.join(x.located() ? x.set : 0, y.located() ? y.set : 0);
      if (!set)
        report(s, FindingKind::coverage, out,
               twice("merges", x.located() ? x.set : 0, y.located() ? y.set : 0) +
                   tokens_.describe(tokens_.at(b.id())));
      if (set)
        run.value.set = run.value.norm = *set;
      else
        run.value = Value::unknown();
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
  write(s, out, heads, outs, out_writer);
  write(s, lse, heads, lses, lse_writer);
}

void Contents::merge(Site s) {
  const RankModel& rank = model_.ranks[s.rank];
  const Operation& op = rank.op(s.operation);
  const bool folds = !rank.plan->find(op, Operand::part_out);
  const Box &part_lse = box_of(s, Operand::part_lse), &lse = box_of(s, Operand::lse);
  const Box& first = folds ? part_lse : box_of(s, Operand::part_out);
  if (first.empty()) return;
  const Box& target = folds ? lse : box_of(s, Operand::out);
  const std::uint32_t w = writer(s, target);
  if (folds) {  // deferred: the LSEs only
    for (const Heads h : cut_heads(s.rank, {{&first, 1}, {&target, 1}}, first.heads())) {
      read(s.rank, first, h, a_);
      read(s.rank, target, h, b_);
      // Paired with an out of zeros, so that the rules and messages of full partial results apply.
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
        if (known && both && (!a.same_rows(b) || a.value.head_shift != b.value.head_shift))
          report(s, FindingKind::coverage, target,
                 "folds the lse of " + tokens_.describe(tokens_.at(a.id())) + " into that of " +
                     tokens_.describe(tokens_.at(b.id())));
        else if (known && !set)
          report(s, FindingKind::coverage, target,
                 twice("folds", a.value.located() ? a.value.norm : 0, b.value.located() ? b.value.norm : 0) +
                     tokens_.describe(tokens_.at(b.id())));
        else if (known && run.value.located())
          run.value.holds = Holds::lse, run.value.set = *set, run.value.norm = 0;
        else if (known)
          run.value.holds = Holds::minus_infinity;
        if (!known || !set || (both && !a.same_rows(b))) run.value = Value::unknown();
        result.push_back(run);
      });
      write(s, target, h, result, w);
    }
    return;
  }
  if (op.writes.count == 2) {  // incremental
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
  // Deferred: out (+)= part_out exp(part_lse - lse).
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
      else if (a.value.located() && y.located() && (!a.same_rows(b) || a.value.head_shift != y.head_shift))
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
      run.value = Value::unknown();
      scaled.push_back(run);
    });
    if (mode_of(s, Operand::out) == WriteMode::store) {
      write(s, target, h, scaled, w);
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
      run.value = b.value.holds == Holds::nothing ? Value::unknown() : join(s, target, a, b, h.begin);
      sum.push_back(run);
    });
    write(s, target, h, sum, w);
  }
}

// ---- maxima -------------------------------------------------------------------------------------

// The maximum of two values of one row. That of equal values is that value; of minus infinity and a maximum
// or an LSE it is the other; of two maxima of the same heads it is over the pairs of both. Any other is no
// tensor of the problem. `from` belongs to a.
Run Contents::larger(Site s, std::uint32_t from_rank, const Box& from, const Box& into, const Run& a,
                     const Run& b) {
  Run most = b;
  Value x = a.value;
  const Value& y = b.value;
  x.writer = y.writer;
  x.shift = y.shift;  // rows are compared by their numbers
  const bool same_place = a.same_rows(b) && x.head_shift == y.head_shift && x.width_shift == y.width_shift;
  if (x.holds == Holds::unknown || y.holds == Holds::unknown) {
    most.value = Value::unknown();
  } else if (x.holds == Holds::nothing || y.holds == Holds::nothing) {
    const bool target = y.holds == Holds::nothing;
    report_peer(s, target ? s.rank : from_rank, FindingKind::uninitialised, target ? into : from,
                "takes a maximum with " +
                    describe_box(model_.ranks[target ? s.rank : from_rank], target ? into : from) +
                    ", part of which nobody has written");
    most.value = Value::unknown();
  } else if (y.holds == Holds::minus_infinity && (x.holds == Holds::lse || x.holds == Holds::max_logit)) {
    most = a;
  } else if (x.holds == Holds::minus_infinity && (y.holds == Holds::lse || y.holds == Holds::max_logit)) {
    return most;
  } else if (x.holds == Holds::max_logit && y.holds == Holds::max_logit && same_place) {
    most.value.set = pairs_.unite(x.set, y.set);
  } else if (!(x == y) || (x.located() && !same_place)) {
    report(s, FindingKind::coverage, into,
           "takes the maximum of " + std::string(name(x.holds)) + " and " + std::string(name(y.holds)) +
               " of other contents, which is nothing that has a name");
    most.value = Value::unknown();
  }
  return most;
}

// into = max(into, from), row by row.
void Contents::maximum(Site s, std::uint32_t from_rank, const Box& from, const Box& into,
                       std::uint32_t writer) {
  for_each_column(from_rank, from, s.rank, into, [&](Runs& runs, Column& column) {
    read_rows(column, into, b_);
    mark_read(s.rank, b_);
    joined_.clear();
    zip(runs, b_, [&](const Run& a, const Run& b, std::int64_t, std::int64_t) {
      joined_.push_back(larger(s, from_rank, from, into, a, b));
    });
    settle(s, into, joined_, writer);
    write_rows(column, into, joined_, budget_);
  });
}

// The pairs of a tile join those that its max_logit is over. Its row stands for all queries: its id is 0.
void Contents::raise_max_logit(Site s, const Operation& op, Heads heads, const Runs& tile,
                               std::uint32_t writer) {
  const Box& box = box_of(s, Operand::max_logit);
  Run raised{0, 1, 0, 1, {}};
  const bool known =
      std::ranges::none_of(tile, [](const Run& run) { return run.value.holds == Holds::unknown; });
  const std::uint32_t pairs = known ? pairs_.of(tile) : 0;
  raised.value.holds = !known ? Holds::unknown : pairs == 0 ? Holds::minus_infinity : Holds::max_logit;
  if (raised.value.located()) raised.value.set = pairs, raised.value.head_shift = op.head_begin;
  read(s.rank, box, heads, b_);
  for (Run& run : b_) run = larger(s, s.rank, box, box, raised, run);
  write(s, box, heads, b_, writer);
}

// ---- the output ---------------------------------------------------------------------------------

// What the pairs lack of all live pairs of a replica, or have beyond them; empty if nothing.
const std::string& Contents::wrong_pairs(int replica, std::uint32_t pairs, Axis axis) {
  const std::uint64_t key =
      (std::uint64_t{pairs} << 32) | (static_cast<std::uint32_t>(replica) * 2 + (axis == Axis::keys));
  const auto [known, fresh] = wrong_pairs_.try_emplace(key);
  std::string& text = known->second;
  if (!fresh) return text;
  std::int64_t at = tokens_.first_row(replica, 0, Side::queries);
  const std::int64_t ranks = model_.plan->scenario.parallel.ranks, first = at,
                     end = at + tokens_.rows(replica, Side::queries) * ranks;
  const auto test = [&](std::int64_t until, std::uint32_t keys) {
    if (at < until && text.empty() && !complete(axis, at, until - at, keys))
      text = missing(axis, at, until - at, keys);
    at = until;
  };
  for (const PairSets::Queries& queries : pairs_[pairs]) {
    if (queries.begin < first || queries.end > end) text = "is over queries of another replica";
    if (!text.empty()) return text;
    test(queries.begin, 0);
    test(queries.end, queries.keys);
  }
  test(end, 0);
  return text;
}

}  // namespace cplab::checking
