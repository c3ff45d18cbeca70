// Tiles of the symbolic run, forward and backward: what their operands must hold, their segments against the
// mask, bias and keep mask; see check/contents.hpp.
#include "check/contents.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace cplab::checking {

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
    if (!good || !x.value.located() || !y.value.located() || x.same_rows(y)) return;
    good = false;
    report(s, FindingKind::coverage, box,
           "reads " + std::string(name(y.value.holds)) + " of " + tokens_.describe(tokens_.at(y.id())) +
               " beside " + std::string(name(x.value.holds)) + " of " + tokens_.describe(tokens_.at(x.id())));
  });
  return good;
}

// Query head h of the problem belongs to key head h / (H / G); the operation gives its i-th query head the
// key head i / ratio of its view. The two must agree for all of `h`, the query heads that are looked at
// together.
bool Contents::expect_group(Site s, const Operation& op, Heads h, std::int32_t ratio, const Box& k,
                            const Runs& k_runs) {
  const Problem& p = model_.plan->scenario.problem;
  if (k_runs.empty()) return true;
  const std::int64_t group = p.heads / p.kv_heads, head = k_runs.front().value.head_shift;
  const std::int64_t first = h.begin / ratio, last = (h.end - 1) / ratio, border = (first + 1) * ratio;
  const auto agree = [&](std::int64_t i) { return (op.head_begin + i) / group == head + i / ratio; };
  // Both rise by steps: where they agree at both ends of a step, they agree in between. Three steps at the
  // same places are of the same size.
  bool good = agree(h.begin) && agree(h.end - 1);
  if (last > first)
    good = good && agree(border - 1) && agree(border) && (last == first + 1 || ratio == group);
  if (!good)
    report(s, FindingKind::coverage, k,
           "takes query heads " + std::to_string(op.head_begin + h.begin) + ".." +
               std::to_string(op.head_begin + h.end - 1) + " with key heads " + std::to_string(head + first) +
               ".." + std::to_string(head + last) + ", which are not their group");
  return good;
}

std::int64_t Contents::lacking(Axis axis, const Stretch& t, std::uint32_t tokens) const {
  const bool of_keys = axis == Axis::keys;
  std::int64_t left = of_keys ? tokens_.live_of_keys(t) : tokens_.live_of_queries(t);
  const bool sink =
      axis == Axis::sums && model_.plan->scenario.problem.sink && t.valid > 0 && !counts_sink(tokens);
  for (const Sets::Interval& i : sets_[tokens])
    if (i.begin < sink_token)
      left -=
          of_keys ? tokens_.live_with_queries(t, i.begin, i.end) : tokens_.live_with_keys(t, i.begin, i.end);
  return left == 0 && sink ? -t.valid : left;
}

bool Contents::complete(Axis axis, std::int64_t id, std::int64_t count, std::uint32_t set) {
  const std::uint64_t hash = (static_cast<std::uint64_t>(id) * 31 + static_cast<std::uint64_t>(count)) * 31 +
                             set * 2 + (axis == Axis::keys);
  Known& known = known_[hash % known_.size()];
  if (known.id == id && known.count == count && known.set == set && known.axis == axis) return known.result;
  bool result = true;
  head_sets_.for_each(set, [&](const HeadShare& share) {
    tokens_.for_each(id, count, [&](const Stretch& t) {
      if (t.valid > 0) result = result && lacking(axis, t, share.set) == 0;
    });
  });
  known = {id, count, set, axis, result};
  return result;
}

std::string Contents::missing(Axis axis, std::int64_t id, std::int64_t count, std::uint32_t set,
                              std::int32_t key_head) const {
  std::string text;
  head_sets_.for_each(set, [&](const HeadShare& share) {
    tokens_.for_each(id, count, [&](const Stretch& t) {
      if (t.valid == 0 || !text.empty()) return;
      const std::int64_t left = lacking(axis, t, share.set);
      if (left == 0) return;
      text = left < 0 ? "lacks the sinks of the queries " + tokens_.describe(t.part(0, t.valid))
                      : "lacks " + std::to_string(left) + " live (query, key) pairs of the " +
                            (axis == Axis::keys ? "keys " : "queries ") +
                            tokens_.describe(t.part(0, t.valid)) + query_heads(key_head, share);
    });
  });
  return text;
}

// " with query heads 2..3", or nothing where all of a group are alike.
std::string Contents::query_heads(std::int32_t key_head, const HeadShare& share) const {
  const Problem& p = model_.plan->scenario.problem;
  const std::int64_t group = p.heads / p.kv_heads, first = key_head * group + share.begin,
                     last = key_head * group + share.end - 1;
  if (share.end - share.begin == head_sets_.heads()) return {};
  return first == last ? " with query head " + std::to_string(first)
                       : " with query heads " + std::to_string(first) + ".." + std::to_string(last);
}

// The same for the rows of a run, which may be strided.
bool Contents::complete(Axis axis, const Run& rows, std::uint32_t set) {
  if (rows.step == 1) return complete(axis, rows.id(), rows.count, set);
  for (std::int64_t i = 0; i < rows.count; ++i)
    if (!complete(axis, rows.id() + i * rows.step, 1, set)) return false;
  return true;
}

std::string Contents::missing(Axis axis, const Run& rows, std::uint32_t set) const {
  if (rows.step == 1) return missing(axis, rows.id(), rows.count, set);
  std::string text;
  for (std::int64_t i = 0; i < rows.count && text.empty(); ++i)
    text = missing(axis, rows.id() + i * rows.step, 1, set);
  return text;
}

bool Contents::expect_complete_lse(Site s, const Box& box, const Runs& q, const Runs& lse) {
  bool good = true;
  zip(q, lse, [&](const Run& x, const Run& y, std::int64_t, std::int64_t) {
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
    if (!blank && (!x.same_rows(y) || v.head_shift != x.value.head_shift))
      return report(s, FindingKind::coverage, box, "reads the lse of other queries or heads than its q");
    const std::uint32_t set = blank ? 0 : v.set;
    if (!complete(Axis::sums, x, set))
      return report(s, FindingKind::coverage, box, "reads an lse that " + missing(Axis::sums, x, set));
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
  const Box& k_box = box_of(s, Operand::k);
  for (const Segment& segment : model_.ranks[s.rank].segments(s.operation)) {
    places(q, segment.q_begin, segment.q_count, q_places_);
    places(k, segment.k_begin, segment.k_count, k_places_);
    Budget::compare(static_cast<std::int64_t>(q_places_.size()), static_cast<std::int64_t>(k_places_.size()));
    for (const Place& x : q_places_) {
      for (const Place& y : k_places_) {
        bool live = false;
        const Pairs pairs = compare_band(tokens_, segment, x.stretch, x.at, y.stretch, y.at, live);
        if (live && x.stretch.sequence == y.stretch.sequence) {
          expect_columns(s, model_.ranks[s.rank].op(s.operation), x, y);
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

// (query, key) pairs in the bands of the operation's segments.
double Contents::pairs_of(Site s) const {
  double pairs = 0;
  for (const Segment& g : model_.ranks[s.rank].segments(s.operation))
    pairs += static_cast<double>(pairs_in_band(g.q_count, g.k_count, g.left < 0 ? -far : g.offset - g.left,
                                               g.right < 0 ? far : g.offset + g.right));
  return pairs;
}

void Contents::attend(Site s, const Operation& op) {
  const Box &q = box_of(s, Operand::q), &k = box_of(s, Operand::k), &v = box_of(s, Operand::v);
  const Box &out = box_of(s, Operand::out), &lse = box_of(s, Operand::lse);
  const Problem& p = model_.plan->scenario.problem;
  result_.flops[s.rank] += pairs_of(s) * q.heads() * 2 * static_cast<double>(p.head_size + p.value_size);
  if (out.empty()) return;
  const Access* max_logit = model_.ranks[s.rank].plan->find(op, Operand::max_logit);
  const Box& raised = max_logit ? model_.ranks[s.rank].boxes[max_logit->view] : lse;
  const std::uint32_t out_writer = writer(s, out), lse_writer = writer(s, lse),
                      raised_writer = max_logit ? writer(s, raised) : none;
  const std::int32_t ratio = q.heads() / k.heads();
  const auto [bias, keep] = pair_masks(s, op);
  const Box *const sink = optional_box(s, op, Operand::sink), *const table =
                                                                  optional_box(s, op, Operand::bias_table);
  for (const Heads h : cut_heads(s.rank,
                                 {{&q, 1},
                                  {&k, ratio},
                                  {&v, ratio},
                                  {&out, 1},
                                  {&lse, 1},
                                  {&raised, 1},
                                  {sink ? sink : &q, 1},
                                  {table ? table : &q, 1},
                                  {bias ? bias : &q, bias ? q.heads() / bias->heads() : 1},
                                  {keep ? keep : &q, keep ? q.heads() / keep->heads() : 1}},
                                 q.heads())) {
    const Heads g{h.begin / ratio, (h.end + ratio - 1) / ratio};
    read(s.rank, q, h, q_);
    read(s.rank, k, g, k_);
    read(s.rank, v, g, v_);
    bool good = expect(s, q, q_, Holds::q, op.head_begin);
    const std::int32_t kv_head = k_.empty() ? 0 : k_.front().value.head_shift;
    good = expect(s, k, k_, Holds::k, kv_head) && good;
    good = expect(s, v, v_, Holds::v, kv_head) && good;
    good = good && expect_same_rows(s, v, k_, v_) && expect_group(s, op, h, ratio, k, k_) &&
           expect_pair_mask(s, op, h, g, q_, k_) && expect_table(s, op, h);
    if (good) {
      cover_tile(s, q_, k_);
      if (!collect(by_query_, sets_, covers_))
        report(s, FindingKind::coverage, k, "covers a pair twice by its own segments");
      tile_runs(q_, covers_, Holds::out, tile_);
    } else {
      tile_.assign(1, {0, q.rows, 0, 1, Value::unknown()});
    }
    if (max_logit) raise_max_logit(s, op, h, tile_, raised_writer);
    if (sink && good && !count_sink(s, op, h, tile_)) tile_.assign(1, {0, q.rows, 0, 1, Value::unknown()});
    if (mode_of(s, Operand::out) == WriteMode::merge) {
      merge_into(s, out, lse, h, tile_, out_writer, lse_writer);
      continue;
    }
    b_ = tile_;
    write(s, out, h, tile_, out_writer);
    for (Run& run : b_)
      if (run.value.holds == Holds::out) run.value.holds = Holds::lse, run.value.norm = 0;
    write(s, lse, h, b_, lse_writer);
  }
}

// ---- backward tiles, and the row sums that they need ----------------------------------------------

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
  if (group == 1) return;
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
                             const GradientWriters& writers) {
  const auto [dq_writer, dbias_writer, dtable_writer] = writers;
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
         expect_group(s, op, h, q.heads() / k.heads(), k, k_) && expect_pair_mask(s, op, h, g, q_, k_) &&
         expect_table(s, op, h);
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
  if (optional_box(s, op, Operand::dbias_table)) {
    tile_runs(q_, covers_, Holds::dtable, tile_);
    add_table(s, op, h, tile_, dtable_writer);
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
  const Box *const table = optional_box(s, op, Operand::bias_table), *const dtable = optional_box(
                                                                         s, op, Operand::dbias_table);
  const GradientWriters writers{dq_writer, dbias_writer, dtable ? writer(s, *dtable) : none};
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
                                                {table ? table : &q, 1},
                                                {dtable ? dtable : &q, 1},
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
                           c == first ? dbias_runs : more_dbias, writers) &&
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
    if (dtable) write_unknown(s, *dtable, writers.dtable);
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
      } else if (!complete(Axis::sums, a, set)) {
        wrong(FindingKind::coverage, "reads an out that " + missing(Axis::sums, a, set));
      }
      run.value.set = run.value.norm = 0;
      result.push_back(run);
    });
    write(s, delta, h, result, w);
  }
}

}  // namespace cplab::checking
