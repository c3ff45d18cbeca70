// Collectives by curve and in steps; 4 ranks, 1 MB each. Times worked out by hand, in microseconds.
#include <doctest/doctest.h>

#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using namespace sim_test;

HandPlan all_do(OpKind kind, std::int64_t bytes) {
  HandPlan p(4);
  for (int r = 0; r < 4; ++r) p.collective(r, kind, bytes);
  return p;
}

MessageTable gather_table(const Hardware& hardware, int group) {
  MessageTable table = hardware.messages[0];
  table.kind = OpKind::all_gather;
  table.group = group;
  table.points = {{3e6, 100e-6}, {6e6, 180e-6}};  // wire bytes sent per rank
  return table;
}

}  // namespace

TEST_CASE("curve: the table's time from the moment the last member has come") {
  HandPlan p(4);
  for (int r = 0; r < 3; ++r) p.collective(r, OpKind::all_gather, mega);
  p.collective(3, OpKind::all_gather, mega, {p.kernel(3, 0, 50e-6)});
  Hardware hardware = hand_machine(4);
  hardware.messages.push_back(gather_table(hardware, 4));
  const Simulation s = run(p, hardware);
  CHECK(near(us(s.time_s), 150));
  CHECK(near(us(s.timeline.ranks[0][0].wait_s), 50));
  CHECK(s.timeline.ranks[3][1].wait_s == 0);
  CHECK(s.timeline.ranks[0][0].origin == Origin::measured);
}

TEST_CASE("curve: only where that group size was measured and nobody asked for steps") {
  const HandPlan p = all_do(OpKind::all_gather, mega);
  Hardware hardware = hand_machine(4);
  CHECK(near(us(run(p, hardware).time_s), 80));  // flows as those of an exchange
  // The curve of 8 members says how its flows start and move: at most 100 GB/s of the link leave a start-up
  // of min(100 - 30, 180 - 60), and 3 MB took 30 us beyond it.
  hardware.messages.push_back(gather_table(hardware, 8));
  hardware.messages.back().points = {{3e6, 100e-6}, {6e6, 160e-6}};
  CHECK(near(us(run(p, hardware).time_s), 70 + 30));
  CHECK(run(p, hardware).timeline.ranks[0][0].origin == Origin::extrapolated);
  hardware.messages.back().group = 4;
  CHECK(near(us(run(p, hardware).time_s), 100));
  CHECK(run(p, hardware).timeline.ranks[0][0].origin == Origin::measured);
  SimulateOptions stepwise;
  stepwise.collective_model = CollectiveModel::stepwise;
  CHECK(near(us(run(p, hardware, stepwise).time_s), 100));
  CHECK(run(p, hardware, stepwise).timeline.ranks[0][0].origin == Origin::extrapolated);
}

TEST_CASE("stepwise: one start-up, then rounds of point-to-point messages") {
  // 3 rounds of 1 MB at 50 GB/s: 20 + 3 * 20; of messages the own MB is copied first, read and written at 1
  // TB/s.
  for (const OpKind kind : {OpKind::all_gather, OpKind::reduce_scatter, OpKind::all_to_all}) {
    CAPTURE(name(kind));
    const Simulation s = run(all_do(kind, mega), hand_machine(4));
    CHECK(near(us(s.time_s), kind == OpKind::all_to_all ? 82 : 80));
    CHECK(s.timeline.ranks[2][0].origin == Origin::extrapolated);
  }
  // Scatter and gather of quarters: 6 rounds of 1 MB.
  CHECK(near(us(run(all_do(OpKind::all_reduce, 4 * mega), hand_machine(4)).time_s), 20 + 6 * 20));
  // A tree of two levels of start-ups.
  CHECK(near(us(run(all_do(OpKind::barrier, 0), hand_machine(4)).time_s), 40));
}

TEST_CASE("stepwise: an uneven all_gather goes from each to each other, as NCCL has no call for it") {
  // Rank 2 gives 4 MB, the others 1 MB: it sends three times 4 MB at 50 GB/s.
  HandPlan p(4);
  for (int r = 0; r < 4; ++r) {
    std::vector<HandPlan::Message> messages;
    for (int peer = 0; peer < 4; ++peer) {
      messages.push_back(HandPlan::send(peer, r == 2 ? 4 * mega : mega));
      messages.push_back(HandPlan::receive(peer, peer == 2 ? 4 * mega : mega));
    }
    const auto op = p.exchange(r, messages);
    p.plan.ranks[static_cast<std::size_t>(r)].operations[op].kind = OpKind::all_gather;
  }
  CHECK(near(us(run(p, hand_machine(4)).time_s), 20 + 12 * 20));
}

TEST_CASE("a collective of one rank takes no time, empty parts neither") {
  HandPlan p(1);
  p.collective(0, OpKind::all_gather, mega);
  CHECK(run(p, hand_machine(2)).time_s == 0);
  // Without bytes the start-up is not even known: no message, no cost.
  CHECK(run(all_do(OpKind::all_to_all, 0), hand_machine(4)).time_s == 0);
}

TEST_CASE("a collective holds its channels while it waits") {
  HandPlan p(2);
  p.collective(0, OpKind::all_gather, mega);
  p.kernel(0, 0, 90e-6, {}, 9);
  p.collective(1, OpKind::all_gather, mega, {p.kernel(1, 0, 500e-6)});
  CHECK(near(us(run(p, hand_machine(2)).timeline.ranks[0][1].end_s), 100));
}

}  // namespace cplab
