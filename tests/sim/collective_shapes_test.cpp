// Collectives in several parts, uneven ones, their curves, and their flows over nodes, against closed forms.
// In microseconds, on hand_machine(): inside a node 20, then 50 GB/s; over the network 30, then 5 GB/s a
// member.
#include <doctest/doctest.h>

#include <functional>

#include "cli/files/hardware_file.hpp"
#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using namespace sim_test;
using Bytes = std::vector<std::int64_t>;

// A part that a member keeps is copied on its GPU, read and written at 1 TB/s: of 1 MB. Nearly: start-ups of
// messages in several calls are those of a curve that has a first point.
constexpr double own_mb_us = 2, nearly = 1e-3;

constexpr OpKind with_parts[] = {OpKind::all_gather, OpKind::reduce_scatter, OpKind::all_to_all};

// Every member gives every member (itself too) parts of these sizes.
HandPlan in_parts(OpKind kind, int ranks, const Bytes& parts, Transport transport = Transport::nccl) {
  HandPlan p(ranks);
  for (int r = 0; r < ranks; ++r) {
    std::vector<HandPlan::Message> messages;
    for (int peer = 0; peer < ranks; ++peer)
      for (const std::int64_t bytes : parts) {
        messages.push_back(HandPlan::send(peer, bytes));
        messages.push_back(HandPlan::receive(peer, bytes));
      }
    p.collective(r, kind, messages, transport);
  }
  return p;
}

// What `from` sends to `to` in one part.
HandPlan uneven(OpKind kind, int ranks, const std::function<std::int64_t(int from, int to)>& bytes,
                Transport transport = Transport::nccl) {
  HandPlan p(ranks);
  for (int r = 0; r < ranks; ++r) {
    std::vector<HandPlan::Message> messages;
    for (int peer = 0; peer < ranks; ++peer) {
      messages.push_back(HandPlan::send(peer, bytes(r, peer)));
      messages.push_back(HandPlan::receive(peer, bytes(peer, r)));
    }
    p.collective(r, kind, messages, transport);
  }
  return p;
}

HandPlan reduce(int ranks, std::int64_t bytes) {
  HandPlan p(ranks);
  for (int r = 0; r < ranks; ++r) p.collective(r, OpKind::all_reduce, bytes);
  return p;
}

MessageTable curve(const Hardware& hardware, OpKind kind, int group, std::vector<CurvePoint> points,
                   Transport transport = Transport::nccl) {
  MessageTable table = hardware.messages[0];
  table.kind = kind;
  table.transport = transport;
  table.channels = transport == Transport::copy ? 0 : 12;
  table.group = group;
  table.points = std::move(points);
  return table;
}

Hardware nodes_of(int gpus, const char* fabric, std::vector<SwitchLevel> levels) {
  Hardware hardware = hand_machine(gpus);
  hardware.network.fabric = fabric;
  hardware.network.levels = std::move(levels);
  return hardware;
}

double time_us(const HandPlan& p, const Hardware& hardware) {
  return us(run(p, hardware).time_s);
}

}  // namespace

TEST_CASE(
    "the parts of a collective that a library sums or gathers add up, those of messages go one by one") {
  // 3 MB leave each rank. By curve 100 for each MB and 100 at least; by flows 20 + 3 * 20.
  const auto time = [](OpKind kind, bool by_curve, const Bytes& parts) {
    Hardware hardware = hand_machine(4);
    if (by_curve) hardware.messages.push_back(curve(hardware, kind, 4, {{1e6, 100e-6}, {3e6, 300e-6}}));
    return time_us(in_parts(kind, 4, parts), hardware);
  };
  const Bytes one{mega}, two{mega / 2, mega / 2}, five{mega / 10, mega / 5, mega / 10, mega / 2, mega / 10};
  for (const Bytes& parts : {one, two, five}) {
    CHECK(near(time(OpKind::reduce_scatter, true, parts), 300));
    CHECK(near(time(OpKind::reduce_scatter, false, parts), 80));
    CHECK(near(time(OpKind::all_gather, false, parts), 80));
    CHECK(near(time(OpKind::all_gather, true, parts), 300));
  }
  // To each of three peers 0.1, 0.2, 0.1, 0.5 and 0.1 MB: 100 each but 150 for 1.5 MB of them together; and
  // the member's own MB is copied on its GPU, read and written at 1 TB/s: 2.
  CHECK(near(time(OpKind::all_to_all, true, one), 300 + 2));
  CHECK(near(time(OpKind::all_to_all, true, two), 2 * 150 + 2));
  CHECK(near(time(OpKind::all_to_all, true, five), 4 * 100 + 150 + 2));
  // By flows each further message has a start-up of its own.
  CHECK(near(time(OpKind::all_to_all, false, one), 80 + 2));
  CHECK(near(time(OpKind::all_to_all, false, two), 80 + 20 + 2));
  CHECK(time(OpKind::all_to_all, false, five) == doctest::Approx(80 + 4 * 20 + 2).epsilon(nearly));
}

TEST_CASE("the messages of the member that sends most decide where parts are uneven") {
  // Member r gives r + 1 times 100 kB to everybody, in one part or in r + 1: member 3 sends 3 * 400 kB, in
  // four parts with a start-up each, and copies 400 kB on its own GPU at 1 TB/s read plus written.
  for (const OpKind kind : {OpKind::all_gather, OpKind::all_to_all}) {
    HandPlan split(4);
    for (int r = 0; r < 4; ++r) {
      std::vector<HandPlan::Message> messages;
      for (int peer = 0; peer < 4; ++peer) {
        for (int i = 0; i <= r; ++i) messages.push_back(HandPlan::send(peer, mega / 10));
        for (int i = 0; i <= peer; ++i) messages.push_back(HandPlan::receive(peer, mega / 10));
      }
      split.collective(r, kind, messages);
    }
    // What is one piece everywhere a library gathers in its own call.
    const bool gathers = kind == OpKind::all_gather;
    CHECK(time_us(split, hand_machine(4)) ==
          doctest::Approx(gathers ? 20 + 24 : 4 * 20 + 24 + 0.4 * own_mb_us).epsilon(nearly));
    const HandPlan whole = uneven(kind, 4, [](int from, int) { return (from + 1) * mega / 10; });
    CHECK(near(time_us(whole, hand_machine(4)), 20 + 24 + (gathers ? 0 : 0.4 * own_mb_us)));
  }
  // Owner 0 receives 4 MB from each, the others 1 MB: after 60 the small parts are through, at a third of
  // 50 GB/s each; the 3 MB left of each large one share the owner's link of 100 GB/s.
  const auto shard = [](int, int to) { return to == 0 ? 4 * mega : mega; };
  CHECK(near(time_us(uneven(OpKind::reduce_scatter, 4, shard), hand_machine(4)), 20 + 60 + 90));
}

TEST_CASE("each kind's own conditions give its curve back") {
  struct Case {
    OpKind kind;
    double wire_of_whole;  // wire bytes of a rank over the bytes given to HandPlan::collective
  };
  const std::vector<CurvePoint> points = {{1.2e5, 31e-6}, {1.2e6, 47e-6}, {1.2e7, 391e-6}, {1.2e8, 3777e-6}};
  for (const Case& c : {Case{OpKind::all_gather, 3}, Case{OpKind::reduce_scatter, 3},
                        Case{OpKind::all_to_all, 3}, Case{OpKind::all_reduce, 1.5}}) {
    for (const Transport transport : {Transport::nccl, Transport::copy}) {
      Hardware hardware = hand_machine(4);
      hardware.messages.push_back(curve(hardware, c.kind, 4, points, transport));
      for (std::size_t i = 0; i < points.size(); ++i) {
        for (const bool between : {false, true}) {
          if (between && i == 0) continue;
          const double low = points[i - between].bytes, low_s = points[i - between].seconds;
          const double bytes = (low + points[i].bytes) / 2, seconds = (low_s + points[i].seconds) / 2;
          HandPlan p(4);
          for (int r = 0; r < 4; ++r) {
            const auto op = p.collective(r, c.kind, static_cast<std::int64_t>(bytes / c.wire_of_whole));
            p.plan.ranks[static_cast<std::size_t>(r)].operations[op].transport = transport;
          }
          const Simulation s = run(p, hardware);
          CAPTURE(name(c.kind));
          CAPTURE(bytes);
          // What a member gives itself is copied on its GPU, but for a gather of NCCL: read and written at 1
          // TB/s.
          const bool copies =
              c.kind == OpKind::all_to_all || (c.kind == OpKind::all_gather && transport == Transport::copy);
          CHECK(near(s.time_s, seconds + (copies ? 2 * bytes / c.wire_of_whole / 1e12 : 0)));
          CHECK(s.timeline.ranks[1][0].origin == (between ? Origin::interpolated : Origin::measured));
        }
      }
    }
  }
  Hardware hardware = hand_machine(4);
  hardware.messages.push_back(curve(hardware, OpKind::barrier, 4, {{1, 17e-6}}));
  HandPlan p(4);
  for (int r = 0; r < 4; ++r) p.collective(r, OpKind::barrier, 0);
  CHECK(near(time_us(p, hardware), 17));
  CHECK(run(p, hardware).timeline.ranks[0][0].origin == Origin::measured);
}

TEST_CASE("the shipped 8 x H100 give the published times of full buffers back") {
  // spec: nccl-tests, size = full buffer; what a rank gives to a gather or keeps of a scatter is an eighth.
  const Hardware hardware = read_hardware(CPLAB_TEST_SCENARIOS "/hardware/h100x8.toml");
  constexpr std::int64_t mib = 1 << 20;
  struct Row {
    std::int64_t bytes;
    double gather_us, scatter_us, reduce_us;
  };
  for (const Row& row : {Row{16 * mib, 88, 93, 139}, Row{64 * mib, 207, 204, 327},
                         Row{256 * mib, 676, 721, 1086}, Row{1024 * mib, 2589, 2740, 4036}}) {
    const double host_us = us(hardware.host.communication_launch_s + hardware.host.launch_latency_s);
    const Simulation gather =
        run(in_parts(OpKind::all_gather, 8, {row.bytes / 16, row.bytes / 16}), hardware);
    CHECK(near(us(gather.time_s), host_us + row.gather_us));
    CHECK(gather.timeline.ranks[0][0].origin == Origin::measured);
    CHECK(near(time_us(in_parts(OpKind::reduce_scatter, 8, {row.bytes / 8}), hardware),
               host_us + row.scatter_us));
    CHECK(near(time_us(reduce(8, row.bytes), hardware), host_us + row.reduce_us));
  }
}

TEST_CASE("an uneven collective takes the curve's time for the largest total of a rank, extrapolated") {
  Hardware hardware = hand_machine(4);
  hardware.messages.push_back(curve(hardware, OpKind::all_to_all, 4, {{1e6, 100e-6}, {9e6, 900e-6}}));
  // Rank 1 receives 2 MB from each (and keeps 2), everybody else 1 MB: 6 MB in, the most that any sends is 4
  // MB.
  const HandPlan in = uneven(OpKind::all_to_all, 4, [](int, int to) { return to == 1 ? 2 * mega : mega; });
  CHECK(near(time_us(in, hardware), 600 + 2 * own_mb_us));
  // Rank 1 sends 3 MB to each.
  const HandPlan out =
      uneven(OpKind::all_to_all, 4, [](int from, int) { return from == 1 ? 3 * mega : mega; });
  CHECK(near(time_us(out, hardware), 900 + 3 * own_mb_us));
  CHECK(run(out, hardware).timeline.ranks[0][0].origin == Origin::extrapolated);
}

TEST_CASE("several curves of the same conditions are one: the range counts, then the better origin") {
  Hardware hardware = hand_machine(4);
  hardware.messages.push_back(curve(hardware, OpKind::all_gather, 4, {{3e3, 25e-6}, {3e6, 100e-6}}));
  hardware.messages.back().provenance.origin = Origin::assumed;
  hardware.messages.push_back(curve(hardware, OpKind::all_gather, 4, {{3e6, 110e-6}, {3e7, 700e-6}}));
  const auto at = [&](std::int64_t bytes) { return run(in_parts(OpKind::all_gather, 4, {bytes}), hardware); };
  CHECK(near(us(at(1000).time_s), 25));
  CHECK(at(1000).timeline.ranks[0][0].origin == Origin::assumed);
  CHECK(near(us(at(mega).time_s), 110));
  CHECK(at(mega).timeline.ranks[0][0].origin == Origin::measured);
  CHECK(near(us(at(10 * mega).time_s), 700));
  CHECK(near(us(at(20 * mega).time_s), 1400));
}

TEST_CASE("rings over nodes: what leaves a node goes through all of its NICs") {
  // N nodes of k, 1.2 MB a part. Every one of P - 1 rounds takes 1.2 MB / k through each NIC at 5 GB/s;
  // inside the node (k - 1) / k of it at 50 GB/s are hidden.
  constexpr std::int64_t part = 1'200'000;
  for (const auto& [nodes, gpus] : {std::pair{2, 2}, {3, 2}, {2, 4}, {4, 1}, {8, 3}}) {
    CAPTURE(nodes);
    CAPTURE(gpus);
    const int P = nodes * gpus;
    const double round_us = static_cast<double>(part) / gpus / 5e3;
    for (const OpKind kind : {OpKind::all_gather, OpKind::reduce_scatter})
      CHECK(near(time_us(in_parts(kind, P, {part}), hand_machine(gpus)), 30 + (P - 1) * round_us));
    // Shards of an all_reduce pass twice.
    CHECK(near(time_us(reduce(P, P * part), hand_machine(gpus)), 30 + 2 * (P - 1) * round_us));
  }
  // With more members the rounds carry several parts; the bytes are the same.
  CHECK(near(time_us(in_parts(OpKind::all_gather, 129, {part / 2}), hand_machine(129)), 20 + 128 * 12));
}

TEST_CASE("rings over nodes: where the node is the narrow part, its links set the pace") {
  // Network of 100 GB/s a NIC: 20 of start-up as before; then 3 of 4 rings pass each link of a node at 50
  // GB/s.
  Hardware hardware = hand_machine(4);
  hardware.network.nic_bytes_s = 100e9;
  hardware.messages[2].points = {{1000, 20.01e-6}, {1e8, 20e-6 + 1e8 / 90e9}};
  CHECK(near(time_us(in_parts(OpKind::all_gather, 8, {4 * mega}), hardware), 20 + 7 * 3 * 20));
}

TEST_CASE("rings and pairs over nodes with one NIC for two GPUs") {
  // The NIC of 10 GB/s is shared by what two GPUs send at 5 GB/s: no change. At 6 GB/s it binds.
  Hardware hardware = hand_machine(2);
  hardware.network.nics = 1;
  hardware.messages[2].points = {{1000, 30e-6 + 1000 / 5e9}, {1e8, 30e-6 + 1e8 / 5e9}};
  hardware.messages[2].link_bytes_s = 5e9;  // as the curve was measured: both at once
  CHECK(near(time_us(in_parts(OpKind::all_gather, 4, {mega}), hardware), 30 + 3 * 100));
  hardware.network.nic_bytes_s = 6e9;
  CHECK(near(time_us(in_parts(OpKind::all_gather, 4, {mega}), hardware), 30 + mega / 2 * 2 * 3 / 6e3));
  CHECK(near(time_us(in_parts(OpKind::all_to_all, 4, {mega}), hardware), 30 + 4 * mega / 6e3 + own_mb_us));
}

TEST_CASE("all_to_all over nodes: pairs, each member through its own NIC, beside those inside the node") {
  // N nodes of k: P - k parts over the network at 5 GB/s; k - 1 inside at 50 GB/s, hidden.
  for (const auto& [nodes, gpus] : {std::pair{2, 2}, {3, 2}, {2, 4}, {4, 1}, {3, 3}, {8, 8}}) {
    CAPTURE(nodes);
    CAPTURE(gpus);
    const int P = nodes * gpus;
    CHECK(near(time_us(in_parts(OpKind::all_to_all, P, {mega}), hand_machine(gpus)),
               30 + (P - gpus) * 200 + own_mb_us));
  }
  // As an exchange of all with all, more peers than flows that move at once.
  for (const auto& bytes : {Bytes{mega}, Bytes{mega / 2, mega / 4}}) {
    const HandPlan trade = in_parts(OpKind::all_to_all, 24, bytes);
    HandPlan exchange = trade;
    for (RankPlan& rank : exchange.plan.ranks) rank.operations[0].kind = OpKind::exchange;
    CHECK(time_us(trade, hand_machine(3)) ==
          doctest::Approx(time_us(exchange, hand_machine(3))).epsilon(nearly));
  }
}

TEST_CASE("uplinks: rings leave a node once a part, pairs once a pair, and rings stay on their rails") {
  // Four nodes of two, each below a switch of its own whose uplinks carry 2 GB/s. Rings: 7 MB leave the node.
  // Pairs: each of two members sends six parts.
  const Hardware tree = nodes_of(2, "fat_tree", {{1, 2e9}});
  CHECK(near(time_us(in_parts(OpKind::all_gather, 8, {mega}), tree), 30 + 7 * 500));
  CHECK(near(time_us(in_parts(OpKind::all_to_all, 8, {mega}), tree), 30 + 12 * 500 + own_mb_us));
  // Rails of four nodes: rings pass no uplink and have 5 GB/s. Of the pairs, each of the four members of a
  // rail sends three parts to the other rail of other nodes.
  const Hardware rails = nodes_of(2, "rails", {{4, 2e9}});
  CHECK(near(time_us(in_parts(OpKind::all_gather, 8, {mega}), rails), 30 + 7 * 100));
  CHECK(near(time_us(in_parts(OpKind::all_to_all, 8, {mega}), rails), 30 + 12 * 500 + own_mb_us));
}

TEST_CASE("nodes with different numbers of members: as many rings as the smallest has members") {
  // Nodes of 2 with members 0, 1 and 2: node 1 has one, so one ring leaves through one NIC of each.
  CHECK(near(time_us(in_parts(OpKind::all_gather, 3, {mega}), hand_machine(2)), 30 + 2 * 200));
}

TEST_CASE("over copy engines every kind goes from each to each other") {
  // 5, then 100 GB/s.
  for (const OpKind kind : with_parts)
    CHECK(near(time_us(in_parts(kind, 4, {mega}, Transport::copy), hand_machine(4)),
               5 + 30 + (kind == OpKind::reduce_scatter ? 0 : own_mb_us)));
  // Quarters of an all_reduce go to their members, and the sums back.
  HandPlan p = reduce(4, 4 * mega);
  for (RankPlan& rank : p.plan.ranks) rank.operations[0].transport = Transport::copy;
  CHECK(near(time_us(p, hand_machine(4)), 5 + 60));
}

TEST_CASE("every kind holds its channels from launch to completion, and over copy engines none") {
  // Rank 1 comes 500 late. Beside the waiting operation of rank 0, whose flows take 10 of 100
  // multiprocessors, a kernel of 90 takes 100.
  for (const OpKind kind : {OpKind::all_gather, OpKind::reduce_scatter, OpKind::all_to_all,
                            OpKind::all_reduce, OpKind::barrier}) {
    CAPTURE(name(kind));
    for (const Transport transport : {Transport::nccl, Transport::copy}) {
      HandPlan p(2);
      p.collective(0, kind, mega);
      const auto beside = p.kernel(0, 0, 90e-6, {}, 9);
      p.collective(1, kind, mega, {p.kernel(1, 0, 500e-6)});
      for (RankPlan& rank : p.plan.ranks)
        for (Operation& op : rank.operations)
          if (is_communication(op.kind)) op.transport = transport;
      const Simulation s = run(p, hand_machine(2));
      CHECK(near(us(s.timeline.ranks[0][beside].end_s), transport == Transport::copy ? 90 : 100));
      CHECK(near(us(s.timeline.ranks[0][0].wait_s), 500));
    }
  }
  // With a curve, the channels of its table: 12. A group over nodes holds the larger number of both paths.
  const auto end_us = [](const Hardware& hardware) {
    HandPlan p(4);
    for (int r = 0; r < 4; ++r)
      p.collective(r, OpKind::all_gather, mega, r == 3 ? hand::After{p.kernel(3, 0, 500e-6)} : hand::After{});
    const auto beside = p.kernel(0, 0, 88e-6, {}, 9);
    return us(run(p, hardware).timeline.ranks[0][beside].end_s);
  };
  Hardware hardware = hand_machine(4);
  hardware.messages.push_back(curve(hardware, OpKind::all_gather, 4, {{3e6, 100e-6}}));
  CHECK(near(end_us(hardware), 100));
  hardware = hand_machine(2);
  hardware.messages[0].channels = 12;
  CHECK(near(end_us(hardware), 100));
}

}  // namespace cplab
