// The parts of an answer, one after the other; see answer.hpp.
#include "cli/advise/answer.hpp"

#include <algorithm>
#include <map>

#include "cli/advise/proofs.hpp"
#include "cli/files/toml_table.hpp"

namespace cplab {

namespace {

bool fits(const Candidate& candidate) {
  return candidate.step.fits && candidate.step.host_fits;
}

// Rows of one attention plan share its proof: of equal cases alone, so that none is inferred from another
// size.
std::vector<std::string> proofs_of(StepModel& steps, const std::vector<Candidate>& candidates,
                                   const AnswerOptions& options, Progress& progress) {
  std::map<std::string, std::string> known;
  std::vector<std::string> proved;
  for (std::size_t i = 0; i < std::min(options.rows, candidates.size()); ++i) {
    const ModelLayout& layout = candidates[i].layout;
    std::string key = std::to_string(layout.tp) + " " + std::to_string(layout.cp) + " " +
                      std::to_string(layout.micro_batch);
    key += " " + algorithm_text(steps.model(), layout);
    progress.stage("checking the plan of row " + std::to_string(i + 1));
    auto found = known.find(key);
    if (found == known.end()) found = known.emplace(key, proof_of(steps, layout, options.proof_s)).first;
    proved.push_back(found->second);
  }
  return proved;
}

// The best without context parallelism, where none of them was among those that were simulated.
std::optional<Candidate> best_without_cp(const Question& question, const Search& found) {
  for (const Candidate& candidate : found.candidates)
    if (candidate.layout.cp == 1 && fits(candidate)) return candidate;
  if (!question.space.cp.empty() &&
      std::find(question.space.cp.begin(), question.space.cp.end(), 1) == question.space.cp.end())
    return {};
  SearchSpace space = question.space;
  space.cp = {1};
  try {
    StepModel steps(question.model, question.training, question.hardware);
    Search none = search(steps, space, {.exhaustive = false, .margin = 0, .at_least = 1, .progress = {}});
    if (none.candidates.empty()) return {};
    return none.candidates.front();
  } catch (const ScenarioError&) {
    return {};
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
        pays_from(with_and_without(question.model, question.training, question.hardware, question.space)));
  progress.stage("finding where algorithms change places");
  for (BreakEven& each : changes_of_algorithm(question.model, question.training, question.hardware,
                                              best.layout, question.space))
    answer.break_even.push_back(std::move(each));
  if (best.layout.cp > 1)
    if (auto hides = nic_that_hides(question.model, question.training, question.hardware, best.layout))
      answer.break_even.push_back(std::move(*hides));
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
  }
  const std::vector<Candidate>& candidates = answer.search.candidates;
  if (candidates.empty()) throw InputError("advise: no algorithm takes this attention at any legal layout");
  answer.proved = proofs_of(steps, candidates, options, progress);
  answer.regret = regret_of(candidates);
  const Candidate& best = candidates.front();
  answer.bindings = bindings_of(best.step, best.layout, question.hardware);
  if (question.baseline) answer.baseline = baseline_of(question);
  answer.without_cp = best_without_cp(question, answer.search);
  if (!fits(best)) {
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
