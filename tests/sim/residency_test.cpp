// Communication beside persistent kernels, which give up no multiprocessor before their last tiles, on the
// machine of 100 multiprocessors. An NCCL exchange holds 10; 1 MB takes 20 us and 20 us at 50 GB/s. Times
// worked out by hand, in microseconds.
#include <algorithm>

#include <doctest/doctest.h>

#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using namespace sim_test;

Simulation run_persistent(const HandPlan& p, const Hardware& hardware, const SimulateOptions& options = {}) {
  const KernelCostFunction given = given_cost(hardware);
  return simulate(p.plan, hardware, options,
                  [&](const Plan& plan, const CallConverter& calls, const Operation& op) {
                    KernelCost cost = given(plan, calls, op);
                    cost.persistent = true;
                    return cost;
                  });
}

RankPlan& rank(HandPlan& p, int r) {
  return p.plan.ranks[static_cast<std::size_t>(r)];
}

// The tile waits for the start of that operation.
void wait_for_start(HandPlan& p, int r, std::uint32_t tile, std::uint32_t operation) {
  rank(p, r).edges.push_back(operation);
  rank(p, r).operations[tile].after_started = {static_cast<std::uint32_t>(rank(p, r).edges.size() - 1), 1};
}

}  // namespace

TEST_CASE("what becomes ready beside a persistent kernel waits for its end") {
  HandPlan p(2);
  for (int r = 0; r < 2; ++r) p.kernel(r, 0, 100e-6, {}, 4);
  exchange_both(p);
  Hardware hardware = hand_machine(2);
  hardware.host.communication_launch_s = 10e-6;  // ready at 10
  const Simulation s = run_persistent(p, hardware);
  CHECK(near(us(s.timeline.ranks[0][1].start_s), 100));
  CHECK(near(us(s.timeline.ranks[0][0].end_s), 100));
  CHECK(near(us(s.time_s), 140));
}

TEST_CASE("thread blocks of a persistent kernel end when no tile is left: in its last wave") {
  HandPlan p(2);
  for (int r = 0; r < 2; ++r) p.kernel(r, 0, 100e-6, {}, 4, 85);  // 15 are free in the last of four waves
  exchange_both(p);
  Hardware hardware = hand_machine(2);
  hardware.host.communication_launch_s = 10e-6;
  CHECK(near(us(run_persistent(p, hardware).timeline.ranks[0][1].start_s), 75));
}

TEST_CASE("what is resident before a persistent kernel stays, and the kernel takes what it leaves") {
  HandPlan p(2);
  exchange_both(p);
  for (int r = 0; r < 2; ++r) p.kernel(r, 0, 100e-6, {}, 4);
  const Simulation s = run_persistent(p, hand_machine(2));
  CHECK(near(us(s.timeline.ranks[0][0].end_s), 40));
  // 90 of 100 multiprocessors for 40: 36 of the work. The other 64 at full speed.
  CHECK(near(us(s.timeline.ranks[0][1].end_s), 104));
}

TEST_CASE("multiprocessors that kernels leave free take communication at once") {
  HandPlan p(2);
  for (int r = 0; r < 2; ++r) p.kernel(r, 0, 100e-6, {}, 4);
  exchange_both(p);
  p.plan.scenario.schedule.set("reserved_sms", std::int64_t{10});
  Hardware hardware = hand_machine(2);
  hardware.host.communication_launch_s = 10e-6;
  const Simulation s = run_persistent(p, hardware);
  CHECK(near(us(s.timeline.ranks[0][1].start_s), 10));
  CHECK(near(us(s.timeline.ranks[0][0].end_s), 100 / 0.9));
}

TEST_CASE(
    "a persistent kernel that waits for a start lets the communication in, and starts its head start later") {
  // A tile of 50; then, ready at once, an exchange, and a tile of 100. Without the edge the second tile takes
  // everything 2 us before the exchange, which is 2 us from its cause on another lane, and hides nothing of
  // it.
  for (const std::int64_t head_start : {-1, 0, 5}) {
    HandPlan p(2);
    std::vector<std::uint32_t> second;
    for (int r = 0; r < 2; ++r) {
      const std::uint32_t first = p.kernel(r, 0, 50e-6, {}, 2);
      const std::uint32_t exchange =
          p.exchange(r, {HandPlan::send(1 - r, mega), HandPlan::receive(1 - r, mega)}, {first});
      second.push_back(p.kernel(r, 0, 100e-6, {}, 4));
      if (head_start >= 0) wait_for_start(p, r, second.back(), exchange);
    }
    if (head_start >= 0) p.plan.scenario.schedule.set("head_start_us", head_start);
    Hardware hardware = hand_machine(2);
    hardware.host.dependency_s = 2e-6;
    const Simulation s = run_persistent(p, hardware);
    const OperationTime& exchange = s.timeline.ranks[0][1];
    const OperationTime& tile = s.timeline.ranks[0][second[0]];
    if (head_start < 0) {
      CHECK(near(us(tile.start_s), 50));
      CHECK(near(us(exchange.start_s), 150));
      CHECK(near(us(s.time_s), 190));
    } else {
      CHECK(near(us(exchange.start_s), 52));
      // The edge crosses lanes: 2. A longer head start runs beside that.
      const double start = 52 + std::max<double>(2, static_cast<double>(head_start));
      CHECK(near(us(tile.start_s), start));
      // 90 of 100 until the exchange ends at 92.
      CHECK(near(us(tile.end_s), 92 + 100 - 0.9 * (92 - start)));
    }
  }
}

TEST_CASE("half of the channels hold half of the multiprocessors and move half as much") {
  HandPlan p(2);
  exchange_both(p);
  for (int r = 0; r < 2; ++r) {
    rank(p, r).operations[0].channels = 5;
    p.kernel(r, 0, 100e-6, {}, 4);
  }
  const Simulation s = run_persistent(p, hand_machine(2));
  CHECK(near(us(s.timeline.ranks[0][0].end_s), 20 + 40));
  CHECK(near(us(s.timeline.ranks[0][1].end_s), 60 + 100 - 0.95 * 60));
  CHECK(s.timeline.ranks[0][0].origin == Origin::extrapolated);
}

TEST_CASE("more channels than were measured move no more") {
  HandPlan p(2);
  exchange_both(p);
  for (int r = 0; r < 2; ++r) rank(p, r).operations[0].channels = 32;
  CHECK(near(us(run_persistent(p, hand_machine(2)).time_s), 40));
}

TEST_CASE("half of the channels slow kernels down by half as much") {
  Hardware hardware = hand_machine(2);
  InterferenceRow row;
  row.kind = OpKind::attend;
  row.beside = Transport::nccl;
  row.slowdown = 1.5;
  hardware.interference.push_back(row);
  for (const int channels : {0, 5}) {
    HandPlan p(2);
    exchange_both(p);
    for (int r = 0; r < 2; ++r) {
      rank(p, r).operations[0].channels = static_cast<std::uint8_t>(channels);
      p.kernel(r, 0, 100e-6, {}, 4);
    }
    const Simulation s = run_persistent(p, hardware);
    const double end = channels == 0 ? 40 + 100 - 40 * 0.9 / 1.5 : 60 + 100 - 60 * 0.95 / 1.25;
    CHECK(near(us(s.timeline.ranks[0][1].end_s), end));
  }
}

TEST_CASE("clusters of thread blocks need multiprocessors of one GPC") {
  // 132 multiprocessors: two GPCs of 18 and six of 16. A kernel that leaves n of them free holds as many in
  // each GPC, so in clusters of four there is room for
  //   n = 12: 120 busy, 15 in each GPC: 3 and 1 are left.                                            none
  //   n = 16: 116 busy, four with 15 and four with 14: at most 3, 3 and 2.                           none
  //   n = 24: 108 busy, four with 14 and four with 13: 4 and 4 in the large ones, 3 in the others.   8
  //   n = 32: 100 busy, four with 13 and four with 12: 5 and 5, 3 and 3, and four times 4.           24
  const struct {
    int free, blocks;
    bool fits;
  } rows[] = {{12, 4, false}, {16, 4, false}, {24, 8, true}, {24, 12, false}, {32, 16, true}, {12, 2, true}};
  Hardware hardware = hand_machine(2);
  hardware.gpu.sms = 132;
  for (const auto& row : rows) {
    CAPTURE(row.free);
    CAPTURE(row.blocks);
    HandPlan p(2);
    for (int r = 0; r < 2; ++r) p.kernel(r, 0, 100e-6, {}, 4);
    exchange_both(p);
    p.plan.scenario.schedule.set("reserved_sms", std::int64_t{row.free});
    Hardware machine = hardware;
    for (MessageTable& table : machine.messages)
      if (table.transport == Transport::nccl) table.channels = row.blocks;
    machine.host.communication_launch_s = 10e-6;
    const Simulation s = run_persistent(p, machine, {.nccl_cluster = 4});
    CHECK(near(us(s.timeline.ranks[0][1].start_s), row.fits ? 10 : us(s.timeline.ranks[0][0].end_s)));
  }
}

}  // namespace cplab
