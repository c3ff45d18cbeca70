// Host lanes, device lanes and kernels of the simulator.
#include "sim/engine.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "sim/fabrics.hpp"
#include "sim/native_flows.hpp"
#include "sim/simgrid_flows.hpp"

namespace cplab {
namespace {

// Operations between two calls of the function that is told of progress.
constexpr std::int64_t told_every = 1024;

std::unique_ptr<FlowEngine> make_flows(FlowEngineChoice choice, const Fabric& fabric,
                                       FlowEngine::Handler on_timer, FlowEngine::Handler on_flow_end) {
  if (choice == FlowEngineChoice::simgrid)
    return make_simgrid_flows(fabric, std::move(on_timer), std::move(on_flow_end));
  return std::make_unique<NativeFlows>(fabric, std::move(on_timer), std::move(on_flow_end));
}

Fabric disturbed(Fabric fabric, const std::vector<SlowRank>& slow) {
  const auto ranks = static_cast<std::size_t>(fabric.ranks);
  fabric.link_factor = factors_of(slow, ranks, &SlowRank::link);
  fabric.nic_factor = factors_of(slow, ranks, &SlowRank::nic);
  return fabric;
}

}  // namespace

// Dense numbers for the lanes that occur on any rank, in order of their key.
std::vector<int> Engine::number_lanes(const Plan& plan) {
  std::vector<int> slots(4 * 256, -1);
  for (const RankPlan& rank : plan.ranks)
    for (const Operation& op : rank.operations) slots[key_of(op.lane)] = 0;
  int next = 0;
  for (int& slot : slots)
    if (slot == 0) slot = next++;
  return slots;
}

Engine::Engine(const Plan& plan, const Hardware& hardware, const SimulateOptions& options,
               const KernelCostFunction& kernel_cost, const Recording& recording)
    : plan_(plan),
      hardware_(hardware),
      options_(options),
      kernel_cost_(kernel_cost),
      recording_(recording),
      run_ahead_(options.run_ahead > 0 ? options.run_ahead : hardware.host.run_ahead),
      slowdowns_(hardware),
      contentions_(hardware),
      walk_(plan, between_layers(plan.scenario.schedule)),
      lane_slot_(number_lanes(plan)),
      lanes_(1 + *std::max_element(lane_slot_.begin(), lane_slot_.end())),
      fabric_(disturbed(make_fabric(hardware, static_cast<int>(plan.ranks.size()), std::max(1, lanes_)),
                        options.slow)),
      compute_factor_(factors_of(options.slow, plan.ranks.size(), &SlowRank::compute)),
      hosts_(plan.ranks.size()),
      lane_runs_(plan.ranks.size() * static_cast<std::size_t>(lanes_)),
      queues_(lane_runs_.size()),
      gpus_(plan.ranks.size(),
            Multiprocessors(hardware.gpu.sms, reserved_sms(plan.scenario.schedule, hardware.gpu.sms),
                            slowdowns_, options.nccl_cluster)),
      view_facts_(plan.ranks.size()),
      wake_us_(plan.ranks.size(), std::numeric_limits<double>::infinity()),
      flows_(make_flows(
          options.engine, fabric_, [this](FlowEngine::Token t) { on_timer(t); },
          [this](FlowEngine::Token t) {
            flow_over(static_cast<std::uint32_t>(t));
            drain();
          })) {
  calls_.reserve(plan.ranks.size());
  for (const RankPlan& rank : plan.ranks) {
    calls_.emplace_back(rank, plan.scenario.problem.dtype, ProblemNumbers(plan.scenario.problem));
    const auto window = std::min<std::int64_t>(run_ahead_, static_cast<std::int64_t>(rank.operations.size()));
    completions_.emplace_back(static_cast<std::size_t>(std::max<std::int64_t>(1, window)));
  }
  for (std::uint16_t g = 0; g < plan.groups.size(); ++g) group_paths_.push_back(paths_of_group(g));
}

FlowEngine::Token Engine::token(TokenKind kind, std::uint64_t high, std::uint64_t low) {
  return static_cast<std::uint64_t>(kind) << 56 | high << 32 | low;  // high: rank, < 2^24; low: < 2^32
}

void Engine::keep_multiprocessors(std::vector<std::vector<MultiprocessorSample>>& samples) {
  samples.resize(gpus_.size());
  for (std::size_t r = 0; r < gpus_.size(); ++r) gpus_[r].keep_samples(&samples[r]);
}

void Engine::run() {
  flows_->timer(0, token(TokenKind::begin, 0, 0));
  flows_->run();
  if (!walk_.finished())
    throw StalledError("the plan stalls with " + std::to_string(walk_.remaining()) + " operations left:\n" +
                       walk_.blocked());
}

void Engine::on_timer(FlowEngine::Token t) {
  const auto high = static_cast<std::uint32_t>(t >> 32 & 0xffffff);
  const auto low = static_cast<std::uint32_t>(t);
  switch (static_cast<TokenKind>(t >> 56)) {
    case TokenKind::start: start({high, low}); break;
    case TokenKind::local: finish({high, low}); break;
    case TokenKind::startup: startup_over(low); break;
    case TokenKind::launch: {
      LaneRun& run = lane_runs_[low];
      run.launches = false;
      for (const Path path : {Path::intra, Path::inter}) launch_next(run, path);
      break;
    }
    case TokenKind::collective: collective_over(low); break;
    case TokenKind::gpu: {
      wake_us_[high] = std::numeric_limits<double>::infinity();
      events_.clear();
      gpus_[high].wake(now_us(), events_);
      handle(high);
      break;
    }
    case TokenKind::begin: {
      std::vector<OpRef> ready;
      walk_.begin(ready);
      for (std::uint32_t r = 0; r < hosts_.size(); ++r) {
        if (options_.cuda_graph) hosts_[r].free_us = hardware_.host.graph_launch_s * us_per_s;
      }
      for (const OpRef ref : ready) on_ready(ref, no_operation, ref.rank);
      break;
    }
  }
  drain();
}

// ---- host --------------------------------------------------------------------------------------------

double Engine::issue_us(const Operation& op) const {
  if (options_.cuda_graph || op.kind == OpKind::host_sync) return 0;
  const HostSpec& host = hardware_.host;
  if (!is_communication(op.kind)) return host.kernel_launch_s * us_per_s;
  return (op.transport == Transport::copy ? host.copy_launch_s : host.communication_launch_s) * us_per_s;
}

// Issues the operations below `wanted`. Later ones can wait: when they are wanted, the completions that
// limited the run-ahead are in the record, and their issue times lie in the past as they should.
void Engine::advance_host(std::uint32_t rank) {
  Host& host = hosts_[rank];
  while (host.next < host.wanted && host.sync == no_operation) {
    // Operation i may be issued once i + 1 - run_ahead are complete.
    if (host.next >= run_ahead_) {
      const std::int64_t number = host.next - run_ahead_;  // of the completion, from 0
      if (number >= host.completed) return;
      const Completion& limit =
          completions_[rank][static_cast<std::size_t>(number) % completions_[rank].size()];
      continue_host(rank, limit.at_us, limit.operation);
    }
    const OpRef ref{rank, host.next++};
    host.free_us += issue_us(operation(ref));
    time(ref).issue_s = host.free_us / us_per_s;
    cause(ref).issue = host.release;
    if (operation(ref).kind == OpKind::host_sync) host.sync = ref.operation;
    if (lane(ref).ready == ref.operation) schedule_start(ref);
  }
}

// The host could not go on before that time, because of that operation.
void Engine::continue_host(std::uint32_t rank, double at_us, std::uint32_t because) {
  Host& host = hosts_[rank];
  if (at_us <= host.free_us) return;
  host.free_us = at_us;
  host.release = because;
}

void Engine::on_ready(OpRef ref, std::uint32_t because, std::uint32_t because_rank) {
  LaneRun& run = lane(ref);
  run.ready = ref.operation;
  run.ready_us = now_us();
  cause(ref).start = because;
  if (because_rank != ref.rank) cause(ref).start_rank = static_cast<std::int32_t>(because_rank);
  Host& host = hosts_[ref.rank];
  if (ref.operation < host.next) {
    schedule_start(ref);
    return;
  }
  host.wanted = std::max(host.wanted, ref.operation + 1);
  advance_host(ref.rank);
}

// The lane waits for the start of what goes over nccl beside the operation, then the head start, before it
// waits for anything else.
double Engine::head_start_over_us(OpRef ref) {
  double from_us = -1;
  for (const std::uint32_t edge : plan_.ranks[ref.rank].after_started(operation(ref)))
    if (operation({ref.rank, edge}).transport == Transport::nccl)
      from_us = std::max(from_us, time({ref.rank, edge}).start_s * us_per_s);
  if (from_us < 0) return 0;
  return std::max(from_us, lane(ref).free_us) + head_start_us(plan_.scenario.schedule);
}

void Engine::schedule_start(OpRef ref) {
  const HostSpec& host = hardware_.host;
  const bool sync = operation(ref).kind == OpKind::host_sync;
  Cause& why = cause(ref);
  // Tables are measured back to back: what follows on its own lane has paid already.
  const std::uint32_t rank = why.start_rank < 0 ? ref.rank : static_cast<std::uint32_t>(why.start_rank);
  const bool crosses = why.start != no_operation && port({rank, why.start}) != port(ref);
  double gap_us = !crosses ? 0 : options_.cuda_graph ? host.graph_node_s : host.dependency_s;
  double latency_us = host.launch_latency_s;
  if (sync) gap_us = latency_us = host.sync_s;
  const double device_us = std::max(lane(ref).ready_us + gap_us * us_per_s, head_start_over_us(ref));
  const double issued_us = time(ref).issue_s * us_per_s + latency_us * us_per_s;
  if (issued_us > device_us) why.start = Cause::host;
  const double at_us = std::max(device_us, issued_us);
  if (at_us <= now_us())
    starts_.push_back(ref);
  else
    flows_->timer(at_us, token(TokenKind::start, ref.rank, ref.operation));
}

// ---- device ------------------------------------------------------------------------------------------

void Engine::start(OpRef ref) {
  lane(ref).ready = no_operation;
  const Operation& op = operation(ref);
  time(ref).start_s = now_us() / us_per_s;
  if (op.kind == OpKind::host_sync) {
    time(ref).start_s = std::max(0.0, time(ref).start_s - hardware_.host.sync_s);
    time(ref).origin = hardware_.host.provenance.origin;
    finish(ref);
  } else if (is_communication(op.kind)) {
    start_communication(ref);
  } else {
    start_kernel(ref);
  }
}

void Engine::start_kernel(OpRef ref) {
  const Operation& op = operation(ref);
  KernelCost cost = kernel_cost_(plan_, calls_[ref.rank], op);
  disturb(ref, cost);
  time(ref).origin = cost.origin;
  for (std::size_t n = 0; n < cost.parts.seconds.size(); ++n)
    cause(ref).shares[n] = static_cast<float>(cost.parts.share(static_cast<Origin>(n)));
  if (cost.seconds <= 0) {
    finish(ref);
  } else if (op.lane.kind == LaneKind::copy && op.kind == OpKind::copy) {
    tell_started(ref);
    flows_->timer(now_us() + cost.seconds * us_per_s, token(TokenKind::local, ref.rank, ref.operation));
  } else {
    events_.clear();
    gpus_[ref.rank].submit_kernel(now_us(), ref.operation, op.kind, cost, events_);
    handle(ref.rank);
  }
}

void Engine::disturb(OpRef ref, KernelCost& cost) const {
  const Operation& op = operation(ref);
  if (op.lane.kind == LaneKind::copy && op.kind == OpKind::copy) return;  // by a copy engine
  double factor = jitter_factor(options_.jitter, options_.seed, ref.rank, ref.operation);
  if (!compute_factor_.empty()) factor /= compute_factor_[ref.rank];
  if (factor == 1) return;
  cost.seconds *= factor;
  cost.origin = Origin::assumed;
  cost.parts = {};
}

void Engine::handle(std::uint32_t rank) {
  for (const Multiprocessors::Event& event : events_) {
    const OpRef ref{rank, event.operation};
    if (event.kind == Multiprocessors::EventKind::kernel_finished) {
      const double duration_us = now_us() - time(ref).start_s * us_per_s;
      if (event.lost_us > 0 && duration_us > 0) {
        cause(ref).lost_share = static_cast<float>(std::min(1.0, event.lost_us / duration_us));
        cause(ref).lost_origin = worst(event.origin, event.lost_origin);
        OriginSeconds parts;
        add_parts(parts, duration_us, time(ref), cause(ref));
        time(ref).origin = parts.most();
      }
      finish(ref);
      continue;
    }
    time(ref).start_s = now_us() / us_per_s;
    if (event.cause != no_operation) cause(ref).start = event.cause, cause(ref).start_rank = -1;
    tell_started(ref);
    if (event.kind == Multiprocessors::EventKind::communication_placed) resident_.push_back(ref);
  }
  const double next_us = gpus_[rank].next_us();
  if (next_us == wake_us_[rank]) return;
  wake_us_[rank] = next_us;
  flows_->alarm(static_cast<int>(rank), next_us, token(TokenKind::gpu, rank, 0));
}

// Its multiprocessors are placed: what waits for a start may go on.
void Engine::tell_started(OpRef ref) {
  startable_.clear();
  walk_.started(ref, startable_);
  for (const OpRef next : startable_) on_ready(next, ref.operation, ref.rank);
}

void Engine::finish(OpRef ref) {
  time(ref).end_s = now_us() / us_per_s;
  lane(ref).free_us = now_us();
  finished_.push_back(ref);
}

// What happens at this instant because of something else at this instant, in order; flat, since chains of
// operations that take no time can be long.
void Engine::drain() {
  for (;;) {
    if (!finished_.empty()) {
      const OpRef ref = finished_.front();
      finished_.pop_front();
      Host& host = hosts_[ref.rank];
      auto& completions = completions_[ref.rank];
      completions[host.completed++ % completions.size()] = {now_us(), ref.operation};
      if (host.sync == ref.operation) {
        host.sync = no_operation;
        continue_host(ref.rank, now_us(), ref.operation);
        if (options_.cuda_graph) host.free_us += hardware_.host.graph_launch_s * us_per_s;
      }
      ready_.clear();
      walk_.complete(ref, ready_);
      if (++done_ % told_every == 0 && tell_) tell_(done_);
      for (const OpRef next : ready_) on_ready(next, ref.operation, ref.rank);
      advance_host(ref.rank);
    } else if (!resident_.empty()) {
      const OpRef ref = resident_.front();
      resident_.pop_front();
      on_resident(ref);
    } else if (!starts_.empty()) {
      const OpRef ref = starts_.front();
      starts_.pop_front();
      start(ref);
    } else {
      return;
    }
  }
}

}  // namespace cplab
