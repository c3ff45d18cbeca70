// Lengths and speeds at which the answer changes; see break_even.hpp.
#include "decide/break_even.hpp"

#include <algorithm>
#include <cmath>

#include "decide/changes.hpp"
#include "sim/simulate.hpp"

namespace cplab {

namespace {

constexpr std::int64_t shortest = 4096, longest = std::int64_t{1} << 20;

std::string percent(double share) {
  const int tenths = static_cast<int>(std::abs(share) * 1000 + 0.5);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

Training of_length(Training training, std::int64_t tokens, std::int64_t tokens_per_step) {
  training.sequence = tokens;
  training.lengths.clear();
  training.tokens_per_step = tokens_per_step;
  return training;
}

// Seconds a token of the best layout that fits; 0: none does.
double best_of(const Model& model, const Training& training, const Hardware& hardware,
               const SearchSpace& space) {
  try {
    StepModel steps(model, training, hardware);
    const Search found =
        search(steps, space, {.exhaustive = false, .margin = 0, .at_least = 1, .progress = {}});
    const Candidate* best = found.best();
    if (best == nullptr || !best->step.fits_everywhere()) return 0;
    return best->step.compared_s;
  } catch (const ScenarioError&) {
    return 0;
  }
}

}  // namespace

LengthPoint with_and_without(const Model& model, const Training& training, const Hardware& hardware,
                             const SearchSpace& space, std::int64_t tokens) {
  // The same tokens in every step: rows of the longest length, so that every length divides them.
  const std::int64_t step = rows_of_step(training) * row_tokens(training);
  Training at = of_length(training, tokens, (step + longest - 1) / longest * longest);
  at.tp = at.cp = at.pp = at.dp = 0;
  SearchSpace none = space, some = space;
  none.cp = {1};
  some.cp = divisors(training.gpus);
  std::erase(some.cp, 1);
  return {tokens, best_of(model, at, hardware, some), best_of(model, at, hardware, none)};
}

BreakEven pays_from(const Model& model, const Training& training, const Hardware& hardware,
                    const SearchSpace& space) {
  std::optional<LengthPoint> first;
  std::int64_t low = 0, high = 0;  // powers of two above the shortest: the first that is not tried
  while (shortest << high < longest) ++high;
  const std::int64_t all = high;
  while (low <= high) {
    const std::int64_t middle = (low + high) / 2;
    const LengthPoint point = with_and_without(model, training, hardware, space, shortest << middle);
    const bool pays =
        point.with_s > 0 && (point.without_s == 0 || point.with_s * (1 + release_noise) < point.without_s);
    if (pays) first = point;
    if (pays)
      high = middle - 1;
    else
      low = middle + 1;
  }
  if (!first)
    return {"Context parallelism does not pay up to " + std::to_string(shortest << all) +
                " tokens on these GPUs.",
            0, 0};
  const std::string from =
      first->tokens == shortest
          ? "Context parallelism pays at every length tried, from " + std::to_string(shortest) +
                " tokens on: "
          : "Context parallelism pays from " + std::to_string(first->tokens) + " tokens on: ";
  if (first->without_s == 0) return {from + "nothing else fits there.", first->tokens, 0};
  return {from + percent(first->without_s / first->with_s - 1) +
              " more tokens a second than the best layout without it.",
          first->tokens, 0};
}

namespace {

// The algorithm that is fastest at the layout's tp and cp for rows of that length; empty: none takes it.
std::string fastest_at(const Model& model, const Training& training, const Hardware& hardware,
                       ModelLayout layout, const SearchSpace& space, std::int64_t tokens) {
  const Training at = of_length(training, tokens, 0);
  StepModel steps(model, at, hardware);
  std::vector<Refusal> refused;
  std::string best;
  double best_s = 0;
  for (const auto& choices : attention_choices(steps, layout, space, refused)) {
    layout.attention = choices;
    const AttentionCost& cost = steps.attention().cost(steps.case_of(0, layout, tokens), choices[0]);
    const double time_s = cost.forward_s + cost.backward_s;
    if (best_s == 0 || time_s < best_s) best = choices[0].algorithm, best_s = time_s;
  }
  return best;
}

}  // namespace

std::vector<BreakEven> changes_of_algorithm(const Model& model, const Training& training,
                                            const Hardware& hardware, const ModelLayout& layout,
                                            const SearchSpace& space) {
  std::vector<BreakEven> found;
  if (layout.cp == 1) return found;
  const std::string where = " at tp " + std::to_string(layout.tp) + ", cp " + std::to_string(layout.cp) + ".";
  const auto fastest = [&](std::int64_t tokens) {
    return fastest_at(model, training, hardware, layout, space, tokens);
  };
  std::string last;
  for (std::int64_t tokens = shortest; tokens <= longest; tokens *= 4) {
    std::string best = fastest(tokens);
    if (best.empty()) continue;
    if (!last.empty() && best != last) {
      const std::string between = fastest(tokens / 2);
      const std::int64_t from = between == last ? tokens : tokens / 2;
      found.push_back({"From " + std::to_string(from) + " tokens on " + (between == last ? best : between) +
                           " is faster than " + last + where,
                       from, 0});
    }
    last = std::move(best);
  }
  if (found.empty() && !last.empty())
    found.push_back({last + " is fastest at every length from " + std::to_string(shortest) + " to " +
                         std::to_string(longest) + " tokens" + where,
                     0, 0});
  return found;
}

std::optional<BreakEven> nic_that_hides(const Model& model, const Training& training,
                                        const Hardware& hardware, const ModelLayout& layout, double share) {
  if (layout.tp * layout.cp <= hardware.node.gpus || hardware.network.nic_bytes_s <= 0) return {};
  const auto exposed = [&](double factor) {
    const Hardware machine = with_nic_speed(hardware, factor);
    StepModel steps(model, training, machine);
    const StepEstimate step = steps.estimate(layout);
    double transfer = 0, all = 0;
    for (const AttentionCost& cost : step.attention)
      transfer += cost.exposed_transfer_s, all += cost.forward_s + cost.backward_s;
    return transfer / all;
  };
  constexpr double slowest = 1.0 / 16, fastest = 16;
  double low = slowest, high = fastest;
  const std::string called = layout.attention[0].algorithm + " over " + std::to_string(layout.cp) + " ranks";
  if (exposed(high) > share)
    return BreakEven{"No NIC up to 16 times as fast hides the exchange of " + called + ".", 0, 0};
  if (exposed(low) <= share)
    return BreakEven{"NICs of a sixteenth of the speed would still hide the exchange of " + called + ".", 0,
                     hardware.network.nic_bytes_s * low};
  for (int i = 0; i < 6; ++i) {
    const double middle = std::sqrt(low * high);
    (exposed(middle) <= share ? high : low) = middle;
  }
  const double bytes_s = hardware.network.nic_bytes_s * high;
  return BreakEven{"The exchange of " + called + " hides behind attention from NICs of " +
                       std::to_string(static_cast<std::int64_t>(bytes_s * 8 / 1e9 + 0.5)) + " Gb/s on.",
                   0, bytes_s};
}

}  // namespace cplab
