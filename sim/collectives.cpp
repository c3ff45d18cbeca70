// Collectives of the simulator: all members meet, then a measured curve, or steps of point-to-point flows as
// NCCL's ring algorithms take them.
#include <algorithm>
#include <cmath>

#include "sim/engine.hpp"

namespace cplab {
namespace {

constexpr double us = 1e6;

}  // namespace

void Engine::meet(OpRef ref) {
  std::vector<OpRef> members;
  if (!walk_.meet(ref, members)) return;
  std::uint32_t slot = static_cast<std::uint32_t>(collectives_.size());
  if (free_collectives_.empty()) {
    collectives_.emplace_back();
  } else {
    slot = free_collectives_.back();
    free_collectives_.pop_back();
  }
  Collective& collective = collectives_[slot];
  collective = {};
  collective.members = std::move(members);
  collective.trigger = ref;
  collective.kind = operation(ref).kind;
  for (const OpRef member : collective.members) {
    begin_activity(member);
    note_end(member, ref, now_us());
  }
  begin_collective(slot);
}

void Engine::begin_collective(std::uint32_t slot) {
  Collective& collective = collectives_[slot];
  const Operation& op = operation(collective.trigger);
  const std::size_t n = collective.members.size();
  if (n < 2) {
    collective_over(slot);
    return;
  }
  measure(collective);
  Estimate estimate;
  if (const MessageChoice choice = collective_table(op); choice.table != nullptr) {
    std::uint64_t bytes = 0;
    for (std::size_t m = 0; m < n; ++m) bytes = std::max(bytes, wire_bytes(collective, m));
    estimate = lookup(choice.table->points, static_cast<double>(bytes), choice.table->provenance.origin);
    estimate.origin = worst(estimate.origin, choice.origin_floor);
  } else if (op.kind == OpKind::barrier) {
    // A tree of messages without data: one start-up a level.
    const MessageCost& cost = message_cost(op, group_path_[op.group], 1);
    estimate = {cost.startup_us / us * std::ceil(std::log2(static_cast<double>(n))),
                worst(cost.origin, Origin::extrapolated)};
  } else {
    begin_stepwise(slot);
    return;
  }
  for (const OpRef member : collective.members) time(member).origin = estimate.origin;
  flows_.timer(now_us() + estimate.seconds * us, token(TokenKind::collective, 0, slot));
}

// What each member contributes, in bytes, from the parts of the plan.
void Engine::measure(Collective& collective) const {
  const DType dtype = plan_.scenario.problem.dtype;
  const std::size_t n = collective.members.size();
  if (collective.kind == OpKind::barrier) return;
  if (collective.kind == OpKind::all_reduce) {
    const RankPlan& rank = plan_.ranks[collective.trigger.rank];
    for (const Access& access : rank.reads(operation(collective.trigger)))
      collective.bytes += static_cast<std::uint64_t>(view_bytes(rank, rank.views[access.view], dtype));
    return;
  }
  std::vector<std::size_t> position(plan_.ranks.size());
  for (std::size_t m = 0; m < n; ++m) position[collective.members[m].rank] = m;
  const bool to_each = collective.kind == OpKind::all_to_all;
  collective.parts.assign(to_each ? n * n : n, 0);
  for (std::size_t m = 0; m < n; ++m) {
    const RankPlan& rank = plan_.ranks[collective.members[m].rank];
    for (const Part& part : rank.parts_of(operation(collective.members[m]))) {
      if (!part.send || part.peer == rank.rank) continue;
      const std::size_t peer = position[static_cast<std::size_t>(part.peer)];
      const auto bytes = static_cast<std::uint64_t>(view_bytes(rank, rank.views[part.view], dtype));
      if (to_each) {
        collective.parts[m * n + peer] += bytes;
      } else {
        // all_gather: what m gives to everybody. reduce_scatter: the shard that the peer will own.
        std::uint64_t& size = collective.parts[collective.kind == OpKind::all_gather ? m : peer];
        size = std::max(size, bytes);
      }
    }
  }
}

int Engine::steps_of(const Collective& collective) {
  const int n = static_cast<int>(collective.members.size());
  return collective.kind == OpKind::all_reduce ? 2 * (n - 1) : n - 1;
}

std::uint64_t Engine::step_bytes(const Collective& collective, std::size_t member, int step) {
  const std::size_t n = collective.members.size(), s = static_cast<std::size_t>(step);
  switch (collective.kind) {
    case OpKind::all_gather: return collective.parts[(member + n - s) % n];
    case OpKind::reduce_scatter: return collective.parts[(member + 2 * n - s - 1) % n];
    case OpKind::all_to_all: return collective.parts[member * n + (member + 1 + s) % n];
    case OpKind::all_reduce: return (collective.bytes + n - 1) / n;
    default: return 0;  // a barrier carries no bytes, the others are no collectives
  }
  return 0;
}

std::uint64_t Engine::wire_bytes(const Collective& collective, std::size_t member) {
  std::uint64_t sum = 0;
  for (int step = 0; step < steps_of(collective); ++step) sum += step_bytes(collective, member, step);
  return sum;
}

std::size_t Engine::step_peer(const Collective& collective, std::size_t member, int step) {
  const std::size_t n = collective.members.size();
  const std::size_t distance = collective.kind == OpKind::all_to_all ? 1 + static_cast<std::size_t>(step) : 1;
  return (member + distance) % n;
}

void Engine::begin_stepwise(std::uint32_t slot) {
  const std::size_t n = collectives_[slot].members.size();
  collectives_[slot].begun.assign(n, 0);
  collectives_[slot].sent.assign(n, 0);
  collectives_[slot].received.assign(n, 0);
  collectives_[slot].left = n * static_cast<std::size_t>(steps_of(collectives_[slot]));
  for (std::size_t m = 0; m < n; ++m) {
    const Collective& collective = collectives_[slot];
    const OpRef member = collective.members[m];
    std::array<std::uint64_t, 2> bytes{};
    for (int step = 0; step < steps_of(collective); ++step) {
      const OpRef peer = collective.members[step_peer(collective, m, step)];
      bytes[static_cast<std::size_t>(path_of(static_cast<int>(member.rank), static_cast<int>(peer.rank)))] +=
          step_bytes(collective, m, step);
    }
    const double startup_us = prepare_port(member, bytes);
    for (const OpRef other : collective.members)
      time(other).origin = worst(time(other).origin, worst(lane(member).sent_origin, Origin::extrapolated));
    next_step(slot, m, startup_us);  // one start-up: the later steps run inside the same kernel
  }
}

void Engine::next_step(std::uint32_t slot, std::size_t member, double startup_us) {
  Collective& collective = collectives_[slot];
  const int step = collective.begun[member]++;
  Transfer transfer;
  transfer.collective = slot;
  transfer.sender = collective.members[member];
  transfer.receiver = collective.members[step_peer(collective, member, step)];
  transfer.bytes = step_bytes(collective, member, step);
  transfer.member = static_cast<std::uint32_t>(member);
  begin_transfer(transfer, startup_us);
}

// A member starts its next step when its last send is done and the data that it forwards next has arrived.
void Engine::step_over(const Transfer& transfer) {
  const std::uint32_t slot = transfer.collective;
  Collective& collective = collectives_[slot];
  const std::size_t from = transfer.member;
  const std::size_t to = step_peer(collective, from, collective.sent[from]);
  ++collective.sent[from];
  ++collective.received[to];
  if (--collective.left == 0) {
    collective_over(slot);
    return;
  }
  const auto continue_with = [&](std::size_t m) {
    const Collective& c = collectives_[slot];
    if (c.begun[m] > c.sent[m] || c.begun[m] == steps_of(c) || c.received[m] < c.begun[m]) return;
    next_step(slot, m, 0);
  };
  continue_with(from);
  if (to != from) continue_with(to);
}

void Engine::collective_over(std::uint32_t slot) {
  const std::vector<OpRef> members = std::move(collectives_[slot].members);
  free_collectives_.push_back(slot);
  for (const OpRef member : members) {
    end_activity(member);
    leave(member);
  }
}

}  // namespace cplab
