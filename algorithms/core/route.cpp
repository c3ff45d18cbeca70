// Routes on a grid of members; see route.hpp.
#include "algorithms/core/route.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace cplab {

Route::Route(int members, int inner, std::vector<Visit> visits)
    : members_(members), inner_(inner), visits_(std::move(visits)) {
  if (inner < 1 || members % inner != 0)
    throw std::logic_error("a route over rows that are not of one length");
  for (int v = 0; v < this->visits(); ++v)
    if ((*this)[v].source >= 0) posted_.push_back(v);
  std::ranges::stable_sort(posted_, [&](int a, int b) {
    const int first = (*this)[a].beside, second = (*this)[b].beside;
    return first != second ? first < second : depth(a) < depth(b);
  });
  first_of_.assign(visits_.size() + 1, 0);
  for (const int v : posted_) ++first_of_[static_cast<std::size_t>((*this)[v].beside) + 1];
  std::partial_sum(first_of_.begin(), first_of_.end(), first_of_.begin());
}

Route Route::chain(int members, const std::vector<int>& shifts) {
  std::vector<Visit> visits;
  for (int v = 0; v < static_cast<int>(shifts.size()); ++v)
    visits.push_back({.shift = shifts[static_cast<std::size_t>(v)], .source = v - 1, .beside = v - 1});
  if (!visits.empty()) visits.back().home = true;
  return {members, members, std::move(visits)};
}

std::span<const int> Route::beside(int visit) const {
  const std::size_t first = first_of_[static_cast<std::size_t>(visit)],
                    end = first_of_[static_cast<std::size_t>(visit) + 1];
  return std::span(posted_).subspan(first, end - first);
}

int Route::depth(int visit) const {
  int hops = 0;
  for (int v = (*this)[visit].source; v >= 0; v = (*this)[v].source) ++hops;
  return hops;
}

int Route::moved(int place, int shift, int sign) const {
  const int rows = members_ / inner_;
  const int row = (place / inner_ + sign * (shift / inner_) + rows) % rows;
  const int column = (place % inner_ + sign * (shift % inner_) + inner_) % inner_;
  return row * inner_ + column;
}

int Route::owner(int place, int visit) const {
  return moved(place, (*this)[visit].shift, -1);
}

int Route::holder(int owner, int visit) const {
  return moved(owner, (*this)[visit].shift, 1);
}

bool Route::one_chain() const {
  return std::ranges::count(visits_, true, &Visit::home) == 1;
}

Route Route::mirrored() const {
  if (!one_chain() || inner_ != members_) throw std::logic_error("only a chain is mirrored");
  std::vector<int> shifts;
  for (int v = visits() - 1; v >= 0; --v) shifts.push_back((*this)[v].shift);
  return chain(members_, shifts);
}

Route Route::kept(const std::vector<char>& keeps) const {
  const auto is_kept = [&](int v) { return keeps[static_cast<std::size_t>(v)] != 0; };
  std::vector<int> number(visits_.size(), -1);  // of the kept ones; of others, of the kept one before them
  int count = 0;
  for (int v = 0; v < visits(); ++v) number[static_cast<std::size_t>(v)] = is_kept(v) ? count++ : count - 1;
  const auto renumbered = [&](int v) { return v < 0 ? -1 : number[static_cast<std::size_t>(v)]; };
  std::vector<Visit> some;
  for (int v = 0; v < visits(); ++v) {
    Visit visit = (*this)[v];
    if (!is_kept(v)) {
      if (visit.home) some.back().home = true;  // the visit before it, or what was before all of its sum's
      continue;
    }
    while (visit.source >= 0 && !is_kept(visit.source)) visit.source = (*this)[visit.source].source;
    visit.source = renumbered(visit.source);
    visit.beside = renumbered(visit.beside);
    some.push_back(visit);
  }
  return {members_, inner_, std::move(some)};
}

Route ring_route(int members) {
  std::vector<int> shifts;
  for (int i = 0; i < members; ++i) shifts.push_back(i);
  return Route::chain(members, shifts);
}

}  // namespace cplab
