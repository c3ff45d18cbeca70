// The threads of the ranks, and what a rank's outcome looks like after a journey between processes. No GPU.
#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>

#include "exec/gpu_gather.hpp"
#include "exec/gpu_team.hpp"

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
      team.barrier(rank, far);
      team.report_progress(rank, static_cast<std::size_t>(10 + rank));
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
    CHECK(std::string(late.what()) ==
          "the time is up: rank 1 does not come to the end of a repetition (it has issued 11 operations)");
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
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    CHECK_THROWS_AS(unpack({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n)}),
                    std::invalid_argument);
  }
}

}  // namespace
}  // namespace cplab
