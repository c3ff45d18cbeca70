// Slow ranks and kernels that differ from call to call, worked out by hand.
#include "sim/disturbance.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "sim/simulate.hpp"
#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using namespace sim_test;

SimulateOptions slow(std::vector<SlowRank> ranks) {
  SimulateOptions options;
  options.slow = std::move(ranks);
  return options;
}

// 1 MB from each of `ranks` ranks to the next.
HandPlan ring(int ranks) {
  HandPlan p(ranks);
  for (int r = 0; r < ranks; ++r)
    p.exchange(r, {HandPlan::send((r + 1) % ranks, mega), HandPlan::receive((r + ranks - 1) % ranks, mega)});
  return p;
}

double end_us(const Simulation& s, int rank) {
  return us(s.timeline.ranks[static_cast<std::size_t>(rank)][0].end_s);
}

}  // namespace

TEST_CASE("a ring with one link at a tenth: both hops through it take as much longer") {
  // 20 us, then 1 MB at half of a link of 100 GB/s: 20 us. At a tenth of the link 200.
  const HandPlan p = ring(4);
  const Hardware hardware = hand_machine(4);
  for (int r = 0; r < 4; ++r) CHECK(near(end_us(run(p, hardware), r), 40));
  const Simulation s = run(p, hardware, slow({{.rank = 2, .link = 0.1}}));
  CHECK(near(end_us(s, 1), 220));  // sends to rank 2
  CHECK(near(end_us(s, 2), 220));
  CHECK(near(end_us(s, 3), 220));  // receives from it
  CHECK(near(end_us(s, 0), 40));
  CHECK(s.timeline.ranks[0][0].origin == Origin::measured);
  CHECK(s.timeline.ranks[1][0].origin == Origin::assumed);
  CHECK(s.timeline.ranks[2][0].origin == Origin::assumed);
  // Its NIC and its kernels are no part of it.
  CHECK(near(us(run(p, hardware, slow({{.rank = 2, .compute = 0.1, .nic = 0.1}})).time_s), 40));
}

TEST_CASE("all links at half are a machine with links of half the speed") {
  const HandPlan p = ring(4);
  Hardware half = hand_machine(4);
  for (MessageTable& table : half.messages) table.link_bytes_s = table.path == Path::intra ? 100e9 : 10e9;
  half.node.link_bytes_s = 50e9;
  std::vector<SlowRank> all;
  for (int r = 0; r < 4; ++r) all.push_back({.rank = r, .link = 0.5});
  const double slowed = run(p, hand_machine(4), slow(all)).time_s;
  CHECK(near(us(slowed), 60));
  CHECK(near(slowed, run(p, half).time_s));
}

TEST_CASE("a slow receiver holds up what it receives, not what others receive from the same sender") {
  HandPlan p(3);
  p.exchange(0, {HandPlan::send(1, mega), HandPlan::send(2, mega)});
  p.exchange(1, {HandPlan::receive(0, mega)});
  p.exchange(2, {HandPlan::receive(0, mega)});
  // The cap of 2 MB, 50 GB/s, is 25 for each; rank 2 takes 10 of it, its link's tenth: 100 us behind 20. Rank
  // 1 has the other 40 of the cap: 25 us.
  const Simulation s = run(p, hand_machine(3), slow({{.rank = 2, .link = 0.1}}));
  CHECK(near(end_us(s, 1), 20 + 25));
  CHECK(near(end_us(s, 2), 20 + 100));
}

TEST_CASE("a slow NIC, of a rank of its own and of two GPUs that share it") {
  // 30 us, then half of a NIC of 10 GB/s: 200 us; at a tenth 2000.
  CHECK(near(us(run(ring(2), hand_machine(1)).time_s), 230));
  CHECK(near(us(run(ring(2), hand_machine(1), slow({{.rank = 1, .nic = 0.1}})).time_s), 2030));
  CHECK(near(us(run(ring(2), hand_machine(1), slow({{.rank = 1, .link = 0.1}})).time_s), 230));
  // GPUs 0 and 1 of the first node have one NIC. At a fifth, 2 GB/s, because of GPU 0, what GPU 1 sends takes
  // 500 us, as much as the NIC lets through.
  Hardware shared = hand_machine(2);
  shared.network.nics = 1;
  HandPlan p(4);
  p.exchange(1, {HandPlan::send(3, mega)});
  p.exchange(3, {HandPlan::receive(1, mega)});
  CHECK(near(us(run(p, shared).time_s), 230));
  CHECK(near(us(run(p, shared, slow({{.rank = 0, .nic = 0.2}})).time_s), 530));
  CHECK(near(us(run(p, shared, slow({{.rank = 2, .nic = 0.2}})).time_s), 530));
}

TEST_CASE("a slow GPU takes longer for its kernels alone") {
  HandPlan p(2);
  for (int r = 0; r < 2; ++r) p.kernel(r, 0, 100e-6);
  const Simulation s = run(p, hand_machine(2), slow({{.rank = 1, .link = 0.5, .compute = 0.8}}));
  CHECK(near(end_us(s, 0), 100));
  CHECK(near(end_us(s, 1), 125));
  CHECK(s.timeline.ranks[0][0].origin == Origin::measured);
  CHECK(s.timeline.ranks[1][0].origin == Origin::assumed);
}

TEST_CASE("a collective of a table waits for its slowest member, and so do rings of flows") {
  Hardware hardware = hand_machine(4);
  HandPlan p(4);
  for (int r = 0; r < 4; ++r) p.collective(r, OpKind::reduce_scatter, mega);
  // Three rounds of 1 MB at 50 GB/s behind 20 us; at a tenth of the link of one member 200 us a round.
  CHECK(near(us(run(p, hardware).time_s), 20 + 3 * 20));
  CHECK(near(us(run(p, hardware, slow({{.rank = 3, .link = 0.1}})).time_s), 20 + 3 * 200));
  // 3 MB in 100 us, 30 of them for the bytes at 100 GB/s: start-up 70, at half 60.
  MessageTable table = hardware.messages[0];
  table.kind = OpKind::reduce_scatter;
  table.points = {{3e6, 100e-6}};
  hardware.messages.push_back(table);
  CHECK(near(us(run(p, hardware).time_s), 100));
  CHECK(near(us(run(p, hardware, slow({{.rank = 3, .link = 0.5}})).time_s), 130));
}

TEST_CASE("jitter: within its bounds, by seed alone, and none without it") {
  HandPlan p(2);
  for (int r = 0; r < 2; ++r)
    for (int i = 0; i < 200; ++i) p.kernel(r, 0, 100e-6);
  SimulateOptions options;
  const auto durations = [&](double jitter, std::uint64_t seed) {
    options.jitter = jitter;
    options.seed = seed;
    const Simulation s = run(p, hand_machine(2), options);
    std::vector<double> all;
    for (const auto& rank : s.timeline.ranks)
      for (const OperationTime& time : rank) all.push_back(us(time.end_s - time.start_s));
    return all;
  };
  for (const double each : durations(0, 1)) CHECK(near(each, 100));
  const std::vector<double> drawn = durations(0.1, 1);
  const auto [least, most] = std::ranges::minmax(drawn);
  CHECK(least >= 90 - 1e-6);
  CHECK(most <= 110 + 1e-6);
  CHECK(least < 91);  // of 400 even draws none in the lowest twentieth: 1e-9
  CHECK(most > 109);
  CHECK(durations(0.1, 1) == drawn);
  CHECK_FALSE(durations(0.1, 2) == drawn);
  // The mean of 400 draws, standard deviation 10 / sqrt(3) / 20 = 0.29: six of them.
  double sum = 0;
  for (const double each : drawn) sum += each;
  CHECK(sum / 400 == doctest::Approx(100).epsilon(0.0173));
}

}  // namespace cplab
