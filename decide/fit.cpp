// Fewest GPUs, longest row, levers; see fit.hpp.
#include "decide/fit.hpp"

#include <algorithm>

#include "sim/simulate.hpp"

namespace cplab {

namespace {

// The counts of GPUs that people ask for: powers of two, and whole nodes of other sizes.
std::vector<std::int64_t> counts_to(std::int64_t most, std::int64_t node) {
  std::vector<std::int64_t> counts;
  for (std::int64_t n = 1; n <= most; n *= 2) counts.push_back(n);
  for (std::int64_t n = node; n <= most; n *= 2) counts.push_back(n);
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

Training with_gpus(Training training, std::int64_t gpus) {
  training.gpus = gpus;
  training.tokens_per_step = 0;
  training.tp = training.cp = training.pp = training.dp = training.ep = 0;
  return training;
}

}  // namespace

namespace {

std::optional<Candidate> fit_of(const Model& model, const Training& training, const Hardware& hardware,
                                const SearchSpace& space) {
  try {
    require_ranks(hardware, training.gpus);
  } catch (const HardwareError&) {
    return {};  // the machine is smaller
  }
  StepModel steps(model, training, hardware);
  return nearest_fit(steps, space);
}

}  // namespace

std::vector<MemoryLever> levers_of(const Model& model, const Training& training, const Hardware& hardware,
                                   const ModelLayout& layout) {
  StepModel steps(model, training, hardware);
  const StepEstimate now = steps.estimate(layout);
  std::vector<MemoryLever> found;
  const auto attempt = [&](const std::string& what, const ModelLayout& with) {
    try {
      const StepEstimate step = steps.estimate(with);
      const std::int64_t frees = now.memory.total_bytes - step.memory.total_bytes;
      const double slower = step.compared_s / now.compared_s - 1;
      if (frees > 0) found.push_back({what, frees, slower, step.fits_everywhere()});
    } catch (const std::runtime_error&) {
      // That layout is not legal, so it frees nothing.
    }
  };
  const auto changed = [&](auto&& change) {
    ModelLayout with = layout;
    change(with);
    return with;
  };
  if (layout.recompute == Recompute::none)
    attempt("recompute=selective", changed([](ModelLayout& l) { l.recompute = Recompute::selective; }));
  if (layout.recompute != Recompute::full)
    attempt("recompute=full", changed([](ModelLayout& l) { l.recompute = Recompute::full; }));
  if (layout.loss_chunks == 1) attempt("loss_chunks=16", changed([](ModelLayout& l) { l.loss_chunks = 16; }));
  if (!layout.offload_checkpoints)
    attempt("offload_checkpoints",
            changed([](ModelLayout& l) { l.recompute = Recompute::full, l.offload_checkpoints = true; }));
  if (!layout.offload_optimizer)
    attempt("offload_optimizer", changed([](ModelLayout& l) { l.offload_optimizer = true; }));
  if (layout.zero < 3 && layout.pp == 1) attempt("zero=3", changed([](ModelLayout& l) { l.zero = 3; }));
  const std::vector<std::int64_t> tps = legal_tp(model, hardware.node.gpus);
  if (std::binary_search(tps.begin(), tps.end(), 2 * layout.tp))
    attempt("tp=" + std::to_string(2 * layout.tp) + " on twice the GPUs",
            changed([](ModelLayout& l) { l.tp *= 2; }));
  if (layout.cp > 1)
    attempt("cp=" + std::to_string(2 * layout.cp) + " on twice the GPUs",
            changed([](ModelLayout& l) { l.cp *= 2; }));
  std::stable_sort(found.begin(), found.end(), [](const MemoryLever& a, const MemoryLever& b) {
    if (a.fits != b.fits) return a.fits;
    return a.fits ? a.slower < b.slower : a.frees_bytes > b.frees_bytes;
  });
  return found;
}

FitAnswer fit_answer(const Model& model, const Training& training, const Hardware& hardware,
                     const SearchSpace& space, const FitOptions& options) {
  FitAnswer answer;
  std::optional<Candidate> nearest;
  for (const std::int64_t gpus : counts_to(options.most_gpus, hardware.node.gpus)) {
    nearest = fit_of(model, with_gpus(training, gpus), hardware, space);
    if (!nearest || !nearest->step.fits_everywhere()) continue;
    answer.gpus = gpus;
    answer.on_fewest = nearest->layout;
    break;
  }
  const auto at_length = [&](std::int64_t tokens) {
    Training longer = training;
    longer.sequence = tokens;
    longer.lengths.clear();
    longer.tokens_per_step = 0;
    return fit_of(model, longer, hardware, space);
  };
  std::int64_t good = 0, bad = options.longest_tokens + 1;
  for (std::int64_t tokens = 1024; tokens <= options.longest_tokens; tokens *= 4) {
    const std::optional<Candidate> found = at_length(tokens);
    if (!found || !found->step.fits_everywhere()) {
      bad = tokens;
      break;
    }
    good = tokens;
    answer.of_longest = found->layout;
  }
  // To an eighth.
  while (good > 0 && bad > good + std::max<std::int64_t>(1024, good / 8)) {
    const std::int64_t middle = (good + bad) / 2 / 1024 * 1024;
    if (middle <= good || middle >= bad) break;
    const std::optional<Candidate> found = at_length(middle);
    if (found && found->step.fits_everywhere()) {
      good = middle;
      answer.of_longest = found->layout;
    } else {
      bad = middle;
    }
  }
  answer.tokens = good;
  const std::optional<Candidate> here = fit_of(model, training, hardware, space);
  if (here && !here->step.fits_everywhere())
    answer.levers = levers_of(model, training, hardware, here->layout);
  return answer;
}

}  // namespace cplab
