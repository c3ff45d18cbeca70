// Communication of the simulator: residency, exchanges as flows, collectives by curve or in steps.
#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "sim/engine.hpp"

namespace cplab {
namespace {

// Flows of one operation that move at once on each path; more would change nothing but the simulator's own
// speed, since they share the operation's cap.
constexpr int max_moving = 8;

bool has_meeting(OpKind kind) {
  return kind != OpKind::exchange;
}

std::size_t index_of(Path path) {
  return static_cast<std::size_t>(path);
}

}  // namespace

// ---- costs -------------------------------------------------------------------------------------------

Path Engine::path_of(int a, int b) const {
  return hardware_.node_of(a) == hardware_.node_of(b) ? Path::intra : Path::inter;
}

Engine::GroupPaths Engine::paths_of_group(std::uint16_t group) const {
  const std::vector<int>& ranks = plan_.groups[group].ranks;
  std::set<int> nodes;
  for (const int rank : ranks) nodes.insert(hardware_.node_of(rank));
  return {nodes.size() > 1 ? Path::inter : Path::intra, nodes.size() < ranks.size()};
}

MessageUse Engine::use_of(const Operation& op, Path path, double bytes) const {
  const auto group = static_cast<int>(std::max<std::size_t>(plan_.groups[op.group].ranks.size(), 2));
  return {op.kind, op.transport, path, group, bytes, options_.cuda_graph};
}

const Engine::MessageCost& Engine::message_cost(const Operation& op, Path path, std::uint64_t bytes) {
  MessageUse use = use_of(op, path, static_cast<double>(bytes));
  // What a barrier's own table of another group says about one message is not known.
  if (use.kind == OpKind::barrier) use.kind = OpKind::exchange;
  const MessageKey key{use.kind, use.transport, path, use.group, op.channels, bytes};
  if (last_cost_ != nullptr && last_cost_key_ == key) return *last_cost_;
  last_cost_key_ = key;
  const auto [at, is_new] = message_costs_.try_emplace(key);
  MessageCost& cost = at->second;
  last_cost_ = nullptr;
  if (!is_new) return *(last_cost_ = &cost);
  const MessageChoice choice = find_flow(hardware_, use);
  const FlowRate rate = flow_rate(hardware_, *choice.table, use.bytes);
  cost.startup_us = rate.startup_s * us_per_s;
  cost.cap_bytes_us = rate.bytes_s / us_per_s;
  cost.origin = worst(rate.origin, choice.origin_floor);
  // A channel moves as much as any other. What fewer of them move was not measured.
  cost.channels = channels_of(op, choice.table->channels);
  if (cost.channels < choice.table->channels) {
    cost.share = static_cast<double>(cost.channels) / choice.table->channels;
    cost.cap_bytes_us *= cost.share;
    cost.origin = worst(cost.origin, Origin::extrapolated);
  }
  return *(last_cost_ = &cost);
}

MessageChoice Engine::collective_table(const Operation& op, double bytes) const {
  if (op.kind == OpKind::exchange || options_.collective_model == CollectiveModel::stepwise) return {};
  return find_collective(hardware_, use_of(op, group_paths_[op.group].widest, bytes));
}

int Engine::flow_channels(const Operation& op, Path path) {
  const auto [at, is_new] = flow_channels_.try_emplace({op.kind, path, op.group, op.channels}, 0);
  if (is_new) at->second = message_cost(op, path, 1).channels;
  return at->second;
}

// The same for every kind: what the table of its curve says, else the larger number of the paths that it
// takes.
int Engine::channels_of(OpRef ref) {
  const Operation& op = operation(ref);
  if (op.transport == Transport::copy) return 0;
  const RankPlan& rank = plan_.ranks[ref.rank];
  if (has_meeting(op.kind)) {
    const MessageChoice choice = collective_table(op, sent_bytes(rank, op));
    if (choice.table != nullptr) return channels_of(op, choice.table->channels);
    const GroupPaths& paths = group_paths_[op.group];
    const int channels = flow_channels(op, paths.widest);
    return paths.shares_nodes ? std::max(channels, flow_channels(op, Path::intra)) : channels;
  }
  int channels = 0;
  std::array<bool, 2> seen{};
  for (const Part& part : rank.parts_of(op)) {
    if (part.peer == rank.rank) continue;
    const Path path = path_of(rank.rank, part.peer);
    if (std::exchange(seen[index_of(path)], true)) continue;
    channels = std::max(channels, flow_channels(op, path));
  }
  return channels;
}

// Of fewer channels than the tables were measured with, their share.
double Engine::pressure_of(OpRef ref) {
  const Operation& op = operation(ref);
  double pressure = op.channels > 0 ? 0 : 1;
  for (const Part& part : plan_.ranks[ref.rank].parts_of(op)) {
    if (op.channels == 0) break;
    if (part.peer == static_cast<int>(ref.rank)) continue;
    pressure = std::max(pressure, message_cost(op, path_of(static_cast<int>(ref.rank), part.peer), 1).share);
  }
  return pressure;
}

double Engine::path_factor(std::uint32_t rank, Path path) const {
  const std::vector<double>& factors = path == Path::intra ? fabric_.link_factor : fabric_.nic_factor;
  return factors.empty() ? 1 : factors[rank];
}

double Engine::port_factor(OpRef ref, Path path) const {
  const double own = path_factor(ref.rank, path);
  if ((path == Path::intra ? fabric_.link_factor : fabric_.nic_factor).empty()) return 1;
  double best_peer = 0;
  for (const Part& part : plan_.ranks[ref.rank].parts_of(operation(ref)))
    if (part.send && path_of(static_cast<int>(ref.rank), part.peer) == path)
      best_peer = std::max(best_peer, path_factor(static_cast<std::uint32_t>(part.peer), path));
  return best_peer > 0 ? std::min(own, best_peer) : own;
}

double Engine::prepare_port(OpRef ref, const std::array<std::uint64_t, 2>& bytes_by_path) {
  double startup_us = 0;
  for (const Path path : {Path::intra, Path::inter}) {
    const std::uint64_t bytes = bytes_by_path[index_of(path)];
    if (bytes == 0) continue;
    const MessageCost& cost = message_cost(operation(ref), path, bytes);
    const double factor = port_factor(ref, path);
    flows_->set_cap(static_cast<int>(ref.rank), port(ref), path == Path::intra ? 0 : 1,
                    cost.cap_bytes_us * factor);
    if (factor < 1) lane(ref).sent_origin = Origin::assumed;
    startup_us = std::max(startup_us, cost.startup_us);
    lane(ref).sent_origin = worst(lane(ref).sent_origin, cost.origin);
  }
  return startup_us;
}

// ---- residency ---------------------------------------------------------------------------------------

void Engine::start_communication(OpRef ref) {
  LaneRun& run = lane(ref);
  run.sms = channels_of(ref);
  run.pressure = pressure_of(ref);
  run.active = 0;
  run.moving = {};
  run.wait_us = 0;
  run.sent_origin = Origin::measured;
  events_.clear();
  gpus_[ref.rank].submit_communication(now_us(), ref.operation, run.sms, operation(ref).transport,
                                       run.pressure, events_);
  handle(ref.rank);
}

void Engine::on_resident(OpRef ref) {
  const Operation& op = operation(ref);
  lane(ref).idle_us = now_us();
  if (has_meeting(op.kind)) {
    meet(ref);
  } else if (op.parts.count == 0) {
    leave(ref);
  } else {
    post_exchange(ref);
  }
}

// The communication is complete.
void Engine::leave(OpRef ref) {
  LaneRun& run = lane(ref);
  time(ref).wait_s = run.wait_us / us_per_s;
  events_.clear();
  gpus_[ref.rank].release_communication(now_us(), ref.operation, run.sms, operation(ref).transport,
                                        run.pressure, events_);
  finish(ref);
  handle(ref.rank);
}

// ---- transfers ---------------------------------------------------------------------------------------

void Engine::begin_transfer(const Transfer& transfer, double startup_us) {
  std::uint32_t slot = static_cast<std::uint32_t>(transfers_.size());
  if (free_transfers_.empty()) {
    transfers_.push_back(transfer);
  } else {
    slot = free_transfers_.back();
    free_transfers_.pop_back();
    transfers_[slot] = transfer;
  }
  transfers_[slot].begin_us = now_us();
  if (transfer.collective == no_operation) {
    begin_activity(transfer.sender);
    if (transfer.receiver != transfer.sender) begin_activity(transfer.receiver);
  }
  if (transfer.sender.rank == transfer.receiver.rank)  // to itself: a copy, read and written
    startup_us = 2 * static_cast<double>(transfer.bytes) / hardware_.gpu.copy_bytes_s * us_per_s;
  transfers_[slot].startup_us = startup_us;
  if (startup_us > 0)
    flows_->timer(now_us() + startup_us, token(TokenKind::startup, 0, slot));
  else
    startup_over(slot);
}

void Engine::startup_over(std::uint32_t slot) {
  const Transfer& transfer = transfers_[slot];
  if (transfer.sender.rank == transfer.receiver.rank || transfer.bytes == 0) {
    transfer_over(slot);
    return;
  }
  LaneRun& run = lane(transfer.sender);
  if (operation(transfer.sender).parts.count <= max_moving) {
    launch(slot);
    return;
  }
  // Who goes first is decided when all that begin now are known.
  const auto ranks = static_cast<std::uint32_t>(plan_.ranks.size());
  std::vector<Queued>& queue = queues_of(run)[index_of(path_of(transfer))];
  queue.push_back({(transfer.receiver.rank + ranks - transfer.sender.rank) % ranks, slot, queued_++});
  std::push_heap(queue.begin(), queue.end(), std::greater<>());
  if (std::exchange(run.launches, true)) return;
  flows_->timer(now_us(), token(TokenKind::launch, 0, static_cast<std::uint64_t>(&run - lane_runs_.data())));
}

Path Engine::path_of(const Transfer& transfer) const {
  return path_of(static_cast<int>(transfer.sender.rank), static_cast<int>(transfer.receiver.rank));
}

void Engine::launch(std::uint32_t slot) {
  const Transfer& transfer = transfers_[slot];
  ++lane(transfer.sender).moving[index_of(path_of(transfer))];
  const int from = static_cast<int>(transfer.sender.rank), to = static_cast<int>(transfer.receiver.rank);
  // What kernels beside it take from the whole message, its start-up included, it has to make up for here.
  std::uint64_t bytes = transfer.bytes;
  const MessageCost& cost = message_cost(operation(transfer.sender), path_of(transfer), transfer.bytes);
  const double alone_us = cost.startup_us + static_cast<double>(bytes) / cost.cap_bytes_us;
  const auto slowed = contention_of(transfer.sender, static_cast<double>(bytes), alone_us);
  if (slowed.longer_us > 0) {
    bytes += static_cast<std::uint64_t>(slowed.longer_us * cost.cap_bytes_us);
    LaneRun& run = lane(transfer.sender);
    run.sent_origin = worst(run.sent_origin, slowed.origin);
  }
  flows_->flow(from, port(transfer.sender), to, fabric_.level(from, to), bytes, slot);
}

Multiprocessors::Contention Engine::contention_of(OpRef ref, double bytes, double alone_us) {
  const Operation& op = operation(ref);
  return gpus_[ref.rank].contention(contentions_, {op.kind, op.transport, lane(ref).sms, bytes, alone_us},
                                    now_us());
}

// As many as may move. The next higher rank first, as NCCL orders the rounds of a group, so that not all send
// to one rank at once.
void Engine::launch_next(LaneRun& run, Path path) {
  std::vector<Queued>& queue = queues_of(run)[index_of(path)];
  while (run.moving[index_of(path)] < max_moving && !queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const std::uint32_t slot = queue.back().slot;
    queue.pop_back();
    launch(slot);
  }
}

void Engine::flow_over(std::uint32_t slot) {
  LaneRun& run = lane(transfers_[slot].sender);
  const Path path = path_of(transfers_[slot]);
  --run.moving[index_of(path)];
  if (!run.launches) launch_next(run, path);
  transfer_over(slot);
}

void Engine::transfer_over(std::uint32_t slot) {
  const Transfer transfer = transfers_[slot];
  free_transfers_.push_back(slot);
  if (transfer.collective != no_operation) {
    collective_transfer_over(transfer);
    return;
  }
  for (const OpRef ref : {transfer.sender, transfer.receiver}) {
    time(ref).origin = worst(time(ref).origin, lane(transfer.sender).sent_origin);
    note_end(ref, transfer.trigger, transfer.begin_us);
    note_far(ref, transfer);
  }
  bool sender_done = false, receiver_done = false;
  for (std::uint32_t i = 0; i < transfer.parts; ++i) {
    sender_done = walk_.part_done(transfer.sender);
    receiver_done = walk_.part_done(transfer.receiver);
  }
  end_activity(transfer.sender);
  if (transfer.receiver != transfer.sender) end_activity(transfer.receiver);
  if (transfer.receiver == transfer.sender) {
    if (sender_done || receiver_done) leave(transfer.sender);
    return;
  }
  if (sender_done) leave(transfer.sender);
  if (receiver_done) leave(transfer.receiver);
}

void Engine::begin_activity(OpRef ref) {
  LaneRun& run = lane(ref);
  if (run.active++ == 0) run.wait_us += now_us() - run.idle_us;
}

void Engine::end_activity(OpRef ref) {
  LaneRun& run = lane(ref);
  if (--run.active == 0) run.idle_us = now_us();
}

void Engine::note_far(OpRef ref, const Transfer& transfer) {
  Cause& why = cause(ref);
  why.startup_us = static_cast<float>(transfer.startup_us);
  why.sends = ref == transfer.sender;
  why.far_rank = static_cast<std::int32_t>(why.sends ? transfer.receiver.rank : transfer.sender.rank);
  why.carrier = path_of(transfer) == Path::inter ? ChainResource::nic : ChainResource::link;
}

// Called for each transfer; the last call for an operation counts, because its last transfer determines its
// end.
void Engine::note_end(OpRef ref, OpRef trigger, double begin_us) {
  Cause& why = cause(ref);
  why.begin_s = begin_us / us_per_s;
  why.peer_rank = trigger == ref ? -1 : static_cast<std::int32_t>(trigger.rank);
  why.peer_operation = trigger.operation;
}

}  // namespace cplab
