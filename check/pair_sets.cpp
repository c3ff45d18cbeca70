// Sets of the pairs that a maximum is over; see check/pair_sets.hpp.
#include "check/pair_sets.hpp"

#include <algorithm>
#include <limits>

namespace cplab::checking {

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
  return intern(both(a, b, [&](std::uint32_t x, std::uint32_t y) { return unite_keys(x, y); }));
}

std::optional<std::uint32_t> PairSets::join(std::uint32_t a, std::uint32_t b) {
  if (b == 0) return a;
  if (a == 0) return b;
  bool apart = true;
  const std::vector<Queries> list = both(a, b, [&](std::uint32_t x, std::uint32_t y) {
    const auto keys = sets_.join(x, y);
    apart = apart && keys;
    return keys.value_or(0);
  });
  if (!apart) return std::nullopt;
  return intern(list);
}

// The pairs of both; `of_both`: of rows that both have, their keys.
template <class OfBoth>
std::vector<PairSets::Queries> PairSets::both(std::uint32_t a, std::uint32_t b, OfBoth of_both) {
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
      append(both, {at, end, in_x && in_y ? of_both(x[i].keys, y[j].keys) : in_x ? x[i].keys : y[j].keys});
    at = end;
    if (in_x && x[i].end == at) ++i;
    if (in_y && y[j].end == at) ++j;
  }
  return both;
}

}  // namespace cplab::checking
