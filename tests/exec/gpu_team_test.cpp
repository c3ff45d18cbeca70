// The threads of the ranks, and what a rank's outcome looks like after a journey between processes. No GPU.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include "exec/gpu/gather.hpp"
#include "exec/gpu/team.hpp"

namespace cplab {
namespace {

const GpuTeam::Clock::time_point far = GpuTeam::Clock::now() + std::chrono::hours(1);

TEST_CASE("ranks meet at barriers and see one time") {
  constexpr int ranks = 4, rounds = 50;
  GpuTeam team(ranks, nullptr);
  std::vector<std::vector<GpuTeam::Clock::time_point>> times(ranks);
  std::atomic<int> inside{0};
  std::atomic<bool> together{true};
  team.run([&](int rank) {
    for (int n = 0; n < rounds; ++n) {
      ++inside;
      times[static_cast<std::size_t>(rank)].push_back(team.barrier(rank, far));
      if (inside.load() < (n + 1) * ranks) together = false;
      team.barrier(rank, far);
    }
  });
  CHECK(together);
  for (int rank = 1; rank < ranks; ++rank) CHECK(times[static_cast<std::size_t>(rank)] == times[0]);
}

TEST_CASE("one failing rank stops those that wait for it, and its error is the one thrown") {
  GpuTeam team(3, nullptr);
  CHECK_THROWS_WITH_AS(team.run([&](int rank) {
    if (rank == 1) throw std::runtime_error("rank 1 is broken");
    team.barrier(rank, far);
  }),
                       "rank 1 is broken", std::runtime_error);
}

TEST_CASE("a rank that does not come is named when the time is up") {
  GpuTeam team(3, nullptr);
  const auto soon = GpuTeam::Clock::now() + std::chrono::milliseconds(20);
  std::atomic<int> waiting{2};
  try {
    team.run([&](int rank) {
      team.report_progress(rank, static_cast<std::size_t>(10 + rank));
      team.barrier(rank, far);
      try {
        if (rank != 1) team.barrier(rank, soon);
      } catch (...) {
        --waiting;
        throw;
      }
      while (waiting > 0) std::this_thread::yield();
    });
    FAIL("nobody was late");
  } catch (const GpuTeam::Late& late) {
    // On a busy machine another rank may be late as well; rank 1 is in any case.
    const std::string what = late.what();
    CHECK(what.starts_with("the time is up: "));
    CHECK(what.find("rank 1 does not come to the end of a repetition (it has issued 11 operations)") !=
          std::string::npos);
  }
}

TEST_CASE("an outcome survives packing and a cut one is refused") {
  RankOutcome outcome;
  outcome.ends_s = {1, 2.5};
  outcome.operations = {{{1, 2, 3, 0.5, Origin::measured}}, {}};
  outcome.clock_residual_s = 1e-6;
  outcome.memory.arena_bytes = 77;
  outcome.log.blocks = {{1, 2, 3}};
  outcome.log.uses = {{4, 5, 6, 7, Lane{LaneKind::comm, 1}, true}};
  outcome.overrun = true;
  outcome.outputs = {{}, {std::byte{9}, std::byte{8}}};
  outcome.variants = {{'m', 'm', 'a'}, {}};
  outcome.fall_backs = {{}, {'k'}};
  const std::vector<std::byte> bytes = pack(outcome);
  const RankOutcome back = unpack(bytes);
  CHECK(back.ends_s == outcome.ends_s);
  REQUIRE(back.operations.size() == 2);
  CHECK(back.operations[0][0].end_s == 3);
  CHECK(back.memory.arena_bytes == 77);
  REQUIRE(back.log.uses.size() == 1);
  CHECK(back.log.uses[0] == outcome.log.uses[0]);
  CHECK(back.overrun);
  CHECK(back.outputs == outcome.outputs);
  CHECK(back.variants == outcome.variants);
  CHECK(back.fall_backs == outcome.fall_backs);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    CHECK_THROWS_AS(unpack({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n)}),
                    std::invalid_argument);
  }
}

// A rank of two operations and two buffers, the second an output of 6 bytes, and what its process may say.
RankPlan small_rank() {
  RankPlan rank;
  rank.rank = 3;
  rank.operations.resize(2);
  rank.buffers.resize(2);
  rank.buffers[1].category = Category::output;
  rank.buffers[1].bytes = 6;
  return rank;
}

RankOutcome fitting_outcome() {
  RankOutcome outcome;
  outcome.ends_s = {0.5, 0.25};
  outcome.operations = {{{0, 0.1, 0.2, 0, Origin::measured}, {0.1, 0.2, 0.3, 0, Origin::measured}}};
  outcome.memory.rank = 3;
  outcome.log.blocks = {{1, 0, 6}};
  outcome.log.uses = {{1, 1, 0, 6, Lane{LaneKind::compute, 0}, true}};
  outcome.outputs = {{}, std::vector<std::byte>(6)};
  outcome.variants = {{'m', 'm', 'a'}, {}};
  outcome.fall_backs = {{}, {}};
  return outcome;
}

TEST_CASE("an outcome that does not fit the plan is refused, whatever is wrong with it") {
  const RankPlan rank = small_rank();
  const RankOutcome own = fitting_outcome();
  CHECK_NOTHROW(require_outcome_of(rank, own, own));
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  const std::vector<std::function<void(RankOutcome&)>> wrongs = {
      [](RankOutcome& o) { o.ends_s.pop_back(); },
      [](RankOutcome& o) { o.ends_s.push_back(1); },
      [&](RankOutcome& o) { o.ends_s[1] = nan; },
      [](RankOutcome& o) { o.ends_s[0] = 1e300; },
      [](RankOutcome& o) { o.operations.clear(); },
      [](RankOutcome& o) { o.operations[0].pop_back(); },
      [&](RankOutcome& o) { o.operations[0][1].end_s = infinite; },
      [&](RankOutcome& o) { o.operations[0][0].wait_s = nan; },
      [](RankOutcome& o) { o.operations[0][0].origin = static_cast<Origin>(9); },
      [&](RankOutcome& o) { o.clock_residual_s = -infinite; },
      [](RankOutcome& o) { o.memory.rank = 2; },
      [](RankOutcome& o) { o.memory.growth_bytes = std::numeric_limits<std::int64_t>::min(); },
      [](RankOutcome& o) { o.memory.arena_bytes = std::int64_t{1} << 62; },
      [](RankOutcome& o) { o.log.blocks[0].buffer = 2; },
      [](RankOutcome& o) { o.log.blocks[0].bytes = std::numeric_limits<std::int64_t>::max(); },
      [](RankOutcome& o) { o.log.uses[0].operation = 2; },
      [](RankOutcome& o) { o.log.uses[0].buffer = 1000; },
      [](RankOutcome& o) { o.log.uses[0].lane.kind = static_cast<LaneKind>(77); },
      [](RankOutcome& o) { o.outputs.pop_back(); },
      [](RankOutcome& o) { o.outputs[1].pop_back(); },
      [](RankOutcome& o) { o.outputs[0].resize(1); },
      [](RankOutcome& o) { o.variants.pop_back(); },
      [](RankOutcome& o) { o.variants[0][1] = '\x1b'; },
      [](RankOutcome& o) { o.variants[1].resize(5000, 'm'); },
      [](RankOutcome& o) { o.fall_backs.clear(); },
  };
  for (std::size_t i = 0; i < wrongs.size(); ++i) {
    CAPTURE(i);
    RankOutcome wrong = own;
    wrongs[i](wrong);
    CHECK_THROWS_AS(require_outcome_of(rank, wrong, own), std::invalid_argument);
    CHECK_THROWS_AS(received_outcome(rank, pack(wrong), own), RendezvousError);
  }
}

TEST_CASE("random bytes in an outcome are refused or read, and what is read fits or is refused") {
  const RankPlan rank = small_rank();
  const RankOutcome own = fitting_outcome();
  const std::vector<std::byte> whole = pack(own);
  std::uint64_t state = 1;
  const auto random = [&](std::size_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>(state >> 33) % below;
  };
  int read = 0, fits = 0;
  for (int n = 0; n < 10'000; ++n) {
    std::vector<std::byte> bytes = whole;
    for (std::size_t changes = 1 + random(4); changes > 0; --changes)
      bytes[random(bytes.size())] = static_cast<std::byte>(random(256));
    if (random(8) == 0) bytes.resize(random(bytes.size() + 1));
    try {
      const RankOutcome outcome = unpack(bytes);
      ++read;
      require_outcome_of(rank, outcome, own);
      ++fits;
      for (const double end_s : outcome.ends_s) CHECK(std::isfinite(end_s));
    } catch (const std::invalid_argument&) {
    }
  }
  CHECK(read > fits);
  CHECK(fits > 0);
}

}  // namespace
}  // namespace cplab
