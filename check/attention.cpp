// Tiles of the symbolic run, their segments against the mask, and the forward ones; see check/contents.hpp.
#include <algorithm>
#include <string>

#include "check/contents.hpp"

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
  std::int64_t left = axis == Axis::queries ? tokens_.live_of_queries(t) : tokens_.live_of_keys(t);
  for (const Sets::Interval& i : sets_[tokens])
    left -= axis == Axis::queries ? tokens_.live_with_keys(t, i.begin, i.end)
                                  : tokens_.live_with_queries(t, i.begin, i.end);
  return left;
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
      text = "lacks " + std::to_string(left) + " live (query, key) pairs of the " +
             (axis == Axis::queries ? "queries " : "keys ") + tokens_.describe(t.part(0, t.valid)) +
             query_heads(key_head, share);
    });
  });
  return text;
}

// " with query heads 2..3", or nothing where all of a group are alike.
std::string Contents::query_heads(std::int32_t key_head, const HeadShare& share) const {
  const Problem& p = model_.plan->scenario.problem;
  const std::int64_t group = p.heads / p.kv_heads, first = key_head * group + share.begin,
                     last = key_head * group + share.end - 1;
  if (share.end - share.begin == group) return {};
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
    if (!complete(Axis::queries, x, set))
      return report(s, FindingKind::coverage, box, "reads an lse that " + missing(Axis::queries, x, set));
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
  constexpr std::int64_t far = std::int64_t{1} << 42;
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
  for (const Heads h : cut_heads(s.rank,
                                 {{&q, 1},
                                  {&k, ratio},
                                  {&v, ratio},
                                  {&out, 1},
                                  {&lse, 1},
                                  {&raised, 1},
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
           expect_pair_mask(s, op, h, g, q_, k_);
    if (good) {
      cover_tile(s, q_, k_);
      if (!collect(by_query_, sets_, covers_))
        report(s, FindingKind::coverage, k, "covers a pair twice by its own segments");
      tile_runs(q_, covers_, Holds::out, tile_);
    } else {
      tile_.assign(1, {0, q.rows, 0, 1, Value::unknown()});
    }
    if (max_logit) raise_max_logit(s, op, h, tile_, raised_writer);
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

}  // namespace cplab::checking
