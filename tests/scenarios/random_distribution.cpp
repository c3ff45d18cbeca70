// See random_distribution.hpp.
#include "tests/scenarios/random_distribution.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace cplab::testing {

Distribution random_distribution(const RandomDistribution& wanted, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::int64_t>(random() % n); };
  Distribution result;
  result.members.resize(static_cast<std::size_t>(wanted.members));
  result.replicated = wanted.replicated;
  for (Holding& member : result.members) {
    member.heads = {0, wanted.heads};
    if (!wanted.parts_heads) continue;
    member.heads.begin = below(static_cast<std::size_t>(wanted.heads));
    member.heads.end =
        member.heads.begin + 1 + below(static_cast<std::size_t>(wanted.heads - member.heads.begin));
  }
  std::vector<std::vector<TokenRun>> held(result.members.size());
  for (std::size_t sequence = 0; sequence < wanted.lengths.size(); ++sequence) {
    const std::int64_t length = wanted.lengths[sequence], stride = 1 + below(3);
    for (std::int64_t phase = 0; phase < stride; ++phase) {
      for (std::int64_t at = phase; at < length;) {
        TokenRun run;
        run.sequence = static_cast<std::int64_t>(sequence);
        run.position = at;
        run.stride = stride;
        run.rows = std::min(1 + below(7), (length - at + stride - 1) / stride);
        run.valid = run.rows;
        at += run.rows * stride;
        const std::size_t one = random() % result.members.size();
        for (std::size_t m = 0; m < held.size(); ++m)
          if ((m == one && wanted.somewhere) || (wanted.replicated && below(3) == 0)) held[m].push_back(run);
      }
    }
  }
  for (std::size_t m = 0; m < held.size(); ++m) {
    std::vector<TokenRun>& runs = held[m];
    std::ranges::shuffle(runs, random);
    std::vector<std::size_t> order(runs.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (!wanted.rows_in_order) std::ranges::shuffle(order, random);
    std::int64_t row = 0;
    for (const std::size_t i : order) {
      TokenRun& run = runs[i];
      if (!wanted.rows_in_order) run.row_step = 1 + below(2);
      run.row = row;
      row += run.rows * run.row_step;
    }
    result.members[m].runs = std::move(runs);
  }
  return result;
}

std::map<std::int64_t, Token> tokens_of(const Holding& holding) {
  std::map<std::int64_t, Token> tokens;
  for (const TokenRun& run : holding.runs)
    for (std::int64_t i = 0; i < run.rows; ++i)
      tokens[run.row + i * run.row_step] = {run.sequence, run.position + i * run.stride};
  return tokens;
}

std::map<Token, std::int64_t> rows_of(const Holding& holding) {
  std::map<Token, std::int64_t> rows;
  for (const auto& [row, token] : tokens_of(holding)) rows[token] = row;
  return rows;
}

}  // namespace cplab::testing
