// Sets of the (query, key) pairs of one head: what a maximum of logits is over, to which a pair may be added
// twice, and what the gradient of a table has summed up, to which it may not.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "check/coverage.hpp"
#include "check/regions.hpp"

namespace cplab::checking {

// Equal sets have equal ids, 0 is the empty one.
class PairSets {
 public:
  struct Queries {  // rows with these ids (Stretch) and their keys, a set of Sets
    std::int64_t begin = 0, end = 0;
    std::uint32_t keys = 0;
    bool operator==(const Queries&) const = default;
  };
  PairSets(Sets&, Budget&);
  std::span<const Queries> operator[](std::uint32_t id) const;  // ascending, disjoint
  // Of a tile: runs of query rows whose values name the keys.
  std::uint32_t of(const Runs& tile);
  std::uint32_t unite(std::uint32_t a, std::uint32_t b);
  // Their union; nothing if they share a pair.
  std::optional<std::uint32_t> join(std::uint32_t a, std::uint32_t b);

 private:
  static void append(std::vector<Queries>&, const Queries&);
  std::uint32_t intern(const std::vector<Queries>&);
  template <class OfBoth>
  std::vector<Queries> both(std::uint32_t a, std::uint32_t b, OfBoth);
  std::uint32_t unite_keys(std::uint32_t a, std::uint32_t b);

  Sets& sets_;
  Budget& budget_;
  std::vector<Queries> pool_;
  std::vector<Span> spans_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> ids_;  // by hash
};

}  // namespace cplab::checking
