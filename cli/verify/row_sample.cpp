// See row_sample.hpp.
#include "cli/verify/row_sample.hpp"

#include <algorithm>
#include <cstddef>
#include <random>

#include "cli/verify/tensors.hpp"

namespace cplab {

namespace {

SampledRows sample_side(const Plan& plan, Side side, std::int64_t wanted, std::uint64_t seed) {
  const std::vector<std::int64_t>& lengths = plan.scenario.problem.lengths_of(side);
  SampledRows sample;
  std::vector<std::vector<char>> taken;
  for (const std::int64_t length : lengths) {
    taken.emplace_back(static_cast<std::size_t>(length), char{0});
    sample.all += length;
  }
  const auto take = [&](std::size_t sequence, std::int64_t position) {
    char& is_taken = taken[sequence][static_cast<std::size_t>(position)];
    if (is_taken == 0) ++sample.count;
    is_taken = 1;
  };
  for (std::size_t b = 0; b < taken.size(); ++b) {
    if (taken[b].empty()) continue;
    take(b, 0);
    take(b, lengths[b] - 1);
  }
  for (const RankPlan& rank : plan.ranks) {
    for (const LocalRun& run : local_runs(plan.scenario, rank.replica, rank.position, side)) {
      const auto b = static_cast<std::size_t>(run.sequence);
      if (run.position >= lengths[b]) continue;
      const std::int64_t tokens = (lengths[b] - run.position + run.step - 1) / run.step;
      take(b, run.position);
      take(b, run.position + (std::min(run.count, tokens) - 1) * run.step);
    }
  }
  // The others in one line, of which the first are drawn one after the other.
  struct Token {
    std::size_t sequence;
    std::int64_t position;
  };
  std::vector<Token> others;
  for (std::size_t b = 0; b < taken.size(); ++b)
    for (std::int64_t i = 0; i < lengths[b]; ++i)
      if (taken[b][static_cast<std::size_t>(i)] == 0) others.push_back({b, i});
  std::mt19937_64 random(seed);
  for (std::size_t n = 0; n < others.size() && sample.count < wanted; ++n) {
    std::swap(others[n], others[n + random() % (others.size() - n)]);
    take(others[n].sequence, others[n].position);
  }
  for (const std::vector<char>& of_sequence : taken) {
    std::vector<std::int64_t>& positions = sample.positions.emplace_back();
    for (std::size_t i = 0; i < of_sequence.size(); ++i)
      if (of_sequence[i] != 0) positions.push_back(static_cast<std::int64_t>(i));
  }
  return sample;
}

}  // namespace

SampledRows sample_rows(const Plan& plan, std::int64_t wanted, std::uint64_t seed) {
  SampledRows sample = sample_side(plan, Side::queries, wanted, seed);
  if (plan.scenario.problem.is_cross()) sample.keys = sample_side(plan, Side::keys, wanted, seed).positions;
  return sample;
}

}  // namespace cplab
