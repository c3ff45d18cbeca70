// Backward tiles of the symbolic run, and the row sums that they need; see check/contents.hpp.
#include <algorithm>
#include <string>
#include <utility>

#include "check/contents.hpp"

namespace cplab::checking {

// Cuts `pieces` on where a key head begins or ends, until each holds whole key heads with all of their query
// heads, or query heads of one key head.
std::vector<Contents::Heads> Contents::cut_key_heads(const Operation& op, const std::vector<Heads>& pieces,
                                                     std::int32_t ratio) const {
  const Problem& p = model_.plan->scenario.problem;
  const std::int64_t group = p.heads / p.kv_heads;
  const bool whole = ratio == group && op.head_begin % group == 0;
  std::vector<Heads> result;
  for (const Heads& h : pieces) {
    std::int32_t at = h.begin;
    const auto until = [&](std::int32_t end) {
      if (end <= at || end > h.end) return;
      result.push_back({at, end});
      at = end;
    };
    // Three key heads without all of their query heads are wrong: expect_group reports it.
    const bool wrong = !whole && (h.end - 1) / ratio > h.begin / ratio + 1;
    if (!wrong && (!whole || h.begin % ratio != 0)) until((h.begin / ratio + 1) * ratio);
    if (!wrong) until(h.end / ratio * ratio);
    until(h.end);
  }
  return result;
}

// The tile's query heads `h` contribute these rows to dk or dv: sets of tokens become sets of (query head,
// token).
void Contents::share(const Operation& op, Heads h, Runs& runs) {
  const Problem& p = model_.plan->scenario.problem;
  const auto group = static_cast<std::int32_t>(p.heads / p.kv_heads);
  const std::int32_t begin = (op.head_begin + h.begin) % group,
                     end = std::min(begin + h.end - h.begin, group);
  for (Run& run : runs) run.value.set = head_sets_.of({begin, end, run.value.set});
}

// Of different query heads of one key head: no pair can be covered twice.
void Contents::sum_shares(Runs& sum, const Runs& more) {
  Runs both;
  zip(sum, more, [&](const Run& a, const Run& b, std::int64_t, std::int64_t) {
    both.push_back(a);
    both.back().value.set = *head_sets_.join(a.value.set, b.value.set);
  });
  sum = std::move(both);
}

// Query heads h with their key heads g: writes their dq, and returns in dk and dv what they contribute. False
// if something is wrong; it has been reported then.
bool Contents::backward_tile(Site s, const Operation& op, Heads h, Heads g, Runs& dk, Runs& dv, Runs& dbias,
                             std::uint32_t dq_writer, std::uint32_t dbias_writer) {
  const Box &q = box_of(s, Operand::q), &k = box_of(s, Operand::k), &v = box_of(s, Operand::v);
  const Box &dout = box_of(s, Operand::dout), &lse = box_of(s, Operand::lse),
            &delta = box_of(s, Operand::delta);
  const Box& dq = box_of(s, Operand::dq);
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
         expect_group(s, op, h, q.heads() / k.heads(), k, k_) && expect_pair_mask(s, op, h, g, q_, k_);
  if (!good) return false;
  cover_tile(s, q_, k_);
  const bool by_query = collect(by_query_, sets_, covers_);
  tile_runs(q_, covers_, Holds::dq, tile_);
  store_or_add(s, dq, h, tile_, mode_of(s, Operand::dq), dq_writer);
  const bool has_dbias = model_.ranks[s.rank].plan->find(op, Operand::dbias) != nullptr;
  if (has_dbias && !of_keys(Holds::dbias)) {
    tile_runs(q_, covers_, Holds::dbias, tile_);
    store_or_add(s, box_of(s, Operand::dbias), h, tile_, mode_of(s, Operand::dbias), dbias_writer);
  }
  const bool by_key = collect(by_key_, sets_, covers_);  // false also for repeated query rows
  tile_runs(k_, covers_, Holds::dk, dk);
  tile_runs(v_, covers_, Holds::dv, dv);
  share(op, h, dk);
  share(op, h, dv);
  if (has_dbias && of_keys(Holds::dbias)) {
    tile_runs(k_, covers_, Holds::dbias, dbias);
    share(op, h, dbias);
  }
  if (!by_query || !by_key)
    report(s, FindingKind::coverage, k, "covers a pair twice, by its own segments or by repeated rows");
  return true;
}

void Contents::attend_backward(Site s, const Operation& op) {
  const Box &q = box_of(s, Operand::q), &k = box_of(s, Operand::k), &v = box_of(s, Operand::v);
  const Box &dout = box_of(s, Operand::dout), &lse = box_of(s, Operand::lse),
            &delta = box_of(s, Operand::delta);
  const Box &dq = box_of(s, Operand::dq), &dk = box_of(s, Operand::dk), &dv = box_of(s, Operand::dv);
  const Problem& p = model_.plan->scenario.problem;
  if (model_.ranks[s.rank].plan->find(op, Operand::out) != nullptr) row_dot(s);
  result_.flops[s.rank] +=
      pairs_of(s) * q.heads() * 2 * static_cast<double>(3 * p.head_size + 2 * p.value_size);
  const std::uint32_t dq_writer = writer(s, dq), dk_writer = writer(s, dk);
  const std::uint32_t dv_writer = dv.buffer == dk.buffer ? dk_writer : writer(s, dv);
  const Access* of_bias = model_.ranks[s.rank].plan->find(op, Operand::dbias);
  const Box& dbias = of_bias ? model_.ranks[s.rank].boxes[of_bias->view] : dq;
  const std::uint32_t dbias_writer = !of_bias                    ? none
                                     : dbias.buffer == dk.buffer ? dk_writer
                                                                 : writer(s, dbias);
  const auto [bias, keep] = pair_masks(s, op);
  const std::int32_t ratio = q.heads() / k.heads();
  const std::vector<Heads> columns = cut_heads(s.rank,
                                               {{&q, 1},
                                                {&k, ratio},
                                                {&v, ratio},
                                                {&dout, 1},
                                                {&lse, 1},
                                                {&delta, 1},
                                                {&dq, 1},
                                                {&dk, ratio},
                                                {&dv, ratio},
                                                {&dbias, q.heads() / dbias.heads()},
                                                {bias ? bias : &q, bias ? q.heads() / bias->heads() : 1},
                                                {keep ? keep : &q, keep ? q.heads() / keep->heads() : 1}},
                                               q.heads());
  const std::vector<Heads> cuts = cut_key_heads(op, columns, ratio);
  // dk and dv of a key head are sums over its query heads (GQA): they are written once, after the last of
  // these.
  for (std::size_t first = 0, last = 0; first < cuts.size(); first = last) {
    do ++last;
    while (cuts[last - 1].end % ratio != 0);
    const Heads g{cuts[first].begin / ratio, cuts[last - 1].end / ratio};
    Runs dk_runs, dv_runs, dbias_runs, more_dk, more_dv, more_dbias;
    bool good = true;
    for (std::size_t c = first; c < last; ++c) {
      good = backward_tile(s, op, cuts[c], g, c == first ? dk_runs : more_dk, c == first ? dv_runs : more_dv,
                           c == first ? dbias_runs : more_dbias, dq_writer, dbias_writer) &&
             good;
      if (!good || c == first) continue;
      sum_shares(dk_runs, more_dk);
      sum_shares(dv_runs, more_dv);
      if (!dbias_runs.empty()) sum_shares(dbias_runs, more_dbias);
    }
    if (good) {
      store_or_add(s, dk, g, dk_runs, mode_of(s, Operand::dk), dk_writer);
      store_or_add(s, dv, g, dv_runs, mode_of(s, Operand::dv), dv_writer);
      if (!dbias_runs.empty())
        store_or_add(s, dbias, g, dbias_runs, mode_of(s, Operand::dbias), dbias_writer);
      continue;
    }
    write_unknown(s, dq, dq_writer);
    write_unknown(s, dk, dk_writer);
    write_unknown(s, dv, dv_writer);
    if (of_bias) write_unknown(s, dbias, dbias_writer);
  }
  // Sums that come out rounded. Writes of one buffer are one write.
  std::uint32_t buffer = none, rounded_writer = none;
  for (const auto& [sum, of_rounded] :
       {std::pair(Operand::dq, Operand::rounded_dq), std::pair(Operand::dk, Operand::rounded_dk),
        std::pair(Operand::dv, Operand::rounded_dv)}) {
    if (model_.ranks[s.rank].plan->find(op, of_rounded) == nullptr) continue;
    const Box &wide = box_of(s, sum), &rounded = box_of(s, of_rounded);
    if (rounded.buffer != buffer) rounded_writer = writer(s, rounded);
    buffer = rounded.buffer;
    move(s, s.rank, wide, rounded, true, rounded_writer);
    forget(s, wide);
  }
}

// Rows to which the tile contributes nothing: a store writes zeros there, an add leaves them as they are.
void Contents::store_or_add(Site s, const Box& box, Heads heads, Runs& tile, WriteMode mode,
                            std::uint32_t writer) {
  if (box.empty()) return;
  if (mode == WriteMode::store) return write(s, box, heads, tile, writer);
  read(s.rank, box, heads, b_);
  Runs sum;
  zip(tile, b_, [&](const Run& a, const Run& b, std::int64_t, std::int64_t) {
    Run result = b.value.located() ? b : a;
    if (a.value.holds == Holds::unknown) {
      result.value = a.value;
    } else if (a.value.set == 0) {
      result.value = b.value;
    } else if (b.value.holds == Holds::nothing) {
      report(s, FindingKind::uninitialised, box,
             "adds to " + describe_box(model_.ranks[s.rank], box) + ", part of which nobody has written");
      result.value = Value::unknown();
    } else {
      result.value = join(s, box, a, b, heads.begin);
    }
    sum.push_back(result);
  });
  write(s, box, heads, sum, writer);
}

// delta = rowsum(out * dout), known only for rows whose out and dout are complete.
void Contents::row_dot(Site s) {
  const Box &dout = box_of(s, Operand::dout), &out = box_of(s, Operand::out),
            &delta = box_of(s, Operand::delta);
  if (delta.empty()) return;
  const std::uint32_t w = writer(s, delta);
  for (const Heads h : cut_heads(s.rank, {{&dout, 1}, {&out, 1}, {&delta, 1}}, dout.heads())) {
    read(s.rank, dout, h, a_);
    read(s.rank, out, h, b_);
    const std::int32_t head = a_.empty() ? 0 : a_.front().value.head_shift;
    const bool good = expect(s, dout, a_, Holds::dout, head);
    Runs result;
    zip(a_, b_, [&](const Run& a, const Run& b, std::int64_t, std::int64_t) {
      Run run = a;
      run.value.holds = Holds::delta;
      const Value& v = b.value;
      const auto wrong = [&](FindingKind kind, const std::string& what) {
        report(s, kind, out, what);
        run.value = Value::unknown();
      };
      const std::uint32_t set = v.holds == Holds::zero ? 0 : v.set;
      if (!good || v.holds == Holds::unknown) {
        run.value = Value::unknown();
      } else if (v.holds == Holds::nothing) {
        wrong(FindingKind::uninitialised,
              "reads " + describe_box(model_.ranks[s.rank], out) + ", part of which nobody has written");
      } else if (v.holds != Holds::zero && v.holds != Holds::out) {
        wrong(FindingKind::coverage, "reads " + std::string(name(v.holds)) + " where it needs out");
      } else if (v.holds == Holds::out && (!a.same_rows(b) || v.head_shift != head || v.width_shift != 0)) {
        wrong(FindingKind::coverage, "reads the out of other queries or heads than its dout");
      } else if (v.holds == Holds::out && v.set != v.norm) {
        wrong(FindingKind::coverage, "reads an out that is normalised by other keys than it covers");
      } else if (!complete(Axis::queries, a, set)) {
        wrong(FindingKind::coverage, "reads an out that " + missing(Axis::queries, a, set));
      }
      run.value.set = run.value.norm = 0;
      result.push_back(run);
    });
    write(s, delta, h, result, w);
  }
}

}  // namespace cplab::checking
