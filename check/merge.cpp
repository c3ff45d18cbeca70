// Merges of partial results in the symbolic run: incremental, fused and deferred; see check/contents.hpp.
#include <algorithm>
#include <string>

#include "check/contents.hpp"

namespace cplab::checking {

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
               "merges keys that are there already: a pair is covered twice, for queries " +
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
                 "folds keys that are there already: a pair is covered twice, for queries " +
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

}  // namespace cplab::checking
