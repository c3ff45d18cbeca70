// Emission of communication: messages of a team become parts with global ranks.
#include <stdexcept>

#include "algorithms/builder.hpp"
#include "algorithms/builder_pools.hpp"

namespace cplab {

void Builder::communicate(Lane lane, OpKind kind, Transport transport, const Team& team,
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
}

// A part for every member in both directions.
void Builder::collective(Lane lane, OpKind kind, Transport transport, const Team& team,
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

void Builder::exchange(Lane lane, Transport transport, const std::vector<Message>& messages) {
  communicate(lane, OpKind::exchange, transport, everyone(), messages);
}

void Builder::exchange(Lane lane, Transport transport, const Team& team,
                       const std::vector<Message>& messages) {
  communicate(lane, OpKind::exchange, transport, team, messages);
}

void Builder::all_gather(Lane lane, Transport transport, const Team& team, const Box& own,
                         const std::vector<Box>& into) {
  collective(lane, OpKind::all_gather, transport, team, std::vector<Box>(into.size(), own), into);
}

void Builder::all_to_all(Lane lane, Transport transport, const Team& team, const std::vector<Box>& from,
                         const std::vector<Box>& into) {
  collective(lane, OpKind::all_to_all, transport, team, from, into);
}

void Builder::reduce_scatter(Lane lane, Transport transport, const Team& team, const std::vector<Box>& from,
                             const Box& into) {
  collective(lane, OpKind::reduce_scatter, transport, team, from, std::vector<Box>(from.size(), into));
}

void Builder::all_reduce(Lane lane, Transport transport, const Team& team, Reduction reduction,
                         const Box& from, const Box& into) {
  Operation& op = emit(lane, OpKind::all_reduce, {from}, {{into, WriteMode::store}});
  op.transport = transport;
  op.group = team.group;
  op.reduction = reduction;
  op.bytes = view_bytes(plan_, from.view(), problem().dtype);
}

void Builder::barrier(Lane lane, Transport transport, const Team& team) {
  communicate(lane, OpKind::barrier, transport, team, {});
}

void Builder::host_sync(Lane lane) {
  emit(lane, OpKind::host_sync, {}, {});
}

}  // namespace cplab
