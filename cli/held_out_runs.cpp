// Held-out runs; see held_out_runs.hpp.
#include "cli/held_out_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "calibrate/held_out.hpp"
#include "cli/console.hpp"
#include "cli/execution.hpp"
#include "cli/memory_need.hpp"
#include "cli/prediction.hpp"
#include "cli/session.hpp"
#include "exec/executor.hpp"
#include "exec/gpu/executor.hpp"

namespace cplab {
namespace {

constexpr int warmup = 5, iterations = 10;
constexpr double longest_s = 0.25;

double host_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double predicted_s(const ScenarioFile& file, const Plan& plan, const measure::State& state) {
  Hardware hardware = state.hardware;
  hardware.choice = choice_of_run(file);
  return predict(file, plan, hardware).figures.time_s;
}

double measured_s(const Plan& plan, std::uint64_t seed, const measure::State& state) {
  GpuOptions options;
  options.warmup = warmup;
  options.settle_s = clocks_settle_s;
  options.iterations = iterations;
  options.timeout_s = 60;
  options.keep_log = false;
  options.rates = &state.hardware.rates;
  GpuExecutor executor(plan, options);
  return run_with_random_inputs(plan, seed, executor).time_s;
}

// None where there is no prediction, or no run.
std::optional<measure::Trial> trial_of(const ScenarioFile& file, std::uint64_t seed,
                                       const measure::State& state,
                                       const std::function<void(const std::string&)>& say) {
  try {
    const Plan plan = plan_of(file, PlanUse::simulate);
    measure::Trial trial{.kind = accuracy_kind(plan.scenario)};
    trial.predicted_s = predicted_s(file, plan, state);
    if (trial.predicted_s > longest_s) return {};
    trial.measured_s = measured_s(plan, seed, state);
    say(fmt::format("{}: {}: predicted {:.3f} ms, measured {:.3f} ms, {:+.1f} %", trial.kind,
                    describe(plan.scenario), 1e3 * trial.predicted_s, 1e3 * trial.measured_s,
                    100 * (trial.predicted_s / trial.measured_s - 1)));
    return trial;
  } catch (const InputError& error) {  // drawn at random, not all can be
    say(std::string("passed over: ") + error.what());
  } catch (const std::runtime_error& error) {  // of the GPUs, or their memory
    say(std::string("not run: ") + error.what());
  }
  return {};
}

}  // namespace

std::vector<measure::AttentionShape> squares_of(const Plan& plan) {
  const Problem& problem = plan.scenario.problem;
  std::vector<measure::AttentionShape> squares;
  if (problem.attention != Attention::softmax || problem.dtype != DType::bf16 ||
      problem.head_size != problem.value_size || (problem.head_size != 64 && problem.head_size != 128))
    return squares;
  constexpr std::int64_t most_elements = 32768 * 16 * 128;  // of an operand, as many as the grid's largest
  for (const RankPlan* rank : {&plan.ranks.front(), &plan.ranks.back()})
    for (const Operation& op : rank->operations) {
      if (op.kind != OpKind::attend) continue;
      const View& q = rank->view_of(op, Operand::q);
      const auto segments = rank->segments_of(op);
      if (segments.empty()) continue;
      const Segment& first = segments.front();
      const bool causal = first.right == 0 && first.offset == 0;
      const bool alike = std::all_of(segments.begin(), segments.end(), [&](const Segment& s) {
        return s.q_count == first.q_count && s.k_count == first.q_count && s.left < 0 &&
               s.right == first.right && s.offset == first.offset;
      });
      const measure::AttentionShape square{static_cast<std::int64_t>(segments.size()), first.q_count,
                                           q.head_end - q.head_begin, problem.head_size, causal};
      if (!alike || (!causal && first.right >= 0) ||
          square.batch * square.sequence * square.heads * square.head_size > most_elements ||
          std::find(squares.begin(), squares.end(), square) != squares.end())
        continue;
      squares.push_back(square);
    }
  return squares;
}

std::vector<measure::AttentionShape> squares_of(const std::vector<std::string>& scenarios) {
  std::vector<measure::AttentionShape> all;
  for (const std::string& scenario : scenarios) {
    const ScenarioFile file = read_scenario(scenario, {});
    for (const measure::AttentionShape& square : squares_of(plan_of(file, PlanUse::simulate)))
      if (std::find(all.begin(), all.end(), square) == all.end()) all.push_back(square);
  }
  return all;
}

std::vector<measure::Trial> run_held_out(const HeldOut& asked, const measure::State& state, double most_s,
                                         const std::function<void(const std::string&)>& say) {
  const double begun_s = host_s();
  std::vector<measure::Trial> trials;
  constexpr int most_draws = 1000;
  for (int index = -static_cast<int>(asked.scenarios.size());
       index < most_draws && host_s() - begun_s < most_s; ++index) {
    const auto own = static_cast<std::size_t>(index + static_cast<int>(asked.scenarios.size()));
    try {
      const ScenarioFile file = index < 0 ? read_scenario(asked.scenarios[own], {})
                                          : parse_scenario(measure::draw(asked.seed, index, asked.gpus).text,
                                                           fmt::format("held-out scenario {}", index), {});
      if (file.scenario.parallel.world() > asked.gpus) continue;
      if (auto trial = trial_of(file, asked.seed + own, state, say)) trials.push_back(*trial);
    } catch (const InputError& error) {
      if (index < 0) throw;
      say(std::string("passed over: ") + error.what());
    }
  }
  return trials;
}

}  // namespace cplab
