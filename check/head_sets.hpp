// Sets over (query head of a group, token): what the gradient of a key head has summed up. A key head's dK
// and dV are sums over the H / G query heads of its group, which several operations and ranks may share.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "check/coverage.hpp"

namespace cplab::checking {

// Query heads [begin, end) of the group, counted from its first, with the tokens `set` (an id in Sets) each.
struct HeadShare {
  std::int32_t begin = 0, end = 0;
  std::uint32_t set = 0;
  auto operator<=>(const HeadShare&) const = default;
};

// Equal sets have equal ids. Where every head of the group has the same tokens, as in most plans, the id is
// that of the tokens, and nothing costs more than a set of tokens; 0 is the empty one.
class HeadSets {
 public:
  // `heads`: query heads of a group.
  HeadSets(Sets& tokens, std::int32_t heads) : tokens_(tokens), heads_(heads) {}
  std::int32_t heads() const { return heads_; }

  std::uint32_t of(const HeadShare&);
  // Their union; nothing if they share a token of a head.
  std::optional<std::uint32_t> join(std::uint32_t a, std::uint32_t b);
  // The first heads whose tokens share one: why join returned nothing.
  HeadShare shared(std::uint32_t a, std::uint32_t b);
  // Calls visit(HeadShare) for all heads of the group in turn, also for those without tokens.
  template <class Visit>
  void for_each(std::uint32_t id, Visit visit) const {
    if (id < lists_from) return visit(HeadShare{0, heads_, id});
    for (const HeadShare& share : *lists_[id - lists_from]) visit(share);
  }

 private:
  using List = std::vector<HeadShare>;  // of all heads; neighbours differ in their tokens
  static constexpr std::uint32_t lists_from = std::uint32_t{1} << 31;
  std::uint32_t of(List);
  template <class Visit>
  void for_each_of(std::uint32_t a, std::uint32_t b, Visit visit) const;

  Sets& tokens_;
  std::int32_t heads_;
  std::map<List, std::uint32_t> ids_;
  std::vector<const List*> lists_;  // by id: keys of ids_
};

}  // namespace cplab::checking
