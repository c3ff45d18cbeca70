// From a point's number to its totals or the reason why it has none; see evaluation.hpp.
#include "cli/sweep/evaluation.hpp"

#include <algorithm>
#include <map>
#include <new>
#include <optional>
#include <utility>

#include "cli/choosing.hpp"
#include "cli/console.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/memory_need.hpp"
#include "cli/prediction.hpp"
#include "cli/reasons.hpp"
#include "cli/session.hpp"
#include "plan/finding.hpp"

namespace cplab {

namespace {

// A machine's file that was changed by --set is kept for so many changes; what the files say, for good.
constexpr std::size_t most_changed_machines = 8;

SweepPoint point_of(const ScenarioFile& file, const Plan& plan, const Prediction& prediction) {
  SweepPoint point;
  const Figures& figures = prediction.figures;
  point.algorithm = file.scenario.algorithm;
  point.placement = file.scenario.placement;
  point.machine = prediction.machine;
  point.gpu = prediction.gpu;
  point.placement_padding_tokens = plan.placement_padding_tokens;
  point.time_s = figures.time_s;
  point.low_s = prediction.low_s;
  point.high_s = prediction.high_s;
  point.chain = prediction.chain;
  point.phases = figures.phases;
  const auto worst = std::ranges::max_element(figures.ranks, [](const RankFigures& a, const RankFigures& b) {
    return a.exposed_communication_s < b.exposed_communication_s;
  });
  if (worst != figures.ranks.end()) {
    point.exposed_wait_s = worst->exposed_wait_s;
    point.exposed_transfer_s = worst->exposed_transfer_s;
  }
  point.peak_bytes = figures.peak_bytes;
  point.peak_rank = figures.peak_rank;
  point.fit = prediction.fit;
  point.messages = figures.messages;
  point.host_syncs = figures.host_syncs;
  point.origins = figures.origins;
  point.notes = file.notes;
  point.notes.insert(point.notes.end(), prediction.notes.begin(), prediction.notes.end());
  return point;
}

// The plan needs more memory than there is: an error of the machine that simulates.
struct TooLittleMemory : EnvironmentError {
  using EnvironmentError::EnvironmentError;
};

}  // namespace

PointEvaluator::PointEvaluator(const Study& study, const StudyPoints& points, const Arguments& arguments,
                               std::vector<std::string> changes)
    : study_(study), points_(points), arguments_(arguments), changes_(std::move(changes)) {}

void PointEvaluator::read_machine() {
  const std::optional<ScenarioFile> alone = study_.read_if_legal(changes_);
  if (!alone) return;
  ScenarioFile file = *alone;
  file.machines = machines_;
  const std::vector<std::string> varied = points_.keys();
  const bool of_machine =
      std::ranges::any_of(varied, [](const std::string& key) { return key.starts_with("hardware."); });
  if (!file.hardware.empty() && !of_machine) (void)machine_of(file);
}

SweepKeys PointEvaluator::keys_of(std::int64_t number) const {
  SweepKeys keys;
  for (auto& [key, value] : points_.values(number)) keys.emplace_back(key, value.value);
  return keys;
}

std::string PointEvaluator::plan_key(std::int64_t number) const {
  std::string text;
  for (const auto& [key, value] : points_.values(number))
    if (!key.starts_with("hardware.") && !key.starts_with("simulate.")) text += value.set + "\n";
  return text;
}

std::vector<std::vector<std::int64_t>> PointEvaluator::grouped_by_plan(
    const std::vector<std::int64_t>& numbers) const {
  std::vector<std::vector<std::int64_t>> groups;
  std::map<std::string, std::size_t> known;
  for (const std::int64_t number : numbers) {
    const auto [at, fresh] = known.emplace(plan_key(number), groups.size());
    if (fresh) groups.emplace_back();
    groups[at->second].push_back(number);
  }
  return groups;
}

SweepPoint PointEvaluator::simulate(std::int64_t number, const std::vector<std::string>& all) {
  ScenarioFile file = study_.read(all);
  file.machines = machines_;
  require_machine(file);
  file.choice = choice_of_simulation(arguments_, machine_of(file), file.notes);
  const std::string key = plan_key(number);
  std::vector<int> islands = on_machine(file).parallel.islands;
  if (!has_plan_ || key != plan_key_ || islands != plan_islands_) {
    has_plan_ = false;
    plan_ = Plan();  // not two at a time
    try {
      plan_ = plan_of(file, PlanUse::simulate);
    } catch (const EnvironmentError& error) {
      throw TooLittleMemory(error.what());
    }
    plan_key_ = key;
    plan_islands_ = std::move(islands);
    has_plan_ = true;
  }
  SweepPoint point = point_of(file, plan_, predict(file, plan_, nullptr, SettingNotes::no));
  point.number = number;
  point.set = keys_of(number);
  return point;
}

SweepRefusal PointEvaluator::refusal(std::int64_t number, RefusalKind kind, const std::string& message,
                                     const std::vector<std::string>& all) const {
  std::string reason = reason_of(message, all, {}, study_.scenario_path);
  constexpr std::string_view set = "--set ";
  if (reason.starts_with(set)) reason.erase(0, set.size());
  reason.erase(std::min(reason.find("; with --set "), reason.size()));  // the point says what was set
  std::optional<std::string> nearest = nearest_legal(reason);
  return {number, keys_of(number), kind, std::move(reason), std::move(nearest)};
}

SweepOutcome PointEvaluator::evaluate(std::int64_t number) {
  std::vector<std::string> all = changes_;
  for (std::string& change : points_.changes(number)) all.push_back(std::move(change));
  if (std::ranges::count_if(*machines_, [](const auto& each) { return !each.first.second.empty(); }) >
      static_cast<std::ptrdiff_t>(most_changed_machines))
    std::erase_if(*machines_, [](const auto& each) { return !each.first.second.empty(); });
  try {
    return simulate(number, all);
  } catch (const TooLittleMemory& error) {
    return refusal(number, RefusalKind::memory, error.what(), all);
  } catch (const PlanTooLarge& error) {
    return refusal(number, RefusalKind::memory, error.what(), all);
  } catch (const std::bad_alloc&) {
    return refusal(number, RefusalKind::memory, "not enough memory", all);
  } catch (const InputError& error) {
    return refusal(number, RefusalKind::input, error.what(), all);
  } catch (const EnvironmentError& error) {  // also a plan that hangs on that machine
    return refusal(number, RefusalKind::input, error.what(), all);
  } catch (const ScenarioError& error) {
    return refusal(number, RefusalKind::input, error.key + ": " + error.what(), all);
  } catch (const std::exception& error) {
    return refusal(number, RefusalKind::internal, error.what(), all);
  }
}

}  // namespace cplab
