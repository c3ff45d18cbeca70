// Which keys a query sees in the references: runs of keys, row by row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cplab::reference {

// Pairs of queries [q_begin, q_end) and keys [k_begin, k_end) of one sequence. causal: those with k - q at
// most that of the last row and column (their corner is the end of the diagonal); inverse_causal: at least
// that of the first ones.
struct Rectangle {
  enum class Form : std::uint8_t { full, causal, inverse_causal };
  std::int64_t q_begin = 0, q_end = 0, k_begin = 0, k_end = 0;
  Form form = Form::full;
};

// Query i stands on key first_at + i, and sees key j iff -left <= j - (first_at + i) <= right, negative
// bounds being unlimited, and both are in one chunk of `chunk` keys (0: there are none); or a rectangle has
// the pair. With only_rectangles nothing else counts.
struct VisibleRule {
  std::int64_t queries = 0, keys = 0, first_at = 0;
  std::int64_t left = -1, right = -1, chunk = 0;
  bool only_rectangles = false;
  std::vector<Rectangle> rectangles;
};

struct KeyRun {
  std::int64_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
};

class VisibleKeys {
 public:
  explicit VisibleKeys(VisibleRule);

  // Calls visit(KeyRun) for the runs of keys that query i sees within [first, end), ascending and apart.
  template <class Visit>
  void for_each(std::int64_t i, KeyRun within, Visit visit) const {
    const auto cut = [&](KeyRun run) {
      run = {std::max(run.begin, within.begin), std::min(run.end, within.end)};
      if (!run.empty()) visit(run);
    };
    if (first_run_.empty()) return cut(by_rule(i));
    for (std::size_t n = first_run_[at(i)]; n < first_run_[at(i) + 1]; ++n) cut(runs_[n]);
  }
  // From the first to the last key that one of the queries sees.
  KeyRun seen_by(std::int64_t query, std::int64_t queries) const;
  // From the first to the last query that may see one of the keys.
  KeyRun seeing(std::int64_t key, std::int64_t keys) const;
  bool any(std::int64_t i) const { return !seen_by(i, 1).empty(); }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  KeyRun by_rule(std::int64_t i) const;  // without rectangles
  void find_runs();

  VisibleRule rule_;
  // With rectangles: the runs of query i are runs_[first_run_[i]] to before runs_[first_run_[i + 1]].
  std::vector<std::size_t> first_run_;
  std::vector<KeyRun> runs_;
};

}  // namespace cplab::reference
