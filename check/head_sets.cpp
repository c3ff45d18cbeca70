// Sets over (query head of a group, token); see check/head_sets.hpp.
#include "check/head_sets.hpp"

#include <algorithm>

namespace cplab::checking {

std::uint32_t HeadSets::of(List list) {
  if (list.size() == 1) return list.front().set;
  const auto next = lists_from + static_cast<std::uint32_t>(lists_.size());
  const auto [at, fresh] = ids_.try_emplace(std::move(list), next);
  if (fresh) lists_.push_back(&at->first);
  return at->second;
}

std::uint32_t HeadSets::of(const HeadShare& share) {
  if (share.set == 0) return 0;
  List list;
  if (share.begin > 0) list.push_back({0, share.begin, 0});
  list.push_back(share);
  if (share.end < heads_) list.push_back({share.end, heads_, 0});
  return of(std::move(list));
}

// Calls visit(begin, end, tokens of a, tokens of b) for runs of heads that each of the two has alike; until
// it returns false.
template <class Visit>
void HeadSets::for_each_of(std::uint32_t a, std::uint32_t b, Visit visit) const {
  const List whole_a{{0, heads_, a}}, whole_b{{0, heads_, b}};
  const List &x = a < lists_from ? whole_a : *lists_[a - lists_from],
             &y = b < lists_from ? whole_b : *lists_[b - lists_from];
  std::int32_t at = 0;
  for (auto i = x.begin(), j = y.begin(); at < heads_;) {
    const std::int32_t end = std::min(i->end, j->end);
    if (!visit(at, end, i->set, j->set)) return;
    if (i->end == end) ++i;
    if (j->end == end) ++j;
    at = end;
  }
}

std::optional<std::uint32_t> HeadSets::join(std::uint32_t a, std::uint32_t b) {
  if (a < lists_from && b < lists_from) return tokens_.join(a, b);
  List both;
  bool disjoint = true;
  for_each_of(a, b, [&](std::int32_t begin, std::int32_t end, std::uint32_t x, std::uint32_t y) {
    const std::optional<std::uint32_t> set = tokens_.join(x, y);
    disjoint = set.has_value();
    if (!disjoint) return false;
    if (!both.empty() && both.back().set == *set)
      both.back().end = end;
    else
      both.push_back({begin, end, *set});
    return true;
  });
  if (!disjoint) return std::nullopt;
  return of(std::move(both));
}

HeadShare HeadSets::shared(std::uint32_t a, std::uint32_t b) {
  HeadShare found{0, heads_, 0};
  for_each_of(a, b, [&](std::int32_t begin, std::int32_t end, std::uint32_t x, std::uint32_t y) {
    if (tokens_.join(x, y)) return true;
    found = {begin, end, x};
    return false;
  });
  return found;
}

}  // namespace cplab::checking
