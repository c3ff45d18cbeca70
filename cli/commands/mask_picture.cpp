// See mask_picture.hpp.
#include "cli/commands/mask_picture.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include "algorithms/core/placement.hpp"
#include "plan/visible.hpp"

namespace cplab {
namespace {

constexpr std::int64_t most_rows = 24, most_columns = 48;

// A sequence and where it begins along both sides of the picture.
struct Shown {
  std::size_t number = 0;
  std::int64_t query = 0, key = 0;
};

class Picture {
 public:
  explicit Picture(const Scenario& s) : s_(s), p_(s.problem), visible_(p_) {
    const auto replicas = static_cast<std::size_t>(s.parallel.replicas);
    for (std::size_t b = 0; b < p_.lengths.size(); b += replicas) {
      shown_.push_back({b, queries_, keys_});
      queries_ += p_.padded_lengths[b];
      keys_ += p_.padded_lengths_of(Side::keys)[b];
      if (!p_.packed) break;
    }
  }

  std::string text() const {
    const std::int64_t rows = std::min(most_rows, queries_), columns = std::min(most_columns, keys_);
    const std::vector<std::set<int>> holders = ranks_of(rows);
    std::string all;
    for (std::int64_t i = 0; i < rows; ++i) {
      std::string line;
      for (std::int64_t j = 0; j < columns; ++j)
        line += cell(i * queries_ / rows, (i + 1) * queries_ / rows, j * keys_ / columns,
                     (j + 1) * keys_ / columns);
      all += fmt::format("|{}| {}\n", line, fmt::join(holders[static_cast<std::size_t>(i)], " "));
    }
    return all;
  }

 private:
  char cell(std::int64_t q_begin, std::int64_t q_end, std::int64_t k_begin, std::int64_t k_end) const {
    double pairs = 0;
    for (const Shown& s : shown_)
      pairs += visible_pairs(p_, visible_, s.number, q_begin - s.query, q_end - s.query, k_begin - s.key,
                             k_end - s.key);
    const auto all = static_cast<double>((q_end - q_begin) * (k_end - k_begin));
    return pairs == 0 ? ' ' : pairs == all ? '#' : 2 * pairs >= all ? '+' : '.';
  }

  std::vector<std::set<int>> ranks_of(std::int64_t rows) const {
    std::vector<std::set<int>> holders(static_cast<std::size_t>(rows));
    const Placement placement(p_, s_.parallel, s_.placement, 0);
    for (int position = 0; position < s_.parallel.ranks; ++position)
      for (const TokenRun& run : placement.runs(position))
        for (const Shown& s : shown_) {
          if (static_cast<std::int64_t>(s.number) != run.sequence) continue;
          if (run.valid == 0) continue;
          const std::int64_t first = s.query + run.position - p_.first_query_at(s.number),
                             last = first + (run.valid - 1) * run.stride;
          for (std::int64_t row = row_of(first, rows); row <= row_of(last, rows); ++row) {
            // A stride may step over all of a row's queries.
            const std::int64_t begin = row * queries_ / rows, end = (row + 1) * queries_ / rows,
                               steps =
                                   (std::max<std::int64_t>(begin - first, 0) + run.stride - 1) / run.stride;
            if (first + steps * run.stride < end) holders[static_cast<std::size_t>(row)].insert(position);
          }
        }
    return holders;
  }
  // The row that has a query: the last that begins at it or before.
  std::int64_t row_of(std::int64_t query, std::int64_t rows) const {
    return std::min(rows - 1, ((query + 1) * rows - 1) / queries_);
  }

  const Scenario& s_;
  const Problem& p_;
  const Visible visible_;
  std::vector<Shown> shown_;
  std::int64_t queries_ = 0, keys_ = 0;
};

}  // namespace

std::string mask_picture(const Scenario& resolved) {
  return Picture(resolved).text();
}

}  // namespace cplab
