// The search among legal layouts; see search.hpp.
#include "decide/search.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sim/simulate.hpp"

namespace cplab {

namespace {

// What a choice of attention is called where it is refused or restricted.
bool wanted(const AttentionChoice& choice, const SearchSpace& space) {
  const auto in = [](const std::vector<std::string>& list, const std::string& word) {
    return list.empty() || word.empty() || std::find(list.begin(), list.end(), word) != list.end();
  };
  return in(space.algorithms, choice.algorithm) &&
         (choice.algorithm.empty() || in(space.placements, choice.placement));
}

struct Priced {
  AttentionChoice choice;
  double time_s = 0;
};

// Placements that were asked for by name, of every algorithm that has another one.
void add_placements(std::vector<AttentionChoice>& choices, const SearchSpace& space) {
  const auto same = [](const AttentionChoice& a, const AttentionChoice& b) {
    return a.algorithm == b.algorithm && a.placement == b.placement &&
           a.schedule.options == b.schedule.options;
  };
  const std::size_t known = choices.size();
  for (std::size_t i = 0; i < known; ++i)
    for (const std::string& placement : space.placements) {
      AttentionChoice other = choices[i];
      if (other.algorithm.empty()) continue;
      other.placement = placement;
      if (std::none_of(choices.begin(), choices.end(),
                       [&](const AttentionChoice& each) { return same(each, other); }))
        choices.push_back(std::move(other));
    }
}

// Every legal choice for one kind, fastest first.
std::vector<Priced> priced(StepModel& model, const ModelLayout& layout, std::size_t kind,
                           const SearchSpace& space, std::vector<Refusal>& refused) {
  std::vector<Priced> found;
  const auto documents = documents_of(model.training());
  const AttentionCase of = model.case_of(kind, layout, documents.front().first);
  std::vector<AttentionChoice> choices =
      choices_of(model.model(), of, every_nth_gpu(model.hardware(), layout.tp));
  add_placements(choices, space);
  for (const AttentionChoice& choice : choices) {
    if (!wanted(choice, space)) continue;
    try {
      double time_s = 0;
      for (const auto& [document, share] : documents) {
        const AttentionCost& cost = model.attention().cost(model.case_of(kind, layout, document), choice);
        time_s += share * (cost.forward_s + cost.backward_s);
      }
      found.push_back({choice, time_s});
    } catch (const ScenarioError& error) {
      const std::int64_t heads = model.model().attention[kind].heads / layout.tp;
      const bool by_heads = std::string_view(error.what()).find("heads") != std::string_view::npos;
      refuse(refused, choice.algorithm + " at cp " + std::to_string(layout.cp) + ": " + error.what(),
             by_heads ? divisors_text(heads) : std::string());
    } catch (const StalledError& error) {
      refuse(refused, choice.algorithm + ": hangs: " + error.what());
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Priced& a, const Priced& b) { return a.time_s < b.time_s; });
  return found;
}

// One choice for each kind, every combination.
std::vector<std::vector<AttentionChoice>> combinations(const std::vector<std::vector<Priced>>& kinds) {
  std::vector<std::vector<AttentionChoice>> found{{}};
  for (const std::vector<Priced>& kind : kinds) {
    std::vector<std::vector<AttentionChoice>> longer;
    for (const std::vector<AttentionChoice>& begun : found)
      for (const Priced& each : kind) {
        longer.push_back(begun);
        longer.back().push_back(each.choice);
      }
    found = std::move(longer);
  }
  return found;
}

}  // namespace

std::vector<std::vector<AttentionChoice>> attention_choices(StepModel& model, const ModelLayout& layout,
                                                            const SearchSpace& space,
                                                            std::vector<Refusal>& refused, bool all) {
  std::vector<std::vector<Priced>> kinds;
  for (std::size_t kind = 0; kind < model.model().attention.size(); ++kind) {
    kinds.push_back(priced(model, layout, kind, space, refused));
    if (kinds.back().empty()) return {};
  }
  std::vector<std::vector<AttentionChoice>> found;
  if (kinds.size() == 1) {
    for (Priced& each : kinds[0]) found.push_back({std::move(each.choice)});
    return found;
  }
  if (all) return combinations(kinds);
  std::set<std::string> placements;
  for (const auto& kind : kinds)
    for (const Priced& each : kind) placements.insert(each.choice.placement);
  for (const std::string& placement : placements) {
    std::vector<AttentionChoice> one;
    for (const auto& kind : kinds)
      for (const Priced& each : kind)
        if (each.choice.placement == placement) {
          one.push_back(each.choice);
          break;
        }
    if (one.size() == kinds.size()) found.push_back(std::move(one));
  }
  std::vector<AttentionChoice> fastest;
  std::set<std::string> used;
  for (const auto& kind : kinds) {
    fastest.push_back(kind.front().choice);
    used.insert(kind.front().choice.placement);
  }
  if (used.size() > 1) found.push_back(std::move(fastest));
  return found;
}

namespace {

// What costs more time and frees more memory, in order.
struct Lever {
  Recompute recompute = Recompute::none;
  std::int64_t loss_chunks = 1;
};

std::vector<Lever> levers(const Training& training, const SearchSpace& space) {
  if (training.mode != Mode::training) return {{Recompute::none, 1}};
  std::vector<Recompute> how = space.recompute;
  if (how.empty()) {
    if (training.recompute_given)
      how = {training.recompute};
    else
      how = {Recompute::none, Recompute::selective, Recompute::full};
  }
  std::vector<std::int64_t> chunks = space.loss_chunks;
  if (chunks.empty())
    chunks = training.loss_chunks > 1 ? std::vector{training.loss_chunks} : std::vector<std::int64_t>{1, 16};
  std::vector<Lever> found;
  for (const Recompute each : how)
    for (const std::int64_t part : chunks) found.push_back({each, part});
  return found;
}

// The first lever with which it fits, else the last one.
template <class Estimate>
StepEstimate least_lever(ModelLayout& layout, const std::vector<Lever>& ladder, const Estimate& estimate) {
  StepEstimate step;
  for (const Lever& lever : ladder) {
    layout.recompute = lever.recompute;
    layout.loss_chunks = lever.loss_chunks;
    step = estimate(layout);
    if (step.fits_everywhere()) break;
  }
  return step;
}

}  // namespace

double uncertain_difference_s(const StepEstimate& a, const StepEstimate& b) {
  std::map<std::string_view, std::pair<double, double>>
      difference;  // by term: seconds, and how uncertain a second is
  for (const StepEstimate* step : {&a, &b})
    for (const StepTerm& term : step->terms) {
      auto& [seconds, share] = difference[term.name];
      seconds += (step == &a ? -1 : 1) * term.seconds();
      share = std::max(share, term.half_s / term.seconds());
    }
  double squares = std::pow(near_best * a.time_s, 2);
  for (const auto& [name, of] : difference) squares += std::pow(of.first * of.second, 2);
  return std::sqrt(squares);
}

bool is_equal(const StepEstimate& best, const StepEstimate& other) {
  return std::abs(best.time_s - other.time_s) <= uncertain_difference_s(best, other);
}

void rank(std::vector<Candidate>& candidates) {
  const auto fits = [](const Candidate& c) { return c.step.fits_everywhere(); };
  std::stable_sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
    if (fits(a) != fits(b)) return fits(a);
    if (!fits(a)) return a.step.memory.total_bytes < b.step.memory.total_bytes;
    return a.step.compared_s < b.step.compared_s;
  });
  if (candidates.empty() || !fits(candidates.front())) return;
  const StepEstimate fastest = candidates.front().step;
  auto end = candidates.begin();
  for (; end != candidates.end() && fits(*end); ++end) {
    end->equal_to_best = is_equal(fastest, end->step);
    if (end->step.compared_s > fastest.compared_s * (1 + near_best)) break;
  }
  for (auto at = end; at != candidates.end() && fits(*at); ++at)
    at->equal_to_best = is_equal(fastest, at->step);
  // Of equal ones those that need least come first; a difference in memory that decides nothing leaves them
  // by time.
  std::int64_t least = fastest.memory.total_bytes;
  for (auto at = candidates.begin(); at != end; ++at)
    if (at->equal_to_best) least = std::min(least, at->step.memory.total_bytes);
  const auto place = [&](const Candidate& c) {
    if (!c.equal_to_best) return std::pair<int, std::int64_t>{2, 0};
    const bool near =
        static_cast<double>(c.step.memory.total_bytes) <= (1 + near_memory) * static_cast<double>(least);
    return near ? std::pair<int, std::int64_t>{0, 0}
                : std::pair<int, std::int64_t>{1, c.step.memory.total_bytes};
  };
  std::stable_sort(candidates.begin(), end,
                   [&](const Candidate& a, const Candidate& b) { return place(a) < place(b); });
}

namespace {

struct Bounded {
  ModelLayout layout;
  StepEstimate step;
};

// By the closed form: what fits first, fastest first.
std::vector<Bounded> bounded(StepModel& model, const std::vector<ModelLayout>& layouts,
                             const std::vector<Lever>& ladder) {
  std::vector<Bounded> found;
  for (ModelLayout layout : layouts) {
    StepEstimate step =
        least_lever(layout, ladder, [&](const ModelLayout& with) { return model.bound(with); });
    found.push_back({layout, std::move(step)});
  }
  std::stable_sort(found.begin(), found.end(), [](const Bounded& a, const Bounded& b) {
    if (a.step.fits != b.step.fits) return a.step.fits;
    if (!a.step.fits) return a.step.memory.total_bytes < b.step.memory.total_bytes;
    return a.step.time_s < b.step.time_s;
  });
  return found;
}

void simulate_one(StepModel& model, const Bounded& base, const SearchSpace& space,
                  const std::vector<Lever>& ladder, bool all, Search& result) {
  for (auto& choices : attention_choices(model, base.layout, space, result.refused, all)) {
    Candidate candidate{base.layout, {}, base.step.time_s, false};
    candidate.layout.attention = std::move(choices);
    candidate.step =
        least_lever(candidate.layout, ladder, [&](const ModelLayout& with) { return model.estimate(with); });
    result.candidates.push_back(std::move(candidate));
  }
}

}  // namespace

namespace {

// By kind the algorithms that people choose among for memory; one that takes a layout's attention is enough.
std::optional<StepEstimate> plan_one(StepModel& model, ModelLayout& layout, const SearchSpace& space,
                                     const std::vector<Lever>& ladder) {
  std::optional<StepEstimate> nearest;
  ModelLayout best = layout;
  for (const char* algorithm : {"ring", "all_to_all", "all_gather"}) {
    ModelLayout tried = layout;
    const bool alone = layout.cp == 1;
    const AttentionChoice choice{alone ? "" : algorithm,
                                 alone || algorithm == std::string("all_to_all") ? "contiguous" : "zigzag",
                                 {}};
    if (!wanted(choice, space)) continue;
    tried.attention.assign(model.model().attention.size(), choice);
    try {
      StepEstimate step =
          least_lever(tried, ladder, [&](const ModelLayout& with) { return model.planned(with); });
      if (!nearest || step.memory.total_bytes < nearest->memory.total_bytes || (step.fits_everywhere())) {
        nearest = std::move(step);
        best = tried;
      }
    } catch (const ScenarioError&) {
      // That algorithm does not take it; another one may.
    }
    if (alone || (nearest && nearest->fits_everywhere())) break;
  }
  layout = best;
  return nearest;
}

}  // namespace

std::optional<Candidate> nearest_fit(StepModel& model, const SearchSpace& space) {
  std::vector<Refusal> refused;
  std::vector<ModelLayout> layouts;
  try {
    layouts = legal_layouts(model.model(), model.training(), model.hardware(), space, refused);
  } catch (const ScenarioError&) {
    return {};  // the rows do not divide the step
  }
  const std::vector<Lever> ladder = levers(model.training(), space);
  std::optional<Candidate> nearest;
  for (const Bounded& base : bounded(model, layouts, ladder)) {
    if (nearest && !base.step.fits) break;  // the plans of those need no less
    Candidate candidate{base.layout, {}, base.step.time_s, false};
    std::optional<StepEstimate> step = plan_one(model, candidate.layout, space, ladder);
    if (!step) continue;
    candidate.step = std::move(*step);
    const bool fits = candidate.step.fits_everywhere();
    if (!nearest || fits || candidate.step.memory.total_bytes < nearest->step.memory.total_bytes)
      nearest = std::move(candidate);
    if (fits) break;
  }
  return nearest;
}

Search search(StepModel& model, const SearchSpace& space, const SearchOptions& options) {
  Search result;
  const std::vector<ModelLayout> layouts =
      legal_layouts(model.model(), model.training(), model.hardware(), space, result.refused);
  if (layouts.empty()) {
    std::string why = "no layout of " + std::to_string(model.training().gpus) + " GPUs is legal";
    for (const Refusal& refusal : result.refused)
      why += "; " + refusal.reason + (refusal.nearest.empty() ? "" : " (legal: " + refusal.nearest + ")");
    throw ScenarioError("training.gpus", why);
  }
  const std::vector<Lever> ladder = levers(model.training(), space);
  const std::vector<Bounded> bases = bounded(model, layouts, ladder);
  result.considered = static_cast<std::int64_t>(bases.size());
  double best_s = 0;
  std::int64_t done = 0;
  for (const Bounded& base : bases) {
    const bool can_win = (best_s == 0 && base.step.fits) ||
                         (base.step.fits && base.step.time_s <= best_s * (1 + options.margin));
    if (!options.exhaustive && !can_win && done >= options.at_least) {
      ++result.pruned;
      continue;
    }
    simulate_one(model, base, space, ladder, options.exhaustive, result);
    ++done;
    for (const Candidate& candidate : result.candidates)
      if (candidate.step.fits_everywhere() && (best_s == 0 || candidate.step.time_s < best_s))
        best_s = candidate.step.time_s;
    if (options.progress) options.progress(done, static_cast<std::int64_t>(bases.size()));
  }
  rank(result.candidates);
  return result;
}

}  // namespace cplab
