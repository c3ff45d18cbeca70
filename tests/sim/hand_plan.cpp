// Plans and machines made by hand.
#include "tests/sim/hand_plan.hpp"

#include <algorithm>
#include <cmath>

#include "plan/operands.hpp"

namespace cplab::sim_test {

bool near(double a, double b) {
  return std::abs(a - b) <= relative * std::max(std::abs(a), std::abs(b));
}

HandPlan::HandPlan(int ranks) : plan(hand::ranks_in_one_group(ranks, "all", DType::bf16)) {
  for (int r = 0; r < ranks; ++r) hand::Rank(plan, r).buffer(hand::column("bytes", std::int64_t{1} << 40));
}

hand::ViewIndex HandPlan::view(hand::Rank& rank, std::int64_t bytes) {
  return rank.view(hand::rows_of(0, 0, bytes / 2));  // bf16: two bytes a row
}

std::uint32_t HandPlan::kernel(int rank_index, int lane, double seconds, const hand::After& after, int waves,
                               int tail_sms) {
  hand::Rank rank(plan, rank_index);
  const std::uint32_t i =
      rank.operation({LaneKind::compute, static_cast<std::uint8_t>(lane)}, OpKind::attend, {}, {}, after);
  rank.op(i).flops = seconds;
  rank.op(i).head_begin = waves;
  rank.op(i).head_end = tail_sms;
  return i;
}

std::uint32_t HandPlan::exchange(int rank_index, const std::vector<Message>& messages,
                                 const hand::After& after, Transport transport, int lane) {
  hand::Rank rank(plan, rank_index);
  std::vector<Part> parts;
  for (const Message& m : messages) parts.push_back({view(rank, m.bytes), m.peer, m.send});
  const std::uint32_t i =
      rank.communicate({LaneKind::comm, static_cast<std::uint8_t>(lane)}, OpKind::exchange, parts, after);
  rank.op(i).transport = transport;
  return i;
}

std::uint32_t HandPlan::collective(int rank_index, OpKind kind, std::int64_t bytes,
                                   const hand::After& after) {
  hand::Rank rank(plan, rank_index);
  if (kind == OpKind::all_reduce)
    return rank.operation(hand::comm, kind, {{view(rank, bytes), hand::store, Operand::from}}, {}, after);
  std::vector<Part> parts;
  for (int peer = 0; kind != OpKind::barrier && peer < static_cast<int>(plan.ranks.size()); ++peer) {
    parts.push_back(hand::send(view(rank, bytes), peer));
    parts.push_back(hand::receive(view(rank, bytes), peer));
  }
  return rank.communicate(hand::comm, kind, parts, after);
}

std::uint32_t HandPlan::collective(int rank, OpKind kind, const std::vector<Message>& messages,
                                   Transport transport) {
  const std::uint32_t i = exchange(rank, messages, {}, transport);
  plan.ranks[static_cast<std::size_t>(rank)].operations[i].kind = kind;
  return i;
}

std::uint32_t HandPlan::host_sync(int rank, int lane) {
  return hand::Rank(plan, rank).host_sync({LaneKind::compute, static_cast<std::uint8_t>(lane)});
}

void exchange_both(HandPlan& p, Transport transport) {
  for (int r = 0; r < 2; ++r)
    p.exchange(r, {HandPlan::send(1 - r, mega), HandPlan::receive(1 - r, mega)}, {}, transport);
}

void give_operands(RankPlan& rank, Operation& op, int heads, int head_size) {
  const Signature& signature = *std::find_if(signatures().begin(), signatures().end(),
                                             [&](const Signature& s) { return s.kind == op.kind; });
  const auto access = [&](Operand operand) {
    const bool row = operand == Operand::lse || operand == Operand::delta;
    Buffer buffer;
    buffer.name = name(operand);
    buffer.role = row ? Role::wide : Role::nominal;
    buffer.rows = 1 << 20;
    buffer.heads = heads;
    buffer.width = row ? 1 : head_size;
    View view;
    view.buffer = static_cast<std::uint32_t>(rank.buffers.size());
    view.ranges = {static_cast<std::uint32_t>(rank.row_ranges.size()), 1};
    view.head_end = heads;
    view.width_end = static_cast<std::int32_t>(buffer.width);
    rank.buffers.push_back(buffer);
    rank.row_ranges.push_back({0, buffer.rows, 1});
    rank.views.push_back(view);
    rank.accesses.push_back({static_cast<std::uint32_t>(rank.views.size() - 1), WriteMode::store, operand});
  };
  op.head_end = op.head_begin + heads;
  op.value = 0.125;  // the scale: no kernel on tensor cores takes 0
  op.reads = {static_cast<std::uint32_t>(rank.accesses.size()),
              static_cast<std::uint32_t>(signature.reads.size())};
  for (const Operand operand : signature.reads) access(operand);
  op.writes = {static_cast<std::uint32_t>(rank.accesses.size()),
               static_cast<std::uint32_t>(signature.writes.size())};
  for (const Operand operand : signature.writes) access(operand);
}

KernelCostFunction given_cost(const Hardware& hardware) {
  const int sms = hardware.gpu.sms;
  return [sms](const Plan&, const CallConverter&, const Operation& op) {
    KernelCost cost;
    cost.seconds = op.flops;
    cost.waves = op.head_begin;
    cost.tail_sms = op.head_end > 0 ? op.head_end : sms;
    cost.useful_sms = sms;
    cost.origin = Origin::measured;
    return cost;
  };
}

namespace {

Provenance by_hand() {
  Provenance provenance;
  provenance.origin = Origin::measured;
  provenance.tool = provenance.machine = provenance.date = "by hand";
  return provenance;
}

MessageTable exchange_table(Transport transport, Path path, int group, double startup_s, double bytes_s,
                            double link_bytes_s, int channels) {
  MessageTable table;
  table.transport = transport;
  table.path = path;
  table.group = group;
  table.channels = channels;
  table.provenance = by_hand();
  // 1000 bytes go at the speed of the link: the start-up in the curve (startup_s() in sim/hardware.hpp) is
  // then startup_s exactly, and the cap of the other points, bytes / (seconds - start-up), is bytes_s.
  table.points.push_back({1000, startup_s + 1000 / link_bytes_s});
  for (const double bytes : {1e6, 1e7, 1e8}) table.points.push_back({bytes, startup_s + bytes / bytes_s});
  return table;
}

}  // namespace

Hardware hand_machine(int gpus) {
  Hardware hardware;
  hardware.name = "hand";
  hardware.node.gpus = gpus;
  hardware.node.link_bytes_s = 100e9;
  hardware.network.fabric = "non_blocking";
  hardware.network.nics = gpus;
  hardware.network.nic_bytes_s = 10e9;
  hardware.gpu.name = "hand";
  hardware.gpu.sms = 100;
  hardware.gpu.capacity_bytes = std::int64_t{80} << 30;
  hardware.gpu.copy_bytes_s = 1e12;
  for (Provenance* provenance : {&hardware.node.provenance, &hardware.network.provenance,
                                 &hardware.gpu.provenance, &hardware.host.provenance, &hardware.fixed})
    *provenance = by_hand();
  const int group = std::max(2, gpus);
  hardware.messages.push_back(exchange_table(Transport::nccl, Path::intra, group, 20e-6, 50e9, 100e9, 10));
  hardware.messages.push_back(exchange_table(Transport::copy, Path::intra, group, 5e-6, 100e9, 100e9, 0));
  hardware.messages.push_back(exchange_table(Transport::nccl, Path::inter, group, 30e-6, 5e9, 10e9, 10));
  return hardware;
}

Simulation run(const HandPlan& p, const Hardware& hardware, const SimulateOptions& options) {
  return simulate(p.plan, hardware, options, given_cost(hardware));
}

}  // namespace cplab::sim_test
