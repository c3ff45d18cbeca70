// Collectives of the simulator: all members meet, then a measured curve, or flows: in rings, as NCCL's own
// collectives move equal parts, or from each member to each other one.
#include <algorithm>
#include <cmath>

#include "sim/engine.hpp"

namespace cplab {
namespace {

// Rounds of a ring: with more members a round passes on several of their parts at once, which changes nothing
// but the simulator's own speed.
constexpr int max_rounds = 64;

double wire_bytes_of_all_reduce(std::size_t members, double operand) {
  return 2.0 * static_cast<double>(members - 1) * operand / static_cast<double>(members);
}

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
    cause(member).carrier =
        group_paths_[operation(ref).group].widest == Path::inter ? ChainResource::nic : ChainResource::link;
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
  const MessageChoice choice = collective_table(op, collective.most);
  Estimate estimate;
  if (choice.table != nullptr) {
    const double bytes = op.kind == OpKind::barrier ? choice.table->points.front().bytes : collective.most;
    const double slowest = slowest_factor(collective);
    estimate = message_time(hardware_, *choice.table, bytes, 1 / slowest);
    if (slowest < 1) estimate.origin = Origin::assumed;
    estimate.origin = worst(estimate.origin, choice.origin_floor);
    if (!collective.even) estimate.origin = worst(estimate.origin, Origin::extrapolated);
    bool in_pieces = false;
    estimate.seconds += carried_longer_us(collective, *choice.table, in_pieces) / us_per_s;
    if (in_pieces) estimate.origin = worst(estimate.origin, Origin::interpolated);
  } else if (op.kind == OpKind::barrier) {
    // A tree of messages without data: one start-up a level.
    const MessageCost& cost = message_cost(op, group_paths_[op.group].widest, 1);
    estimate = {cost.startup_us / us_per_s * std::ceil(std::log2(static_cast<double>(n))),
                worst(cost.origin, Origin::extrapolated)};
  } else if (collective.most == 0) {
    collective_over(slot);
    return;
  } else {
    begin_stepwise(slot);
    return;
  }
  Multiprocessors::Contention slowed;
  for (const OpRef member : collective.members) {
    const auto of = contention_of(member, collective.most, estimate.seconds * us_per_s);
    if (of.longer_us > slowed.longer_us) slowed = of;
  }
  estimate.seconds += slowed.longer_us / us_per_s;
  if (slowed.longer_us > 0) estimate.origin = worst(estimate.origin, slowed.origin);
  const double startup = choice.table == nullptr
                             ? estimate.seconds
                             : startup_s(*choice.table, hardware_.curve_bytes_s(*choice.table));
  for (const OpRef member : collective.members) {
    time(member).origin = estimate.origin;
    cause(member).startup_us = static_cast<float>(std::max(0.0, startup) * us_per_s);
  }
  flows_->timer(now_us() + estimate.seconds * us_per_s, token(TokenKind::collective, 0, slot));
}

// All members wait for the one with the slowest link or NIC.
double Engine::slowest_factor(const Collective& collective) const {
  const Path path = group_paths_[operation(collective.trigger).group].widest;
  double factor = 1;
  for (const OpRef member : collective.members) factor = std::min(factor, path_factor(member.rank, path));
  return factor;
}

// Of the messages to the next member, which are as those to every other one.
double Engine::member_longer_us(const Collective& collective, std::size_t member, const MessageTable& table,
                                bool& by_library) const {
  const std::size_t n = collective.members.size();
  const OpRef ref = collective.members[member];
  const Operation& op = operation(ref);
  const DType nominal = plan_.scenario.problem.dtype;
  const std::vector<MessagePart> parts = parts_between(ref, collective.members[(member + 1) % n]);
  const std::vector<double> calls = call_bytes(parts, op.transport, nominal);
  // NCCL gathers what is one piece at every member, and moves the member's own part too.
  by_library =
      op.kind == OpKind::all_gather && op.transport == Transport::nccl && calls.size() == parts.size();
  if (by_library) return 0;
  const auto alone_s = [&](double bytes) { return message_time(hardware_, table, bytes).seconds; };
  return longer_by_s(calls, op.transport, static_cast<double>(n - 1), hardware_.gpu.least_kernel_s, alone_s) *
         us_per_s;
}

bool Engine::is_whole(const Operation& op) const {
  return std::any_of(hardware_.messages.begin(), hardware_.messages.end(), [&](const MessageTable& table) {
    return table.whole && table.kind == op.kind && table.transport == op.transport;
  });
}

double Engine::carried_longer_us(const Collective& collective, const MessageTable& table, bool& in_pieces) {
  if (collective.kind != OpKind::all_gather && collective.kind != OpKind::all_to_all) return 0;
  if (is_whole(operation(collective.trigger))) return 0;
  double longest_us = 0, local_us = 0;
  for (std::size_t m = 0; m < collective.members.size(); ++m) {
    bool by_library = false;
    longest_us = std::max(longest_us, member_longer_us(collective, m, table, by_library));
    if (!by_library) local_us = std::max(local_us, local_copy_us(collective.members[m]));
  }
  in_pieces = longest_us > 0;
  return longest_us + local_us;
}

std::uint64_t Engine::operand_bytes(const RankPlan& rank, const Operation& op) {
  std::uint64_t sum = 0;
  for (const Access& access : rank.reads(op)) sum += bytes_of(rank, access.view);
  return sum;
}

double Engine::sent_bytes(const RankPlan& rank, const Operation& op) {
  const std::size_t n = plan_.groups[op.group].ranks.size();
  if (op.kind == OpKind::all_reduce)
    return wire_bytes_of_all_reduce(n, static_cast<double>(operand_bytes(rank, op)));
  std::uint64_t sum = 0;
  for (const Part& part : rank.parts_of(op))
    if (part.send && part.peer != rank.rank) sum += bytes_of(rank, part.view);
  return static_cast<double>(sum);
}

// What goes from the member to each other one, in bytes: the sum of their parts.
void Engine::measure_row(const Collective& collective, std::size_t member, std::vector<std::uint64_t>& row) {
  const std::size_t n = collective.members.size();
  // Without a ring every member sums its share of all operands and gives the result to every other.
  const bool reduces = collective.kind == OpKind::all_reduce;
  row.assign(n, reduces ? (2 * collective.operand + n - 1) / n : 0);
  row[member] = 0;
  if (reduces) return;
  const RankPlan& rank = plan_.ranks[collective.members[member].rank];
  for (const Part& part : rank.parts_of(operation(collective.members[member])))
    if (part.send && part.peer != rank.rank)
      row[collective.position[static_cast<std::size_t>(part.peer)]] += bytes_of(rank, part.view);
}

void Engine::measure(Collective& collective) {
  const std::size_t n = collective.members.size();
  if (collective.kind == OpKind::barrier) return;
  if (collective.kind == OpKind::all_reduce) {
    collective.operand = operand_bytes(plan_.ranks[collective.trigger.rank], operation(collective.trigger));
    collective.most = wire_bytes_of_all_reduce(n, static_cast<double>(collective.operand));
    return;
  }
  collective.position.resize(plan_.ranks.size());
  for (std::uint32_t m = 0; m < n; ++m) collective.position[collective.members[m].rank] = m;
  std::vector<std::uint64_t> row, received(n, 0);
  for (std::size_t m = 0; m < n; ++m) {
    measure_row(collective, m, row);
    if (m == 0) collective.each = row[1];
    std::uint64_t sent = 0;
    for (std::size_t peer = 0; peer < n; ++peer) {
      if (peer == m) continue;
      sent += row[peer];
      received[peer] += row[peer];
      if (row[peer] != collective.each) collective.even = false;
    }
    collective.most = std::max(collective.most, static_cast<double>(sent));
  }
  for (const std::uint64_t bytes : received)
    collective.most = std::max(collective.most, static_cast<double>(bytes));
}

// NCCL has rings for equal parts only, and copy engines none.
bool Engine::in_rings(const Collective& collective) const {
  if (operation(collective.trigger).transport == Transport::copy) return false;
  switch (collective.kind) {
    case OpKind::all_reduce: return true;
    case OpKind::all_gather:
    case OpKind::reduce_scatter: return collective.even;
    default: return false;
  }
}

void Engine::begin_stepwise(std::uint32_t slot) {
  if (in_rings(collectives_[slot]))
    begin_rings(slot);
  else
    begin_pairs(slot);
}

// What a member sends is worth no more than a guess, and all members wait for it.
void Engine::note_origin(const Collective& collective) {
  Origin sent = Origin::extrapolated;
  for (const OpRef member : collective.members) sent = worst(sent, lane(member).sent_origin);
  for (const OpRef member : collective.members) time(member).origin = worst(time(member).origin, sent);
}

void Engine::begin_collective_transfer(std::uint32_t slot, std::uint32_t from, std::uint32_t to,
                                       std::uint64_t bytes, double startup_us) {
  const Collective& collective = collectives_[slot];
  Transfer transfer;
  transfer.collective = slot;
  transfer.sender = collective.members[from];
  transfer.receiver = collective.members[to];
  transfer.bytes = bytes;
  transfer.from = from;
  transfer.to = to;
  begin_transfer(transfer, startup_us);
}

// ---- in pairs: as an exchange of all members with all others -------------------------------------------

void Engine::begin_pairs(std::uint32_t slot) {
  const std::size_t n = collectives_[slot].members.size();
  std::vector<std::uint64_t> row;
  // All that is under way, before the first of it can end.
  for (std::size_t m = 0; m < n; ++m) {
    measure_row(collectives_[slot], m, row);
    collectives_[slot].left += n - static_cast<std::size_t>(std::count(row.begin(), row.end(), 0));
  }
  for (std::uint32_t m = 0; m < n; ++m) {
    Collective& collective = collectives_[slot];
    measure_row(collective, m, row);
    std::array<std::uint64_t, 2> bytes{};
    for (std::size_t to = 0; to < n; ++to)
      bytes[static_cast<std::size_t>(path_of(collective.members[m], collective.members[to]))] += row[to];
    double startup_us = prepare_port(collective.members[m], bytes);
    const Operation& op = operation(collective.members[m]);
    if ((collective.kind == OpKind::all_gather || collective.kind == OpKind::all_to_all) && !is_whole(op)) {
      const MessageChoice choice = find_flow(
          hardware_, use_of(op, group_paths_[op.group].widest, static_cast<double>(bytes[0] + bytes[1])));
      bool by_library = false;
      startup_us += member_longer_us(collective, m, *choice.table, by_library);
      if (!by_library) startup_us += local_copy_us(collective.members[m]);
    }
    for (std::size_t distance = 1; distance < n; ++distance) {
      const auto to = static_cast<std::uint32_t>((m + distance) % n);
      if (row[to] > 0) begin_collective_transfer(slot, m, to, row[to], startup_us);
    }
  }
  note_origin(collectives_[slot]);
}

// ---- in rings ------------------------------------------------------------------------------------------

// As many rings as the node with the fewest members has of them, each with its share of the bytes. Ring c
// passes all members of a node and leaves it through the NIC of its member c, for member c of the next node:
// so a node's NICs share what leaves it, and rails are kept. Every member but the one where a ring leaves the
// node sends to the next of its node.
void Engine::lay_rings(Collective& collective) const {
  std::map<int, std::size_t> number;  // of a node, in the order of the group
  std::vector<std::vector<std::uint32_t>> nodes;
  for (std::uint32_t m = 0; m < collective.members.size(); ++m) {
    const int node = hardware_.node_of(static_cast<int>(collective.members[m].rank));
    const auto [at, is_new] = number.try_emplace(node, nodes.size());
    if (is_new) nodes.emplace_back();
    nodes[at->second].push_back(m);
  }
  std::size_t rings = nodes[0].size();
  for (const auto& node : nodes) rings = std::min(rings, node.size());
  const auto share = [&](std::size_t of_rings) {
    return (collective.round_bytes * of_rings + rings - 1) / rings;
  };
  collective.ring.assign(collective.members.size(), {});
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const std::vector<std::uint32_t>& node = nodes[n];
    for (std::size_t p = 0; p < node.size(); ++p) {
      RingMember& member = collective.ring[node[p]];
      const bool leaves = nodes.size() > 1 && p < rings;
      if (node.size() > 1) member.sends[0] = {node[(p + 1) % node.size()], share(leaves ? rings - 1 : rings)};
      if (leaves) member.sends[1] = {nodes[(n + 1) % nodes.size()][p], share(1)};
    }
  }
  for (RingMember& member : collective.ring) {
    for (const RingMember::Send& send : member.sends) {
      if (send.bytes == 0) continue;
      ++member.sends_a_round;
      ++collective.ring[send.to].receives_a_round;
    }
  }
}

void Engine::begin_rings(std::uint32_t slot) {
  Collective& collective = collectives_[slot];
  const std::size_t n = collective.members.size();
  const bool reduces_to_all = collective.kind == OpKind::all_reduce;
  const std::uint64_t passed =
      reduces_to_all ? (2 * (n - 1) * collective.operand + n - 1) / n : (n - 1) * collective.each;
  const auto steps = static_cast<std::uint64_t>(reduces_to_all ? 2 * (n - 1) : n - 1);
  const std::uint64_t rounds = std::min<std::uint64_t>(steps, max_rounds);
  collective.rounds = static_cast<int>(rounds);
  collective.round_bytes = (passed + rounds - 1) / rounds;
  lay_rings(collective);
  for (const RingMember& member : collective.ring)
    collective.left += static_cast<std::size_t>(member.sends_a_round) * rounds;
  for (std::uint32_t m = 0; m < n; ++m) {
    std::array<std::uint64_t, 2> bytes{};
    for (const RingMember::Send& send : collective.ring[m].sends)
      bytes[static_cast<std::size_t>(path_of(collective.members[m], collective.members[send.to]))] +=
          send.bytes * rounds;
    // One start-up: the later rounds run inside the same kernel.
    next_round(slot, m, prepare_port(collective.members[m], bytes));
  }
  note_origin(collectives_[slot]);
}

void Engine::next_round(std::uint32_t slot, std::uint32_t member, double startup_us) {
  RingMember& ring = collectives_[slot].ring[member];
  ++ring.begun;
  const std::array<RingMember::Send, 2> sends = ring.sends;
  for (const RingMember::Send& send : sends)
    if (send.bytes > 0) begin_collective_transfer(slot, member, send.to, send.bytes, startup_us);
}

// In a ring, a member begins its next round when its last sends are done and the data that it passes on next
// has arrived.
void Engine::collective_transfer_over(const Transfer& transfer) {
  const std::uint32_t slot = transfer.collective;
  Collective& collective = collectives_[slot];
  if (--collective.left == 0) {
    collective_over(slot);
    return;
  }
  if (collective.ring.empty()) return;
  ++collective.ring[transfer.from].sent;
  ++collective.ring[transfer.to].received;
  const auto continue_with = [&](std::uint32_t m) {
    const RingMember& ring = collectives_[slot].ring[m];
    if (ring.begun < collectives_[slot].rounds && ring.sent == ring.begun * ring.sends_a_round &&
        ring.received >= ring.begun * ring.receives_a_round)
      next_round(slot, m, 0);
  };
  continue_with(transfer.from);
  continue_with(transfer.to);
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
