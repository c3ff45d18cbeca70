// What a run on GPUs came to: where it hangs, what every rank tells, times and memory of all together.
#include <algorithm>
#include <utility>

#include "exec/gpu/clock.hpp"
#include "exec/gpu/executor_state.hpp"
#include "exec/gpu/machine.hpp"
#include "exec/repeated.hpp"
#include "report/interned.hpp"

namespace cplab {

namespace {

// What carried every communication operation: the NCCL call, or how the link copy did it.
std::vector<std::vector<std::string_view>> communication_variants(const Plan& plan,
                                                                  const GpuMessages& messages) {
  std::vector<std::vector<std::string_view>> variants;
  for (std::uint32_t r = 0; r < plan.ranks.size(); ++r) {
    const std::vector<Operation>& operations = plan.ranks[r].operations;
    std::vector<std::string_view>& own = variants.emplace_back(operations.size());
    for (std::uint32_t i = 0; i < operations.size(); ++i) {
      const Operation& op = operations[i];
      if (!is_communication(op.kind)) continue;
      const GpuMeeting* meeting = messages.meeting_of({r, i});
      own[i] = op.transport == Transport::copy
                   ? copy_call(op.kind)
                   : nccl_call(op.kind, meeting == nullptr ? nullptr : &meeting->plan);
    }
  }
  return variants;
}

}  // namespace

void GpuExecutor::State::add_kernel_variants(Timeline& timeline) const {
  const auto text = [](const std::vector<char>& word) {
    return interned(std::string_view(word.data(), word.size()));
  };
  for (std::size_t r = 0; r < outcomes.size(); ++r) {
    const RankOutcome& outcome = outcomes[r];
    std::vector<std::string_view>& reasons = timeline.fall_backs.emplace_back();
    for (std::size_t i = 0; i < outcome.variants.size(); ++i) {
      if (!outcome.variants[i].empty()) timeline.variants[r][i] = text(outcome.variants[i]);
      if (outcome.fall_backs[i].empty()) continue;
      reasons.resize(outcome.fall_backs.size());
      reasons[i] = text(outcome.fall_backs[i]);
    }
  }
}

std::string GpuExecutor::State::how_far() const {
  std::size_t done = 0, all = 0;
  for (std::size_t r = 0; r < unfinished.size(); ++r) {
    if (ranks[r] == nullptr) continue;
    done += unfinished[r];
    all += plan.ranks[r].operations.size();
  }
  return " after " + std::to_string(done) + " of " + std::to_string(all) + " operations";
}

void GpuExecutor::State::throw_hang(bool timed_out, const std::string& head) {
  hung = true;
  std::vector<int> waiting;
  std::vector<std::string> operations;
  std::string message = head + "\n";
  for (std::size_t r = 0; r < unfinished.size(); ++r) {
    const RankPlan& rank = plan.ranks[r];
    if (ranks[r] == nullptr) continue;
    if (unfinished[r] >= rank.operations.size()) {
      message += "rank " + std::to_string(rank.rank) + " waits for others, its own operations done\n";
      continue;
    }
    const Operation& op = rank.operations[unfinished[r]];
    waiting.push_back(rank.rank);
    operations.push_back(operation_id(rank, op));
    message += "rank " + std::to_string(rank.rank) + " waits in " + operations.back() + " (" +
               describe(rank, op) + ")\n";
  }
  if (timed_out && options.rendezvous != nullptr) options.rendezvous->announce_failure(message);
  throw ExecutionHang(timed_out, std::move(waiting), std::move(operations), message);
}

void GpuExecutor::State::finish_outcome(int rank) {
  const auto i = static_cast<std::size_t>(rank);
  RankOutcome& outcome = outcomes[i];
  outcome.overrun = !ranks[i]->red_zones_intact();
  outcome.memory.growth_bytes = ranks[i]->used_bytes();
  outcome.variants.clear();
  outcome.fall_backs.clear();
  for (std::uint32_t op = 0; op < plan.ranks[i].operations.size(); ++op) {
    const std::string variant = ranks[i]->variant(op), fall_back = ranks[i]->fall_back(op);
    outcome.variants.emplace_back(variant.begin(), variant.end());
    outcome.fall_backs.emplace_back(fall_back.begin(), fall_back.end());
  }
  if (options.rendezvous == nullptr) return;
  outcome.outputs.clear();
  for (const Buffer& buffer : plan.ranks[i].buffers) {
    outcome.outputs.emplace_back();
    if (buffer.category == Category::output) outcome.outputs.back() = ranks[i]->image(buffer);
  }
}

void GpuExecutor::State::gather_outcomes() {
  if (options.rendezvous == nullptr) return;
  const auto own = static_cast<std::size_t>(options.rendezvous->rank());
  const auto all = options.rendezvous->all_gather(pack(outcomes[own]), options.timeout_s);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (r != own) outcomes[r] = received_outcome(plan.ranks[r], all[r], outcomes[own]);
  }
}

ExecutionResult GpuExecutor::State::result_of_outcomes(std::vector<double> graph_times_s) {
  ExecutionResult result;
  result.times_s = std::move(graph_times_s);
  std::vector<double> forward_s;  // by repetition, the maximum over ranks
  std::vector<std::pair<double, Timeline>> instrumented(static_cast<std::size_t>(options.instrumented));
  facts.memory.clear();
  facts.allocation_log_equals_plan = options.keep_log;
  facts.clock_residual_s = 0;
  for (std::size_t r = 0; r < outcomes.size(); ++r) {
    RankOutcome& outcome = outcomes[r];
    for (std::size_t n = 0; n < outcome.ends_s.size(); ++n) {
      if (n >= result.times_s.size()) result.times_s.push_back(0);
      result.times_s[n] = std::max(result.times_s[n], outcome.ends_s[n]);
    }
    forward_s.resize(std::max(forward_s.size(), outcome.forward_ends_s.size()));
    for (std::size_t n = 0; n < outcome.forward_ends_s.size(); ++n) {
      forward_s[n] = std::max(forward_s[n], outcome.forward_ends_s[n]);
    }
    for (std::size_t n = 0; n < instrumented.size(); ++n) {
      instrumented[n].second.ranks.push_back(std::move(outcome.operations[n]));
    }
    facts.memory.push_back(outcome.memory);
    facts.clock_residual_s = std::max(facts.clock_residual_s, outcome.clock_residual_s);
    if (options.keep_log) {
      if (!equals_plan(plan.ranks[r], outcome.log)) facts.allocation_log_equals_plan = false;
      result.memory.push_back(std::move(outcome.log));
    }
    if (outcome.overrun) result.overrun_ranks.push_back(static_cast<int>(r));
    outcome.ends_s.clear();
    outcome.forward_ends_s.clear();
    outcome.operations.clear();
    outcome.log = {};
  }
  for (auto& [time_s, timeline] : instrumented) {
    nccl_waits(plan, *messages, timeline);
    for (const auto& rank : timeline.ranks) {
      for (const OperationTime& time : rank) time_s = std::max(time_s, time.end_s);
    }
  }
  if (!options.cuda_graph) result.phases = median_phases(plan, result.times_s, forward_s);
  // The second phase is what is left of the iteration.
  if (plan.scenario.problem.direction == Direction::backward) {
    for (std::size_t n = 0; n < result.times_s.size() && n < forward_s.size(); ++n) {
      result.times_s[n] -= forward_s[n];
    }
  }
  result.time_s = median(result.times_s);
  if (!instrumented.empty()) {
    result.timeline = take_lower_median(instrumented);
    result.timeline.variants = communication_variants(plan, *messages);
    add_kernel_variants(result.timeline);
  }
  explain_memory(facts.memory, options.rendezvous == nullptr ? options.ranks_per_gpu : 1);
  return result;
}

}  // namespace cplab
