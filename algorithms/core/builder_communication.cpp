// Emission of communication: messages of a team become parts with global ranks.
#include <stdexcept>

#include "algorithms/core/builder.hpp"
#include "algorithms/core/builder_pools.hpp"
#include "algorithms/core/options.hpp"

namespace cplab {

Lane Builder::lane_of(Lane lane, TransportChoice choice, Transport taken) const {
  const bool apart = !choice && taken == Transport::nccl && lane.kind == LaneKind::comm;
  if (apart && mixes_transports(scenario_.parallel)) lane.index += beside_copies;
  return lane;
}

void Builder::communicate(Lane lane, OpKind kind, TransportChoice choice, const Team& team,
                          const std::vector<Message>& messages) {
  if (choice || kind != OpKind::exchange || messages.empty()) {
    const Transport taken = choice.value_or(transport_within(scenario_.parallel, kind, team.ranks));
    post(lane_of(lane, choice, taken), kind, taken, team, messages);
    return;
  }
  // Each message takes the transport that its ends allow. Both ends divide messages alike, and on either side
  // the copies go first.
  std::vector<Message> of[2];
  for (const Message& m : messages) {
    const bool shared =
        share_island(scenario_.parallel, plan_.rank, team.ranks[static_cast<std::size_t>(m.peer)]);
    of[shared ? 0 : 1].push_back(m);
  }
  const std::vector<std::uint32_t> starts = starts_;  // both wait for what the exchange waits for
  if (!of[0].empty()) post(lane_of(lane, choice, Transport::copy), kind, Transport::copy, team, of[0]);
  if (of[1].empty()) return;
  starts_ = starts;
  post(lane_of(lane, choice, Transport::nccl), kind, Transport::nccl, team, of[1]);
}

void Builder::post(Lane lane, OpKind kind, Transport transport, const Team& team,
                   const std::vector<Message>& messages) {
  std::vector<Part>& list = pools_->part_list;
  list.clear();
  std::int64_t sent = 0;
  for (const Message& m : messages) {
    list.push_back({intern_view(m.box.view()), team.ranks[static_cast<std::size_t>(m.peer)], m.send});
    if (m.send) sent += view_bytes(plan_, m.box.view(), problem().dtype);
  }
  const Span parts = pools_->parts(plan_.parts, list);
  Operation& op = emit(lane, kind, {}, {});
  op.transport = transport;
  op.group = team.group;
  op.parts = parts;
  op.bytes = sent;
  if (transport != Transport::nccl) return;
  if (kind == OpKind::exchange) op.channels = exchange_channels(scenario_.schedule);
  if (kind != OpKind::barrier && !messages.empty()) beside_.push_back(last());
}

// Every member sends a message to every member, and receives one from each.
void Builder::collective(Lane lane, OpKind kind, TransportChoice transport, const Team& team,
                         const std::vector<Box>& from, const std::vector<Box>& into) {
  if (std::ssize(from) != team.size() || std::ssize(into) != team.size())
    throw std::logic_error("a collective of team " + team.name + " needs a box for every member");
  std::vector<Message> messages;
  for (int peer = 0; peer < team.size(); ++peer) {
    messages.push_back(send(from[static_cast<std::size_t>(peer)], peer));
    messages.push_back(receive(into[static_cast<std::size_t>(peer)], peer));
  }
  communicate(lane, kind, transport, team, messages);
}

void Builder::exchange(Lane lane, TransportChoice transport, const std::vector<Message>& messages) {
  communicate(lane, OpKind::exchange, transport, everyone(), messages);
}

void Builder::exchange(Lane lane, TransportChoice transport, const Team& team,
                       const std::vector<Message>& messages) {
  communicate(lane, OpKind::exchange, transport, team, messages);
}

void Builder::all_gather(Lane lane, TransportChoice transport, const Team& team, const Box& own,
                         const std::vector<Box>& into) {
  collective(lane, OpKind::all_gather, transport, team, std::vector<Box>(into.size(), own), into);
}

void Builder::all_to_all(Lane lane, TransportChoice transport, const Team& team, const std::vector<Box>& from,
                         const std::vector<Box>& into) {
  collective(lane, OpKind::all_to_all, transport, team, from, into);
}

void Builder::reduce_scatter(Lane lane, TransportChoice transport, const Team& team,
                             const std::vector<Box>& from, const Box& into) {
  collective(lane, OpKind::reduce_scatter, transport, team, from, std::vector<Box>(from.size(), into));
}

void Builder::all_reduce(Lane lane, TransportChoice transport, const Team& team, Reduction reduction,
                         const Box& from, const Box& into) {
  const Transport taken =
      transport.value_or(transport_within(scenario_.parallel, OpKind::all_reduce, team.ranks));
  Operation& op =
      emit(lane_of(lane, transport, taken), OpKind::all_reduce, {from}, {{into, WriteMode::store}});
  op.transport = taken;
  op.group = team.group;
  op.reduction = reduction;
  op.bytes = view_bytes(plan_, from.view(), problem().dtype);
}

void Builder::barrier(Lane lane, TransportChoice transport, const Team& team) {
  communicate(lane, OpKind::barrier, transport, team, {});
}

void Builder::host_sync(Lane lane) {
  emit(lane, OpKind::host_sync, {}, {});
}

}  // namespace cplab
