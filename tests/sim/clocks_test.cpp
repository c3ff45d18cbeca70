// The clock that a power limit leaves attention beside other work.
#include "sim/clocks.hpp"

#include <doctest/doctest.h>

#include "plan/plan.hpp"

namespace cplab {
namespace {

// A rank that computes attention of `head_size` for `attention_s` and then anything else until `whole_s`.
struct Fixture {
  explicit Fixture(std::int64_t head_size) {
    RankPlan& rank = plan.ranks.emplace_back();
    View keys;
    keys.width_end = static_cast<decltype(keys.width_end)>(head_size);
    rank.views.push_back(keys);
    rank.accesses.push_back({0, WriteMode::store, Operand::k});
    Operation attend;
    attend.kind = OpKind::attend;
    attend.reads = {0, 1};
    rank.operations = {attend, Operation{}};
    rank.operations.back().kind = OpKind::copy;
    hardware.burst = {.seconds = 0, .speed = 1.2, .small_heads_speed = 1.1, .share = 0.5, .provenance = {}};
  }
  double lift(double attention_s, double whole_s) {
    Timeline timeline;
    timeline.ranks.resize(1);
    timeline.ranks[0].resize(2);
    timeline.ranks[0][0].end_s = attention_s;
    timeline.ranks[0][1].start_s = attention_s;
    timeline.ranks[0][1].end_s = whole_s;
    return settled_lift(plan, hardware, timeline).of(0);
  }
  Plan plan;
  Hardware hardware;
};

TEST_CASE("attention alone keeps the clock that tables were measured at, as where a file does not say") {
  Fixture f(128);
  CHECK(f.lift(1, 1) == 0);
  f.hardware.burst.share = 0;
  CHECK(f.lift(0.7, 1) == 0);
}

TEST_CASE("up to its share of the time attention has the highest clock") {
  Fixture f(128);
  CHECK(f.lift(0.3, 1) == doctest::Approx(1));
  // At 1.2 times the speed 0.54 of 1 take 0.45 beside 0.46: less than half of the time.
  CHECK(f.lift(0.54, 1) == doctest::Approx(1));
}

TEST_CASE("between, the lift is the one whose own speed leaves it that share") {
  // Attention of 12 at lift 1/2 takes 12 / 1.1 = 10.909; beside 3.6364 that is 3/4 of the time, half way
  // between 1/2 and 1.
  Fixture f(128);
  CHECK(f.lift(12, 15.6364) == doctest::Approx(0.5).epsilon(1e-4));
  // With heads of 64 it is 12 / 1.05 = 11.4286, and 3.8095 beside it.
  Fixture small(64);
  CHECK(small.lift(12, 15.8095) == doctest::Approx(0.5).epsilon(1e-4));
}

TEST_CASE("less work beside attention never makes the whole slower") {
  // The whole at lift l is A / (1 + 0.2 l) + R; R from none to as much again as attention.
  Fixture f(128);
  double before = 0;
  for (int tenth_percent = 0; tenth_percent <= 1000; ++tenth_percent) {
    const double rest = tenth_percent / 1000.0;
    const double whole = 1 / attention_speed(f.hardware.burst, 128, f.lift(1, 1 + rest)) + rest;
    CHECK(whole >= before - 0.0005 * before);  // a gain of less is not simulated again
    before = whole;
  }
}

}  // namespace
}  // namespace cplab
