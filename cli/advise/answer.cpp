// The parts of an answer, one after the other; see answer.hpp.
#include "cli/advise/answer.hpp"

#include <algorithm>
#include <map>

#include "cli/advise/proofs.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/files/toml_table.hpp"

namespace cplab {

namespace {

// The best one's degrees with up to three algorithms, each other degrees with their best one.
std::vector<std::size_t> rows_to_show(const std::vector<Candidate>& candidates, std::size_t most) {
  constexpr std::size_t of_best = 3;
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < candidates.size() && shown.size() < most; ++i) {
    const auto like = [&](std::size_t other) {
      return same_degrees(candidates[other].layout, candidates[i].layout);
    };
    const auto before = static_cast<std::size_t>(std::count_if(shown.begin(), shown.end(), like));
    if (before == 0 || (like(0) && before < of_best)) shown.push_back(i);
  }
  return shown;
}

// Rows of one attention plan share its proof: of equal cases alone, so that none is inferred from another
// size.
void prove(StepModel& steps, Answer& answer, double most_s, Progress& progress) {
  std::map<std::string, std::string> known;
  answer.proved.assign(answer.search.candidates.size(), "not checked");
  for (std::size_t i = 0; i < answer.proved.size(); ++i)
    if (!answer.search.candidates[i].step.formulas.empty()) answer.proved[i] = "not in the vocabulary";
  for (const std::size_t i : answer.shown) {
    if (!answer.search.candidates[i].step.formulas.empty()) continue;
    const ModelLayout& layout = answer.search.candidates[i].layout;
    std::string key = std::to_string(layout.tp) + " " + std::to_string(layout.cp) + " " +
                      std::to_string(layout.micro_batch);
    key += " " + algorithm_text(steps.model(), layout);
    progress.stage("checking the plan of " + describe(layout));
    auto found = known.find(key);
    if (found == known.end()) found = known.emplace(key, proof_of(steps, layout, most_s)).first;
    answer.proved[i] = found->second;
  }
}

// Where none of those that were simulated goes without context parallelism, its best one joins them.
void add_without_cp(const Question& question, StepModel& steps, Search& found) {
  const auto without = [](const Candidate& candidate) {
    return candidate.layout.cp == 1 && candidate.step.fits_everywhere();
  };
  const std::vector<std::int64_t>& asked = question.space.cp;
  if (std::any_of(found.candidates.begin(), found.candidates.end(), without)) return;
  if (question.training.cp > 1 || (!asked.empty() && std::find(asked.begin(), asked.end(), 1) == asked.end()))
    return;
  SearchSpace space = question.space;
  space.cp = {1};
  try {
    Search none = search(steps, space, {.exhaustive = false, .margin = 0, .at_least = 1, .progress = {}});
    if (none.candidates.empty()) return;
    found.candidates.push_back(std::move(none.candidates.front()));
    rank(found.candidates);
  } catch (const ScenarioError&) {
    // No layout without it is legal.
  }
}

Candidate baseline_of(const Question& question) {
  StepModel steps(question.model, question.training, question.hardware);
  SearchSpace space = *question.baseline;
  // What a user leaves out is 1, except dp, which takes the rest of the GPUs.
  for (std::vector<std::int64_t>* degree : {&space.tp, &space.cp, &space.pp, &space.ep})
    if (degree->empty()) *degree = {1};
  try {
    Search found = search(steps, space, {.exhaustive = true, .margin = 0, .at_least = 1, .progress = {}});
    return std::move(found.candidates.at(0));
  } catch (const ScenarioError& error) {
    throw InputError("--baseline " + question.baseline_text + ": " + error.what());
  }
}

void add_break_even(const Question& question, const Candidate& best, Answer& answer, Progress& progress) {
  if (question.attention_alone) return;
  progress.stage("finding from which length context parallelism pays");
  if (question.training.gpus > 1)
    answer.break_even.push_back(
        pays_from(question.model, question.training, question.hardware, question.space));
  progress.stage("finding where algorithms change places");
  for (BreakEven& each : changes_of_algorithm(question.model, question.training, question.hardware,
                                              best.layout, question.space))
    answer.break_even.push_back(std::move(each));
  if (best.layout.cp > 1)
    if (auto hides = nic_that_hides(question.model, question.training, question.hardware, best.layout))
      answer.break_even.push_back(std::move(*hides));
}

std::string none_text(const std::vector<Refusal>& refused) {
  std::string text = "advise: no algorithm takes this attention at any legal layout";
  for (const Refusal& each : refused)
    text += "; " + each.reason + (each.nearest.empty() ? "" : " (legal: " + each.nearest + ")");
  return text;
}

}  // namespace

Answer answer_to(const Question& question, const AnswerOptions& options, Progress& progress) {
  Answer answer;
  StepModel steps(question.model, question.training, question.hardware);
  progress.stage("comparing layouts", 1, "layouts");
  SearchOptions how{.exhaustive = options.exhaustive, .progress = progress.counter()};
  try {
    answer.search = search(steps, question.space, how);
  } catch (const ScenarioError& error) {
    throw InputError(std::string("advise: ") + error.key + ": " + error.what());
  } catch (const HardwareError& error) {
    throw InputError(question.machine + ": " + place_of(error) + ": " + error.what());
  }
  const std::vector<Candidate>& candidates = answer.search.candidates;
  if (candidates.empty()) throw InputError(none_text(answer.search.refused));
  add_without_cp(question, steps, answer.search);
  answer.shown = rows_to_show(candidates, options.rows);
  prove(steps, answer, options.proof_s, progress);
  for (std::size_t i = 1; i < candidates.size() && !answer.without_cp && candidates.front().layout.cp > 1;
       ++i)
    if (candidates[i].layout.cp == 1) answer.without_cp = i;
  answer.regret = regret_of(candidates);
  const Candidate& best = candidates.front();
  answer.bindings = bindings_of(best.step);
  if (question.baseline) answer.baseline = baseline_of(question);
  if (!best.step.fits_everywhere()) {
    answer.levers = levers_of(question.model, question.training, question.hardware, best.layout);
  } else {
    progress.stage("changing one thing at a time");
    if (options.changes)
      answer.changes = changes_of(question.model, question.training, question.hardware, best.layout,
                                  best.step, question.others);
    if (options.break_even) add_break_even(question, best, answer, progress);
  }
  if (options.fit) {
    progress.stage("finding what fits");
    answer.fit = fit_answer(question.model, question.training, question.hardware, question.space, {});
  }
  return answer;
}

}  // namespace cplab
