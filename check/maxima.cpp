// Maxima in the symbolic run: tiles that raise a max_logit, maxima over lanes and ranks, and the output; see
// check/contents.hpp.
#include "check/maxima.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "check/columns.hpp"
#include "check/contents.hpp"

namespace cplab::checking {

// ---- sets of pairs ------------------------------------------------------------------------------

PairSets::PairSets(Sets& sets, Budget& budget) : sets_(sets), budget_(budget), spans_(1) {}

std::span<const PairSets::Queries> PairSets::operator[](std::uint32_t id) const {
  return {pool_.data() + spans_[id].first, spans_[id].count};
}

void PairSets::append(std::vector<Queries>& list, const Queries& next) {
  if (next.keys == 0 || next.begin >= next.end) return;
  if (!list.empty() && list.back().end == next.begin && list.back().keys == next.keys)
    list.back().end = next.end;
  else
    list.push_back(next);
}

std::uint32_t PairSets::intern(const std::vector<Queries>& list) {
  if (list.empty()) return 0;
  std::uint64_t hash = list.size();
  for (const Queries& q : list)
    for (const std::int64_t word : {q.begin, q.end, std::int64_t{q.keys}}) {
      hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 32;
    }
  const auto [first, last] = ids_.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (std::ranges::equal((*this)[at->second], list)) return at->second;
  budget_.keep(std::ssize(list));
  const auto id = static_cast<std::uint32_t>(spans_.size());
  spans_.push_back({static_cast<std::uint32_t>(pool_.size()), static_cast<std::uint32_t>(list.size())});
  pool_.insert(pool_.end(), list.begin(), list.end());
  ids_.emplace(hash, id);
  return id;
}

std::uint32_t PairSets::of(const Runs& tile) {
  std::vector<Queries> list;
  for (const Run& run : tile) {
    const std::int64_t rows = run.step == 1 ? run.count : 1, pieces = run.step == 1 ? 1 : run.count;
    budget_.keep(pieces), budget_.keep(-pieces);  // before they are made
    for (std::int64_t i = 0; i < pieces; ++i) {
      const std::int64_t id = run.id() + i * run.step;
      list.push_back({id, id + rows, run.value.set});
    }
  }
  const auto by_begin = [](const Queries& a, const Queries& b) { return a.begin < b.begin; };
  std::ranges::sort(list, by_begin);
  std::vector<Queries> sorted;
  bool disjoint = true;
  for (std::size_t i = 0; i < list.size(); ++i) {
    disjoint = disjoint && (i == 0 || list[i - 1].end <= list[i].begin);
    append(sorted, list[i]);
  }
  if (disjoint) return intern(sorted);
  std::uint32_t all = 0;  // the view has a row twice
  for (const Queries& q : list) all = unite(all, q.keys == 0 ? 0 : intern({q}));
  return all;
}

std::uint32_t PairSets::unite_keys(std::uint32_t a, std::uint32_t b) {
  if (a == b) return a;
  if (const auto apart = sets_.join(a, b)) return *apart;
  std::vector<Sets::Interval> all(sets_[a].begin(), sets_[a].end()), joined;
  all.insert(all.end(), sets_[b].begin(), sets_[b].end());
  std::ranges::sort(all, {}, &Sets::Interval::begin);
  for (const Sets::Interval& next : all) {
    if (!joined.empty() && next.begin <= joined.back().end)
      joined.back().end = std::max(joined.back().end, next.end);
    else
      joined.push_back(next);
  }
  return sets_.of(joined);
}

std::uint32_t PairSets::unite(std::uint32_t a, std::uint32_t b) {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  const std::span<const Queries> x = (*this)[a], y = (*this)[b];
  std::vector<Queries> both;
  std::int64_t at = std::numeric_limits<std::int64_t>::min();
  for (std::size_t i = 0, j = 0; i < x.size() || j < y.size();) {
    std::int64_t end = std::numeric_limits<std::int64_t>::max();
    const auto inside = [&](std::span<const Queries> list, std::size_t n) {
      if (n == list.size()) return false;
      const bool in = list[n].begin <= at;
      end = std::min(end, in ? list[n].end : list[n].begin);
      return in;
    };
    const bool in_x = inside(x, i), in_y = inside(y, j);
    if (in_x || in_y)
      append(both, {at, end, in_x && in_y ? unite_keys(x[i].keys, y[j].keys) : in_x ? x[i].keys : y[j].keys});
    at = end;
    if (in_x && x[i].end == at) ++i;
    if (in_y && y[j].end == at) ++j;
  }
  return intern(both);
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
const std::string& Contents::wrong_pairs(int replica, std::uint32_t pairs) {
  const std::uint64_t key = (std::uint64_t{pairs} << 32) | static_cast<std::uint32_t>(replica);
  const auto [known, fresh] = wrong_pairs_.try_emplace(key);
  std::string& text = known->second;
  if (!fresh) return text;
  std::int64_t at = tokens_.first_row(replica, 0);
  const std::int64_t first = at, end = at + tokens_.rows(replica) * model_.plan->scenario.parallel.ranks;
  const auto test = [&](std::int64_t until, std::uint32_t keys) {
    if (at < until && text.empty() && !complete(Axis::queries, at, until - at, keys))
      text = missing(Axis::queries, at, until - at, keys);
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

void Contents::check_max_logit(std::uint32_t r) {
  const RankModel& rank = model_.ranks[r];
  const std::int64_t heads = model_.plan->scenario.problem.heads;
  const auto& list = rank.plan->buffers;
  const auto at = std::find_if(list.begin(), list.end(), [](const Buffer& b) {
    return b.name == "max_logit" && b.category == Category::output;
  });
  if (at == list.end() || at->role != Role::wide || at->slots != 1 || at->rows != 1 || at->heads != heads ||
      at->width != 1)
    return;  // the structural validator says so
  const auto buffer = static_cast<std::uint32_t>(at - list.begin());
  for (const Column& c : region(r, buffer, 0).columns()) {
    const auto wrong = [&](FindingKind kind, const std::string& what) {
      findings_.add(kind, rank.plan, none, buffer,
                    "output max_logit heads " + std::to_string(c.head_begin) + ".." +
                        std::to_string(c.head_end - 1) + " " + what);
    };
    if (c.pieces.empty()) {
      wrong(FindingKind::uninitialised, "is never written");
      continue;
    }
    const Value& v = c.pieces.front().value;
    if (v.writer != none) ranks_[r].writes[v.writer].read = true;
    if (v.holds == Holds::unknown) continue;
    const bool blank = v.holds == Holds::minus_infinity;
    if (!blank && v.holds != Holds::max_logit) {
      wrong(FindingKind::coverage, "holds " + std::string(name(v.holds)) + " where max_logit belongs");
    } else if (!blank && v.head_shift != 0) {
      wrong(FindingKind::coverage, "holds the maximum of other heads");
    } else if (const std::string& text = wrong_pairs(rank.plan->replica, blank ? 0 : v.set); !text.empty()) {
      wrong(FindingKind::coverage, text);
    }
  }
}

}  // namespace cplab::checking
