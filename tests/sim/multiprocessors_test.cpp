// Residency and the sharing of multiprocessors, on the machine of 100 of them. An NCCL exchange holds 10;
// 1 MB takes 40 us. Times worked out by hand, in microseconds.
#include <doctest/doctest.h>

#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using namespace sim_test;

// A kernel of 100 in that many waves on both ranks, and an exchange between them that is ready at 10.
Simulation exchange_beside_waves(int waves) {
  HandPlan p(2);
  for (int r = 0; r < 2; ++r) p.kernel(r, 0, 100e-6, {}, waves);
  exchange_both(p);
  Hardware hardware = hand_machine(2);
  hardware.host.communication_launch_s = 10e-6;
  return run(p, hardware);
}

}  // namespace

TEST_CASE("a resident communication kernel takes multiprocessors while it waits for its peer") {
  HandPlan p(2);
  p.exchange(0, {HandPlan::send(1, mega)});
  p.kernel(0, 0, 90e-6, {}, 9);
  const auto late = p.kernel(1, 0, 500e-6);
  p.exchange(1, {HandPlan::receive(0, mega)}, {late});
  const Simulation s = run(p, hand_machine(2));
  // Work that takes 90 on all multiprocessors takes 100 on 90 of 100, as long as rank 0's exchange waits.
  CHECK(near(us(s.timeline.ranks[0][1].end_s), 100));
  CHECK(near(us(s.timeline.ranks[0][0].wait_s), 500));
}

TEST_CASE("what cannot be placed waits for the end of a wave, and compute goes on beside it") {
  const Simulation s = exchange_beside_waves(4);
  // Ready at 10, placed when the first of four waves of 25 ends. For 40 the kernel has 90 multiprocessors and
  // does 36 of its remaining 75; the other 39 at full speed.
  CHECK(near(us(s.timeline.ranks[0][1].start_s), 25));
  CHECK(near(us(s.timeline.ranks[0][1].end_s), 65));
  CHECK(near(us(s.timeline.ranks[0][0].end_s), 65 + 39));
}

TEST_CASE("communication finds room before the last wave as well") {
  const Simulation s = exchange_beside_waves(2);
  // Ready at 10, placed when the first of two waves of 50 ends. The last wave starts on 90 multiprocessors
  // and, as its thread blocks are then placed, stays there: 50 / 0.9.
  CHECK(near(us(s.timeline.ranks[0][1].start_s), 50));
  CHECK(near(us(s.timeline.ranks[0][1].end_s), 90));
  CHECK(near(us(s.timeline.ranks[0][0].end_s), 50 + 50 / 0.9));
}

TEST_CASE("a kernel of one wave holds what it has to its end") {
  const Simulation s = exchange_beside_waves(1);
  CHECK(near(us(s.timeline.ranks[0][1].start_s), 100));
  CHECK(near(us(s.time_s), 140));
}

TEST_CASE("how many multiprocessors are held, wherever that changes, if it is asked for") {
  HandPlan p(2);
  for (int r = 0; r < 2; ++r) p.kernel(r, 0, 100e-6, {}, 4);
  exchange_both(p);
  Hardware hardware = hand_machine(2);
  hardware.host.communication_launch_s = 10e-6;
  SimulateOptions options;
  CHECK(run(p, hardware, options).timeline.multiprocessors.empty());
  options.keep_multiprocessors = true;
  const Simulation s = run(p, hardware, options);
  REQUIRE(s.timeline.multiprocessors.size() == 2);
  // As above: all of them, from 25 to 65 all but the 10 of the exchange, then all again to the end.
  const std::vector<MultiprocessorSample>& samples = s.timeline.multiprocessors[0];
  const auto at = [&](double time_us) {
    MultiprocessorSample found;
    for (const MultiprocessorSample& sample : samples)
      if (us(sample.time_s) <= time_us) found = sample;
    return std::pair<int, int>(found.compute, found.communication);
  };
  CHECK(at(20) == std::pair(100, 0));
  CHECK(at(30) == std::pair(90, 10));
  CHECK(at(64) == std::pair(90, 10));
  CHECK(at(70) == std::pair(100, 0));
  CHECK(at(105) == std::pair(0, 0));
  for (const MultiprocessorSample& sample : samples) CHECK(sample.compute + sample.communication <= 100);
}

TEST_CASE("reserved multiprocessors: from 0 to all but one") {
  const Hardware hardware = hand_machine(2);
  for (const std::int64_t reserved :
       {std::int64_t{-1}, std::int64_t{hardware.gpu.sms}, std::int64_t{100000}, std::int64_t{1} << 40}) {
    HandPlan p(1);
    p.plan.scenario.schedule.set("reserved_sms", reserved);
    p.kernel(0, 0, 10e-6);
    CAPTURE(reserved);
    try {
      run(p, hardware);
      FAIL_CHECK("no exception");
    } catch (const ScenarioError& error) {
      CHECK(error.key == "schedule.reserved_sms");
      const std::string range = "from 0 to " + std::to_string(hardware.gpu.sms - 1);
      CHECK(std::string(error.what()).find(range) != std::string::npos);
    }
  }
  HandPlan most(1);
  most.plan.scenario.schedule.set("reserved_sms", std::int64_t{hardware.gpu.sms - 1});
  most.kernel(0, 0, 10e-6);
  CHECK(us(run(most, hardware).time_s) > 10);  // on one multiprocessor
}

TEST_CASE("reserved multiprocessors: communication finds room, compute pays all the time") {
  HandPlan p(2);
  p.plan.scenario.schedule.set("reserved_sms", std::int64_t{10});
  for (int r = 0; r < 2; ++r) {
    p.kernel(r, 0, 90e-6, {}, 4);
    p.exchange(r, {HandPlan::send(1 - r, mega), HandPlan::receive(1 - r, mega)});
  }
  Hardware hardware = hand_machine(2);
  hardware.host.communication_launch_s = 10e-6;
  const Simulation s = run(p, hardware);
  CHECK(near(us(s.timeline.ranks[0][1].start_s), 10));
  CHECK(near(us(s.timeline.ranks[0][1].end_s), 50));
  CHECK(near(us(s.timeline.ranks[0][0].end_s), 100));
}

TEST_CASE("copy engines hold no multiprocessor") {
  HandPlan p(2);
  exchange_both(p, Transport::copy);
  for (int r = 0; r < 2; ++r) p.kernel(r, 0, 90e-6, {}, 9);
  CHECK(near(us(run(p, hand_machine(2)).time_s), 90));
}

TEST_CASE("interference slows a kernel while communication is resident, no longer") {
  HandPlan p(2);
  exchange_both(p, Transport::copy);  // 15
  for (int r = 0; r < 2; ++r) p.kernel(r, 0, 90e-6, {}, 9);
  Hardware hardware = hand_machine(2);
  InterferenceRow row;
  row.kind = OpKind::attend;
  row.beside = Transport::copy;
  row.slowdown = 1.25;
  row.provenance.origin = Origin::assumed;
  hardware.interference.push_back(row);
  const Simulation s = run(p, hardware);
  // In the 15 of the exchange it does what takes 12 alone: it ends 3 late.
  CHECK(near(us(s.time_s), 93));
  CHECK(s.timeline.ranks[0][1].origin == Origin::measured);  // of most of its time
  // The 3 are assumed, the 90 and the exchanges measured (lost_share is a float: 1e-6).
  CHECK(us(s.busy.of(Origin::assumed)) == doctest::Approx(2 * 3).epsilon(1e-6));
  CHECK(us(s.busy.of(Origin::measured)) == doctest::Approx(2 * (90 + 15)).epsilon(1e-6));
}

TEST_CASE("two lanes: the next kernel starts in the tail of the one before") {
  // Four waves of 25, the last one on 40 multiprocessors: 60 are free from 75 on.
  HandPlan fits(1), squeezed(1);
  fits.kernel(0, 0, 100e-6, {}, 4, 40);
  fits.kernel(0, 1, 10e-6, {}, 1, 60);
  Simulation s = run(fits, hand_machine(1));
  CHECK(near(us(s.timeline.ranks[0][1].start_s), 75));
  CHECK(near(us(s.timeline.ranks[0][1].end_s), 85));
  CHECK(near(us(s.timeline.ranks[0][0].end_s), 100));
  squeezed.kernel(0, 0, 100e-6, {}, 4, 40);
  squeezed.kernel(0, 1, 10e-6, {}, 1, 100);
  s = run(squeezed, hand_machine(1));
  CHECK(near(us(s.timeline.ranks[0][1].end_s), 75 + 10 / 0.6));
}

TEST_CASE("two lanes: kernels that do not fill the GPU run side by side, those that do one after the other") {
  HandPlan beside(1), after(1);
  for (int lane = 0; lane < 2; ++lane) {
    beside.kernel(0, lane, 50e-6, {}, 1, 50);
    after.kernel(0, lane, 50e-6);
  }
  CHECK(near(us(run(beside, hand_machine(1)).time_s), 50));
  CHECK(near(us(run(after, hand_machine(1)).time_s), 100));
}

TEST_CASE("a kernel that got little takes what becomes free") {
  // The second kernel starts on 30 free multiprocessors (70 held for 20), then has all it wants.
  HandPlan p(1);
  p.kernel(0, 0, 20e-6, {}, 1, 70);
  p.kernel(0, 1, 100e-6, {}, 10);
  CHECK(near(us(run(p, hand_machine(1)).time_s), 20 + (100 - 20 * 0.3)));
}

TEST_CASE("communication kernels that hold each other's multiprocessors stall, and it is reported") {
  // A machine of 15 multiprocessors: two exchanges of 10 do not fit beside each other. Rank 0 launches the
  // one to rank 1 on lane 0 first, rank 1 the one on lane 1.
  HandPlan p(2);
  for (int r = 0; r < 2; ++r)
    for (int i = 0; i < 2; ++i) {
      const int lane = r == 0 ? i : 1 - i;
      p.plan.groups.resize(2, p.plan.groups[0]);
      const auto op = p.exchange(r, {HandPlan::send(1 - r, mega), HandPlan::receive(1 - r, mega)}, {},
                                 Transport::nccl, lane);
      p.plan.ranks[static_cast<std::size_t>(r)].operations[op].group = static_cast<std::uint16_t>(lane);
    }
  Hardware hardware = hand_machine(2);
  CHECK(near(us(run(p, hardware).time_s), 40));
  hardware.gpu.sms = 15;
  CHECK_THROWS_AS(run(p, hardware), StalledError);
}

}  // namespace cplab
