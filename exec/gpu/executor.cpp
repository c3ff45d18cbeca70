// Ranks on GPUs, their threads, and timed repetitions; see executor.hpp.
#include <cuda_runtime.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "exec/buffer_image.hpp"
#include "exec/gpu/clock.hpp"
#include "exec/gpu/executor_state.hpp"
#include "exec/gpu/gather.hpp"
#include "exec/gpu/graph.hpp"
#include "exec/gpu/issuer.hpp"
#include "exec/gpu/machine.hpp"
#include "exec/gpu/messages.hpp"
#include "exec/gpu/nccl_link.hpp"
#include "exec/gpu/peer_access.hpp"
#include "exec/gpu/peer_sum.hpp"
#include "exec/gpu/rank.hpp"
#include "exec/gpu/selection.hpp"
#include "exec/gpu/team.hpp"
#include "exec/repeated.hpp"
#include "kernels/cuda.hpp"

namespace cplab {

namespace {

struct TimeUp {};  // a rank's thread has waited until the deadline

}  // namespace

bool have_gpu_device() {
  return true;
}

GpuExecutor::GpuExecutor(const Plan& plan, const GpuOptions& options)
    : state_(std::make_unique<State>(plan, options)) {
  require_executable(plan);
  state_->require_machine();
  try {
    state_->set_up();
  } catch (const std::exception& error) {
    if (options.rendezvous != nullptr) options.rendezvous->announce_failure(error.what());
    throw;
  }
}

// Kernels that hang may never end, and cudaFree would wait for them: after a hang everything is left to the
// end of the process, so that the hang is reported at once.
GpuExecutor::~GpuExecutor() {
  if (state_->hung) (void)state_.release();
}

void GpuExecutor::State::require_machine() {
  for (const RankPlan& rank : plan.ranks) {
    for (const Operation& op : rank.operations) {
      if (!is_communication(op.kind)) continue;
      (op.transport == Transport::nccl ? uses_nccl : uses_copy) = true;
      const std::size_t members = plan.groups[op.group].ranks.size();
      const bool sums = op.kind == OpKind::reduce_scatter || op.kind == OpKind::all_reduce;
      if (op.transport == Transport::nccl || !sums || members <= most_summed) continue;
      throw GpuError(operation_id(rank, op) + ": the link copy sums over " + std::to_string(most_summed) +
                     " ranks at most, not " + std::to_string(members) + "; schedule.transport=nccl does");
    }
  }
  const Rendezvous* processes = options.rendezvous;
  if (processes != nullptr) {
    if (processes->world() != world()) {
      throw GpuError("the plan has " + std::to_string(world()) + " ranks and the launch " +
                     std::to_string(processes->world()) + " processes: one process for every rank");
    }
    if (options.cuda_graph) throw GpuError("--graph: the ranks of one CUDA graph are threads of one process");
    if (options.separate && uses_copy && world() > 1) {
      throw GpuError("--allocator separate: ranks that are processes copy into each other's arena");
    }
    if (options.ranks_per_gpu > 1 && uses_nccl && world() > 1) {
      throw GpuError("--ranks-per-gpu: NCCL takes one rank a GPU; schedule.transport=copy takes several");
    }
  }
  const int here = processes == nullptr ? world() : options.local_world;
  require_gpus(here, options.ranks_per_gpu, uses_nccl && world() > 1);
  // Processes of one host number their GPUs as the launcher numbers them.
  const int first = processes == nullptr ? 0 : processes->rank() - options.local_rank;
  const auto device_of = [&](int rank) {
    return rank < first || rank >= first + here ? -1 : (rank - first) / options.ranks_per_gpu;
  };
  require_peer_access(plan, device_of, can_access_peer);
}

void GpuExecutor::State::make_rank(int r) {
  const auto i = static_cast<std::size_t>(r);
  const int place = options.rendezvous == nullptr ? r : options.local_rank;
  GpuRankOptions of;
  of.device = place / options.ranks_per_gpu;
  of.shared_gpu = options.ranks_per_gpu > 1;
  of.separate = options.separate;
  of.deterministic = options.deterministic;
  of.way = options.way;
  of.choices = options.choices;
  of.rates = options.rates;
  of.numbers = ProblemNumbers(plan.scenario.problem);
  of.poison = options.poison;
  of.jitter = options.jitter;
  of.times_forward = times_forward();
  of.head_start_us = head_start_us(plan.scenario.schedule);
  load_gpu(of.device, uses_copy, r);
  of.reserved_sms = reserved_sms(plan.scenario.schedule, multiprocessors(of.device));
  RankMemory& memory = outcomes[i].memory;
  memory.rank = r;
  memory.context_bytes = used_gpu_bytes(of.device);
  ranks[i] = std::make_unique<GpuRank>(plan.ranks[i], plan.scenario.problem.dtype, of);
  ranks[i]->prepare();
  memory.tables_bytes = ranks[i]->tables_bytes();
  memory.arena_bytes = plan.ranks[i].arena_bytes;
}

void GpuExecutor::State::set_up() {
  facts.environment = gpu_environment(uses_nccl);
  facts.launch = options.rendezvous == nullptr ? "threads" : "processes";
  if (options.way != kernels::ChoiceWay::table)
    facts.environment.emplace_back("choose", kernels::name_of(options.way));
  facts.environment.emplace_back(
      "rates", options.rates != nullptr ? options.rates->source : kernels::cuda::rates_of_device().source);
  facts.ranks_per_gpu = options.ranks_per_gpu;
  facts.cuda_graph = options.cuda_graph;
  if (uses_copy) facts.links.emplace_back("copy", options.rendezvous == nullptr ? "peer access" : "CUDA IPC");
  if (uses_nccl) facts.links.emplace_back("nccl", nccl_version());

  GpuTeam team(world(), options.rendezvous);
  for (const int r : team.local()) make_rank(r);
  messages = std::make_unique<GpuMessages>(plan, PlannedMessages(plan), ranks, team);
  for (const int r : team.local()) {
    GpuRank& rank = *ranks[static_cast<std::size_t>(r)];
    rank.use_device();
    if (options.instrumented > 0) rank.make_timing_events();
  }
  if (!uses_nccl) return;  // a rank that is alone sends to itself through NCCL too
  NcclWorld::Id id;
  if (team.is_local(0)) id = NcclWorld::make_id();
  if (options.rendezvous != nullptr) {
    const auto ids = options.rendezvous->all_gather(std::as_bytes(std::span(id)), options.timeout_s);
    const auto* first = reinterpret_cast<const char*>(ids.front().data());
    id.assign(first, first + ids.front().size());
  }
  team.run([&](int r) {
    const auto i = static_cast<std::size_t>(r);
    ranks[i]->use_device();
    const std::int64_t before = ranks[i]->used_bytes();
    worlds[i] = std::make_unique<NcclWorld>(std::vector{&plan}, r, id);
    links[i] = std::make_unique<NcclLink>(plan, *ranks[i], *worlds[i]);
    links[i]->connect(*messages);
    outcomes[i].memory.communicator_bytes = ranks[i]->used_bytes() - before;
  });
}

bool GpuExecutor::has(int rank, std::string_view buffer) const {
  return find_buffer(state_->plan, rank, buffer) != nullptr;
}

void GpuExecutor::write(int rank, std::string_view buffer, std::span<const double> values) {
  const Buffer& b = require_buffer(state_->plan, rank, buffer);
  GpuRank* own = state_->ranks[static_cast<std::size_t>(rank)].get();
  if (own != nullptr) own->write(b, values);
}

void GpuExecutor::randomize_inputs(std::uint64_t seed) {
  for (const auto& rank : state_->ranks) {
    if (rank == nullptr) continue;
    for (const Buffer& buffer : rank->plan().buffers) {
      if (buffer.category == Category::input) rank->randomize(buffer, seed);
    }
  }
}

void GpuExecutor::select_keys(const KeySelection& selection) {
  const Problem& p = state_->plan.scenario.problem;
  for (std::size_t i = 0; i < state_->ranks.size(); ++i)
    if (state_->ranks[i] != nullptr)
      cplab::select_keys(*state_->ranks[i], p, selection.rows[i], selection.biases);
}

std::vector<double> GpuExecutor::read(int rank, std::string_view buffer) const {
  const Buffer& b = require_buffer(state_->plan, rank, buffer);
  const auto i = static_cast<std::size_t>(rank);
  if (state_->ranks[i] != nullptr) return state_->ranks[i]->read(b);
  const std::size_t index = static_cast<std::size_t>(&b - state_->plan.ranks[i].buffers.data());
  const auto& outputs = state_->outcomes[i].outputs;
  if (index >= outputs.size() || outputs[index].empty()) {
    throw GpuError("buffer " + b.name + " of rank " + std::to_string(rank) + " lies in another process");
  }
  return load_buffer(b, state_->plan.scenario.problem.dtype, outputs[index].data());
}

const GpuRun& GpuExecutor::facts() const {
  return state_->facts;
}

std::int64_t GpuExecutor::capacity_bytes() const {
  std::size_t free = 0, total = 0;
  cuda_require(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", -1);
  return static_cast<std::int64_t>(total) / state_->options.ranks_per_gpu;
}

// Polls rather than blocks: the deadline and the failure of another rank end it.
void GpuExecutor::State::wait_for(GpuTeam& team, int rank, GpuIssuer& issuer,
                                  const std::function<bool()>& reached) {
  const auto i = static_cast<std::size_t>(rank);
  try {
    for (std::uint32_t round = 1; !reached(); ++round) {
      if (issuer.advance()) {
        team.report_progress(rank, issuer.issued());
      } else if (!issuer.all_issued()) {
        std::this_thread::yield();
      }
      if (round % 64 != 0) continue;
      team.stop_if_failed();
      if (Clock::now() > deadline) throw TimeUp{};
      if (worlds[i] != nullptr && round % 4096 == 0) worlds[i]->require_healthy();
    }
  } catch (...) {
    try {
      unfinished[i] = issuer.first_unfinished();
    } catch (const GpuError&) {  // the device is lost; the error that led here is the one to report
      unfinished[i] = 0;
    }
    if (worlds[i] != nullptr) worlds[i]->abort();
    throw;
  }
}

// One iteration; returns its seconds. Where other layers run between the phases the ranks meet there, and the
// seconds of the two are added.
double GpuExecutor::State::run_phases(GpuTeam& team, int rank, GpuIssuer& issuer,
                                      const GpuIssuer::Iteration& iteration) {
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  double forward_s = 0;
  Clock::time_point start = iteration.start;
  if (times_forward()) {
    wait_for(team, rank, issuer, [&] { return issuer.forward_complete(); });
    forward_s = seconds_since(start);
    outcomes[static_cast<std::size_t>(rank)].forward_ends_s.push_back(forward_s);
  }
  const bool apart = iteration.holds_backward;
  if (apart) {
    start = team.barrier(rank, deadline);
    issuer.release_backward();
  }
  wait_for(team, rank, issuer, [&] { return issuer.complete(); });
  return (apart ? forward_s : 0) + seconds_since(start);
}

void GpuExecutor::State::repeat(GpuTeam& team, int rank) {
  const auto i = static_cast<std::size_t>(rank);
  GpuRank& own = *ranks[i];
  own.use_device();
  GpuIssuer issuer(own, *messages, links[i].get());
  GpuClock clock;
  const int timed = options.cuda_graph ? 0 : options.iterations;
  int warmup = options.cuda_graph ? 1 : options.warmup;
  Clock::time_point began;
  for (int n = 0; n < warmup + timed + options.instrumented; ++n) {
    unfinished[i] = own.plan().operations.size();  // between repetitions it waits in no operation
    team.report_progress(rank, 0);
    const Clock::time_point start = team.barrier(rank, deadline);
    if (n == 0) began = start;
    // All ranks go on warming up together, because a barrier tells all the same time.
    if (!options.cuda_graph && n == warmup && start - began < settling()) ++warmup;
    const bool instrument = n >= warmup + timed;
    if (n == warmup + timed) clock.align(own);
    GpuIssuer::Iteration iteration;
    iteration.number = repetitions + static_cast<std::uint32_t>(n) + 1;
    iteration.instrumented = instrument;
    iteration.jitter = !instrument;
    iteration.log = n == 0 && options.keep_log ? &outcomes[i].log : nullptr;
    iteration.holds_backward = between_layers(plan.scenario.schedule);
    iteration.start = n == warmup + timed ? team.barrier(rank, deadline) : start;
    issuer.begin(iteration);
    const double end_s = run_phases(team, rank, issuer, iteration);
    const bool counts = n >= warmup && !instrument;
    if (counts) outcomes[i].ends_s.push_back(end_s);
    if (!counts && times_forward()) outcomes[i].forward_ends_s.pop_back();
    if (instrument) outcomes[i].operations.push_back(clock.read(own, issuer.issue_s(), iteration.start));
    team.barrier(rank, deadline);
  }
  if (rank == team.local().front()) warmed = warmup;
  if (options.instrumented > 0) clock.check(own);
  outcomes[i].clock_residual_s = clock.residual_s();
}

std::vector<double> GpuExecutor::State::replay_graph() {
  std::vector<double> times_s;
  GpuGraph graph(ranks, *messages, links, ++repetitions);
  const Clock::time_point began = Clock::now();
  for (warmed = 0; warmed < options.warmup || Clock::now() - began < settling(); ++warmed)
    (void)graph.replay(deadline);
  for (int n = 0; n < options.iterations; ++n) times_s.push_back(graph.replay(deadline));
  return times_s;
}

ExecutionResult GpuExecutor::run() {
  State& s = *state_;
  s.deadline = GpuTeam::Clock::now() + std::chrono::duration_cast<GpuTeam::Clock::duration>(
                                           std::chrono::duration<double>(s.options.timeout_s));
  s.unfinished.clear();
  for (const RankPlan& rank : s.plan.ranks) s.unfinished.push_back(rank.operations.size());
  std::vector<double> graph_times_s;
  try {
    GpuTeam team(s.world(), s.options.rendezvous);
    team.run([&](int rank) { s.repeat(team, rank); });
    const int timed = s.options.cuda_graph ? 0 : s.options.iterations;
    s.repetitions += static_cast<std::uint32_t>(s.warmed + timed + s.options.instrumented);
    if (s.options.cuda_graph) graph_times_s = s.replay_graph();
    s.facts.warmup = s.warmed;
    for (const int rank : team.local()) s.finish_outcome(rank);
    s.gather_outcomes();
  } catch (const TimeUp&) {
    s.throw_hang(true, "the time is up" + s.how_far() + "; unfinished ranks:");
  } catch (const GpuTeam::Late& late) {
    s.throw_hang(true, late.what());
  } catch (const GpuTeam::Elsewhere& other) {
    s.throw_hang(false, other.what());
  } catch (const PeerLost& lost) {
    s.throw_hang(false, lost.what());
  } catch (const PeerFailed& failed) {
    s.throw_hang(false, failed.what());
  } catch (const RendezvousTimeout& late) {
    s.throw_hang(true, late.what());
  }
  return s.result_of_outcomes(std::move(graph_times_s));
}

}  // namespace cplab
