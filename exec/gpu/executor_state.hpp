// What the files of the GPU executor share: its ranks, links and what each rank has to tell.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/gpu/executor.hpp"
#include "exec/gpu/gather.hpp"
#include "exec/gpu/issuer.hpp"
#include "exec/gpu/messages.hpp"
#include "exec/gpu/nccl_link.hpp"
#include "exec/gpu/rank.hpp"
#include "exec/gpu/team.hpp"

namespace cplab {

struct GpuExecutor::State {
  using Clock = GpuTeam::Clock;

  State(const Plan& plan_, const GpuOptions& options_)
      : plan(plan_),
        options(options_),
        ranks(plan_.ranks.size()),
        worlds(plan_.ranks.size()),
        links(plan_.ranks.size()),
        outcomes(plan_.ranks.size()) {}

  int world() const { return static_cast<int>(plan.ranks.size()); }
  // The host watches for the end of the forward. A graph is timed as a whole.
  bool times_forward() const {
    return plan.scenario.problem.direction == Direction::backward || between_layers(plan.scenario.schedule) ||
           (plan.scenario.problem.direction != Direction::forward && !options.cuda_graph);
  }
  void require_machine();
  void set_up();
  void make_rank(int rank);
  void repeat(GpuTeam& team, int rank);
  std::vector<double> replay_graph();
  Clock::duration settling() const {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.settle_s));
  }
  void wait_for(GpuTeam& team, int rank, GpuIssuer& issuer, const std::function<bool()>& reached);
  double run_phases(GpuTeam& team, int rank, GpuIssuer& issuer, const GpuIssuer::Iteration& iteration);
  std::string how_far() const;  // " after 12 of 40 operations", of the ranks here, in program order
  [[noreturn]] void throw_hang(bool timed_out, const std::string& head);
  void finish_outcome(int rank);
  void gather_outcomes();
  void add_kernel_variants(Timeline& timeline) const;
  ExecutionResult result_of_outcomes(std::vector<double> graph_times_s);

  const Plan& plan;
  GpuOptions options;
  bool uses_nccl = false, uses_copy = false;
  // By rank; null where the rank belongs to another process. Links and messages go before the memory.
  std::vector<std::unique_ptr<GpuRank>> ranks;
  std::unique_ptr<GpuMessages> messages;
  std::vector<std::unique_ptr<NcclWorld>> worlds;
  std::vector<std::unique_ptr<NcclLink>> links;
  std::vector<RankOutcome> outcomes;
  GpuRun facts;
  Clock::time_point deadline;
  std::uint32_t repetitions = 0;  // before this run, of the messages' counters
  int warmed = 0;                 // repetitions before those that were timed, settling included
  bool hung = false;
  std::vector<std::size_t> unfinished;  // by rank, the operation waited in after a hang; past the end: none
};

}  // namespace cplab
