// See scenario_groups.hpp.
#include "cli/files/scenario_groups.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "cli/files/scenario_words.hpp"

namespace cplab {

std::vector<std::vector<int>> read_groups(const Table& table, const Parallel& parallel) {
  const auto count = static_cast<std::size_t>(parallel.replicas);
  const auto ranks = static_cast<std::size_t>(parallel.ranks);
  std::vector<std::vector<int>> groups(count);
  if (table.kind("groups") != Table::Kind::list) {
    const bool strided = word(table, "groups") == 1;
    for (std::size_t g = 0; g < count; ++g) {
      for (std::size_t p = 0; p < ranks; ++p) {
        groups[g].push_back(static_cast<int>(strided ? p * count + g : g * ranks + p));
      }
    }
    return groups;
  }
  const auto lists = table.integer_lists("groups");
  const std::string shape = std::to_string(count) + " lists (replicas) of " + std::to_string(ranks) +
                            " ranks, together every rank from 0 to " + std::to_string(parallel.world() - 1) +
                            " once";
  if (lists.size() != count) {
    table.fail("groups", "must be " + shape + ", but holds " + std::to_string(lists.size()) + " lists");
  }
  std::set<std::int64_t> seen;
  for (std::size_t g = 0; g < count; ++g) {
    if (lists[g].size() != ranks) {
      table.fail("groups", "must be " + shape + ", but list " + std::to_string(g) + " holds " +
                               std::to_string(lists[g].size()) + " ranks");
    }
    for (const std::int64_t rank : lists[g]) {
      if (rank < 0 || rank >= parallel.world()) {
        table.fail("groups", "must be " + shape + ", but names rank " + std::to_string(rank));
      }
      if (!seen.insert(rank).second) {
        table.fail("groups", "must be " + shape + ", but rank " + std::to_string(rank) + " is there twice");
      }
      groups[g].push_back(static_cast<int>(rank));
    }
  }
  return groups;
}

}  // namespace cplab
