// Exchanges: start-up, caps, sharing, waiting. Times worked out by hand for hand_machine(), in microseconds.
#include <doctest/doctest.h>

#include "sim/fabrics.hpp"
#include "tests/sim/hand_plan.hpp"

namespace cplab {

using namespace sim_test;

TEST_CASE("one hop") {
  HandPlan p(2);
  p.exchange(0, {HandPlan::send(1, mega)});
  p.exchange(1, {HandPlan::receive(0, mega)});
  Hardware hardware = hand_machine(2);
  hardware.host.communication_launch_s = 6e-6;
  hardware.host.launch_latency_s = 3e-6;
  const Simulation s = run(p, hardware);
  for (const auto& rank : s.timeline.ranks) {  // 20 of start-up, 20 at 50 GB/s
    CHECK(near(us(rank[0].start_s), 9));
    CHECK(near(us(rank[0].end_s), 49));
    CHECK(rank[0].wait_s == 0);
    CHECK(rank[0].origin == Origin::measured);
  }
}

TEST_CASE("a shift by all ranks of a node reproduces the curve") {
  // At points, between them (linear in bytes: half way between 1000 bytes, 20.01 us, and 1 MB, 40 us), below
  // the first (its time) and beyond the last (100 MB in 2020 us, its bandwidth).
  struct Case {
    std::int64_t bytes;
    double us;
    Origin origin;
  };
  for (const Case& c : {Case{1000, 20.01, Origin::measured}, Case{mega, 40, Origin::measured},
                        Case{100 * mega, 2020, Origin::measured}, Case{500'500, 30.005, Origin::interpolated},
                        Case{40 * mega, 820, Origin::interpolated}, Case{10, 20.01, Origin::extrapolated},
                        Case{200 * mega, 4040, Origin::extrapolated}}) {
    HandPlan p(4);
    for (int r = 0; r < 4; ++r)
      p.exchange(r, {HandPlan::send((r + 1) % 4, c.bytes), HandPlan::receive((r + 3) % 4, c.bytes)});
    const Simulation s = run(p, hand_machine(4));
    for (const auto& rank : s.timeline.ranks) {
      CAPTURE(c.bytes);
      CHECK(near(us(rank[0].end_s), c.us));
      CHECK(rank[0].origin == c.origin);
    }
  }
}

TEST_CASE("a curve that no one latency and bandwidth fits is reproduced too") {
  // Neighbour shift through NCCL on 4 x H200: 128 MiB take almost as long as 256 MiB.
  Hardware hardware = hand_machine(4);
  hardware.node.link_bytes_s = 450e9;
  const double mib = 1 << 20;
  const std::vector<CurvePoint> points = {{4096, 21.7e-6},      {1 * mib, 24.0e-6},   {4 * mib, 37.9e-6},
                                          {16 * mib, 124.0e-6}, {64 * mib, 428.5e-6}, {128 * mib, 825.1e-6},
                                          {256 * mib, 888.0e-6}};
  hardware.messages[0].points = points;
  for (const CurvePoint& point : points) {
    HandPlan p(4);
    const auto bytes = static_cast<std::int64_t>(point.bytes);
    for (int r = 0; r < 4; ++r)
      p.exchange(r, {HandPlan::send((r + 1) % 4, bytes), HandPlan::receive((r + 3) % 4, bytes)});
    CHECK(near(run(p, hardware).time_s, point.seconds));
  }
}

TEST_CASE("back to back, exchanges take the curve's time each, and the next is not issued late") {
  HandPlan p(2);
  for (int i = 0; i < 5; ++i)
    for (int r = 0; r < 2; ++r) p.exchange(r, {HandPlan::send(1 - r, mega), HandPlan::receive(1 - r, mega)});
  Hardware hardware = hand_machine(2);
  hardware.host.dependency_s = 1e-6;
  CHECK(near(us(run(p, hardware).time_s), 5 * 40));
}

TEST_CASE("waiting for a peer is not transfer") {
  HandPlan p(2);
  p.exchange(0, {HandPlan::send(1, mega)});
  const auto late = p.kernel(1, 0, 100e-6);
  p.exchange(1, {HandPlan::receive(0, mega)}, {late});
  const Simulation s = run(p, hand_machine(2));
  CHECK(near(us(s.timeline.ranks[0][0].end_s), 140));
  CHECK(near(us(s.timeline.ranks[0][0].wait_s), 100));
  CHECK(near(us(s.timeline.ranks[1][1].start_s), 100));
  CHECK(s.timeline.ranks[1][1].wait_s == 0);
  CHECK(near(us(s.busy.total()), 100 + 40 + 40));
}

TEST_CASE("an edge to a start waits until the communication is placed, not until it ends") {
  // Rank 0 receives what rank 1 sends 100 us later. A tile of 50 us that waits for the start of the receive
  // runs beside it; one that waits for its end runs when the 40 us of the message have passed too.
  for (const bool start : {true, false}) {
    HandPlan p(2);
    const std::uint32_t receive = p.exchange(0, {HandPlan::receive(1, mega)});
    const std::uint32_t tile = p.kernel(0, 0, 50e-6);
    const std::uint32_t late = p.kernel(1, 0, 100e-6);
    p.exchange(1, {HandPlan::send(0, mega)}, {late});
    RankPlan& rank = p.plan.ranks[0];
    rank.edges.push_back(receive);
    const Span edge{static_cast<std::uint32_t>(rank.edges.size() - 1), 1};
    (start ? rank.operations[tile].after_started : rank.operations[tile].after) = edge;
    const Simulation s = run(p, hand_machine(2));
    CHECK(near(us(s.timeline.ranks[0][receive].end_s), 140));
    CHECK(us(s.timeline.ranks[0][tile].start_s) == doctest::Approx(start ? 0 : 140));
    CHECK(us(s.timeline.ranks[0][tile].end_s) ==
          doctest::Approx(start ? 50 / 0.9 : 190));  // 10 of 100 SMs taken
  }
}

TEST_CASE("between layers the backward of every rank begins when the last forward has ended") {
  for (const bool layers : {true, false}) {
    HandPlan p(2);
    p.plan.scenario.schedule.set("between", std::string(layers ? "layers" : "nothing"));
    for (int r = 0; r < 2; ++r) {
      p.kernel(r, 0, r == 0 ? 10e-6 : 30e-6);
      const std::uint32_t backward = p.kernel(r, 0, 5e-6);
      p.plan.ranks[static_cast<std::size_t>(r)].operations[backward].phase = Phase::backward;
    }
    const Simulation s = run(p, hand_machine(2));
    CHECK(us(s.timeline.ranks[0][1].start_s) == doctest::Approx(layers ? 30 : 10));
    CHECK(us(s.timeline.ranks[1][1].start_s) == doctest::Approx(30));
    CHECK(s.critical.total() == doctest::Approx(s.time_s));
  }
}

TEST_CASE("operations on two lanes share the link, and the longer one speeds up afterwards") {
  // Copy engines: 5 of start-up, a cap of 100 GB/s, which is the link. 10 and 20 MB at 50 GB/s each until the
  // first is through after 200; the rest of the second alone: 100 more.
  HandPlan p(3);
  p.exchange(0, {HandPlan::send(1, 10 * mega)}, {}, Transport::copy, 0);
  p.exchange(0, {HandPlan::send(2, 20 * mega)}, {}, Transport::copy, 1);
  p.exchange(1, {HandPlan::receive(0, 10 * mega)}, {}, Transport::copy);
  p.exchange(2, {HandPlan::receive(0, 20 * mega)}, {}, Transport::copy);
  const Simulation s = run(p, hand_machine(3));
  CHECK(near(us(s.timeline.ranks[0][0].end_s), 205));
  CHECK(near(us(s.timeline.ranks[0][1].end_s), 305));
}

TEST_CASE("the parts of one exchange share one cap, and those to one peer over NCCL go one after another") {
  // 2 MB through NCCL: 40, and 20 of start-up for each message to a peer.
  HandPlan one(2);
  one.exchange(0, {HandPlan::send(1, mega), HandPlan::send(1, mega)});
  one.exchange(1, {HandPlan::receive(0, mega), HandPlan::receive(0, mega)});
  CHECK(near(us(run(one, hand_machine(2)).time_s), 80));
  HandPlan two(3);
  two.exchange(0, {HandPlan::send(1, mega), HandPlan::send(2, mega)});
  two.exchange(1, {HandPlan::receive(0, mega)});
  two.exchange(2, {HandPlan::receive(0, mega)});
  CHECK(near(us(run(two, hand_machine(3)).time_s), 60));
}

TEST_CASE("more peers than flows at once: all of them in the time of the sum") {
  // 19 parts of 1 MB: 20 + 19 MB at 50 GB/s.
  HandPlan p(20);
  std::vector<HandPlan::Message> messages;
  for (int peer = 1; peer < 20; ++peer) {
    messages.push_back(HandPlan::send(peer, mega));
    p.exchange(peer, {HandPlan::receive(0, mega)});
  }
  p.exchange(0, messages);
  CHECK(near(us(run(p, hand_machine(20)).time_s), 20 + 19 * 20));
}

TEST_CASE("parts complete one by one, the exchange with the last") {
  // Rank 2 comes 100 late. Until then the part to rank 1 has the cap of 50 GB/s alone: 20 + 20. The other one
  // begins at 100 with a start-up of its own.
  HandPlan p(3);
  p.exchange(0, {HandPlan::send(1, mega), HandPlan::send(2, mega)});
  p.exchange(1, {HandPlan::receive(0, mega)});
  p.exchange(2, {HandPlan::receive(0, mega)}, {p.kernel(2, 0, 100e-6)});
  const Simulation s = run(p, hand_machine(3));
  CHECK(near(us(s.timeline.ranks[1][0].end_s), 40));
  CHECK(near(us(s.timeline.ranks[0][0].end_s), 140));
  CHECK(near(us(s.timeline.ranks[0][0].wait_s), 60));  // from 40 to 100
}

TEST_CASE("a part to itself is a local copy") {
  HandPlan p(2);
  p.exchange(0, {HandPlan::send(0, 10 * mega), HandPlan::receive(0, 10 * mega)});
  CHECK(near(us(run(p, hand_machine(2)).time_s), 20));  // read and written at 1 TB/s
}

TEST_CASE("between nodes: the network's curve, one exchange may use both paths") {
  HandPlan p(4);
  p.exchange(1, {HandPlan::send(0, mega), HandPlan::send(2, mega)});
  p.exchange(0, {HandPlan::receive(1, mega)});
  p.exchange(2, {HandPlan::receive(1, mega)});
  const Simulation s = run(p, hand_machine(2));
  // One start-up, the larger: 30; then 1 MB at 50 GB/s inside and at 5 GB/s outside.
  CHECK(near(us(s.timeline.ranks[0][0].end_s), 30 + 20));
  CHECK(near(us(s.timeline.ranks[1][0].end_s), 30 + 200));
}

TEST_CASE("fat tree: uplinks add sharing") {
  // Nodes of one GPU, two nodes a switch. Two flows of 5 GB/s leave the first switch; one stays below it.
  HandPlan p(4);
  p.exchange(0, {HandPlan::send(2, mega)});
  p.exchange(1, {HandPlan::send(3, mega)});
  p.exchange(2, {HandPlan::receive(0, mega)});
  p.exchange(3, {HandPlan::receive(1, mega)});
  Hardware hardware = hand_machine(1);
  hardware.network.fabric = "fat_tree";
  hardware.network.levels = {{2, 10e9}};
  CHECK(near(us(run(p, hardware).time_s), 30 + 200));
  hardware.network.levels = {{2, 5e9}};
  CHECK(near(us(run(p, hardware).time_s), 30 + 400));
}

TEST_CASE("rails: the same GPU of other nodes without the spine, others over their own rail's uplinks") {
  Hardware hardware = hand_machine(2);
  hardware.network.fabric = "rails";
  hardware.network.levels = {{2, 5e9}};
  const Fabric fabric = make_fabric(hardware, 8, 1);
  CHECK(fabric.level(0, 1) == 0);
  CHECK(fabric.level(0, 2) == 1);
  CHECK(fabric.level(1, 3) == 1);
  CHECK(fabric.level(0, 3) == 2);
  CHECK(fabric.level(0, 4) == 2);  // the same GPU beyond the two nodes that a rail joins
  const auto time_us = [&](int to_of_0, int to_of_2) {
    HandPlan p(8);
    p.exchange(0, {HandPlan::send(to_of_0, mega)});
    p.exchange(2, {HandPlan::send(to_of_2, mega)});
    p.exchange(to_of_0, {HandPlan::receive(0, mega)});
    p.exchange(to_of_2, {HandPlan::receive(2, mega)});
    return us(run(p, hardware).time_s);
  };
  // Both ranks hang on one rail switch, whose uplinks carry 5 GB/s; each flow alone goes at 5 GB/s.
  CHECK(near(time_us(3, 4), 30 + 400));
  CHECK(near(time_us(4, 6), 30 + 400));
  hardware.network.levels = {{2, 10e9}};
  CHECK(near(time_us(3, 4), 30 + 200));
  // All four nodes on one switch a rail: what stays on the rail passes no uplink.
  hardware.network.levels = {{4, 5e9}};
  CHECK(near(time_us(4, 6), 30 + 200));
  CHECK(near(time_us(5, 6), 30 + 200));
  CHECK(near(time_us(5, 7), 30 + 400));
  // Two GPUs on one NIC are on one rail.
  hardware.network.nics = 1;
  CHECK(make_fabric(hardware, 8, 1).level(0, 3) == 1);
}

TEST_CASE("a group or a mode that was not measured makes a time extrapolated") {
  HandPlan p(2);
  p.exchange(0, {HandPlan::send(1, mega)});
  p.exchange(1, {HandPlan::receive(0, mega)});
  CHECK(run(p, hand_machine(4)).timeline.ranks[0][0].origin == Origin::extrapolated);
  SimulateOptions graph;
  graph.cuda_graph = true;
  CHECK(run(p, hand_machine(2), graph).timeline.ranks[0][0].origin == Origin::extrapolated);
  Hardware hardware = hand_machine(2);
  MessageTable table = hardware.messages[0];
  table.cuda_graph = true;
  for (CurvePoint& point : table.points) point.seconds -= 11e-6;
  hardware.messages.push_back(table);
  const Simulation s = run(p, hardware, graph);
  CHECK(near(us(s.time_s), 29));
  CHECK(s.timeline.ranks[0][0].origin == Origin::measured);
  CHECK(near(us(run(p, hardware).time_s), 40));
}

TEST_CASE("hidden and exposed communication") {
  // Kernel, exchange for the next step beside it (copy engines: 5 + bytes at 100 GB/s), kernel.
  for (const auto& [bytes, expected] : {std::pair{mega, 200.0}, {20 * mega, 205 + 100.0}}) {
    HandPlan p(2);
    for (int r = 0; r < 2; ++r) {
      const auto next =
          p.exchange(r, {HandPlan::send(1 - r, bytes), HandPlan::receive(1 - r, bytes)}, {}, Transport::copy);
      p.kernel(r, 0, 100e-6);
      p.kernel(r, 0, 100e-6, {next});
    }
    CHECK(near(us(run(p, hand_machine(2)).time_s), expected));
  }
}

}  // namespace cplab
