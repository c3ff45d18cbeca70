// Regret, and how much the algorithm matters; see regret.hpp.
#include "decide/regret.hpp"

#include <algorithm>
#include <cmath>

#include "algorithms/core/list.hpp"

namespace cplab {

namespace {

// The placement where it is not the algorithm's own.
std::string text_of(const AttentionChoice& choice) {
  std::string text = choice.algorithm;
  const Algorithm* algorithm = find_algorithm(choice.algorithm);
  if (algorithm == nullptr || algorithm->placements.front() != choice.placement)
    text += " " + choice.placement;
  for (const auto& [key, value] : choice.schedule.options)
    text += (key == "inner_ranks" ? " inner " : " " + key + "=") + to_string(value);
  return text;
}

}  // namespace

std::optional<Regret> regret_of(const std::vector<Candidate>& candidates) {
  if (candidates.size() < 2 || !candidates.front().step.fits_everywhere()) return {};
  const StepEstimate& best = candidates.front().step;
  std::optional<Regret> worst;
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    if (!candidates[i].step.fits_everywhere()) continue;
    const StepEstimate& other = candidates[i].step;
    const double lost = best.time_s - other.time_s + uncertain_difference_s(best, other);
    const double share = std::max(0.0, lost / std::max(other.time_s, 1e-12));
    if (!worst || share > worst->share) worst = Regret{share, i};
  }
  return worst;
}

std::optional<double> spread_of_algorithms(const std::vector<Candidate>& candidates) {
  if (candidates.empty() || candidates.front().layout.cp == 1) return {};
  double least = 0, most = 0;
  int tried = 0;
  for (const Candidate& candidate : candidates) {
    if (!same_degrees(candidate.layout, candidates.front().layout)) continue;
    ++tried;
    least = tried == 1 ? candidate.step.time_s : std::min(least, candidate.step.time_s);
    most = std::max(most, candidate.step.time_s);
  }
  if (tried < 2) return {};
  return most / least - 1;
}

std::string algorithm_text(const Model& model, const ModelLayout& layout) {
  if (layout.cp == 1 || layout.attention.empty()) return "none";
  std::string text;
  for (std::size_t kind = 0; kind < layout.attention.size(); ++kind) {
    const std::string one = text_of(layout.attention[kind]);
    if (layout.attention.size() == 1) return one;
    text += (text.empty() ? "" : ", ") + model.attention[kind].name + ": " + one;
  }
  return text;
}

}  // namespace cplab
