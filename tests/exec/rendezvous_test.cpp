// Processes that meet: gathers, barriers, and how soon each learns that another failed, died, left or never
// came.
#include "exec/processes/rendezvous.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "exec/processes/board.hpp"
#include "tests/exec/processes.hpp"

namespace cplab {
namespace {

using processes::check_all_fine;
using processes::contains;
using processes::free_port;
using processes::join;
using processes::launch_of;
using processes::now_s;
using processes::Outcome;
using processes::patience_s;
using processes::sleep_ms;
using processes::thrown;

// News of a death or failure. The kernel closes a dead process's sockets at once; the rest is two messages
// on loopback, so a second leaves room for a busy machine.
constexpr double promptly_s = 1;

// What rank `rank` gives in call `call`: lengths differ, 0 included.
std::vector<std::byte> given_bytes(int rank, int call) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(rank * 1000 * (call % 3)));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(rank + call));
  return bytes;
}

TEST_CASE("one process meets itself") {
  const auto meeting = Rendezvous::join(Launch(), 0);
  CHECK(meeting->rank() == 0);
  CHECK(meeting->world() == 1);
  const auto bytes = given_bytes(1, 1);
  const std::vector<std::vector<std::byte>> expected = {bytes};
  CHECK(meeting->all_gather(bytes, 0) == expected);
  meeting->barrier(0);
  CHECK_FALSE(meeting->poll_failure());
  meeting->throw_if_failed();
  meeting->announce_failure("no more");
  CHECK(contains(meeting->poll_failure().value(), "no more"));
  CHECK_THROWS_AS(meeting->barrier(0), PeerFailed);
}

TEST_CASE("a gather brings everybody's bytes by rank, call after call") {
  const int port = free_port();
  check_all_fine(processes::run(4, [&](int rank, Outcome&) {
    const auto meeting = join(rank, 4, port);
    for (int call = 0; call < 200; ++call) {
      const auto gathered = meeting->all_gather(given_bytes(rank, call), patience_s);
      if (gathered.size() != 4) throw std::logic_error("size");
      for (int other = 0; other < 4; ++other)
        if (gathered[other] != given_bytes(other, call)) throw std::logic_error("content");
      const auto values = meeting->all_gather_value(rank * 10 + call, patience_s);
      for (int other = 0; other < 4; ++other)
        if (values[other] != other * 10 + call) throw std::logic_error("value");
    }
    if (meeting->poll_failure()) throw std::logic_error("failure");
  }));
}

TEST_CASE("nobody passes a barrier before all have come") {
  const int port = free_port();
  const auto outcomes = processes::run(4, [&](int rank, Outcome& own) {
    const auto meeting = join(rank, 4, port);
    if (rank == 2) sleep_ms(100);
    own.values[0] = now_s();
    meeting->barrier(patience_s);
    own.values[1] = now_s();
  });
  check_all_fine(outcomes);
  for (const Outcome& outcome : outcomes) CHECK(outcome.values[1] >= outcomes[2].values[0]);
}

TEST_CASE("messages of 100 MB") {
  const int port = free_port();
  check_all_fine(processes::run(3, [&](int rank, Outcome&) {
    const auto meeting = join(rank, 3, port);
    const std::vector<std::byte> mine(rank == 1 ? 100'000'000 : 20'000'000, static_cast<std::byte>(rank + 1));
    const auto gathered = meeting->all_gather(mine, 60);
    for (int other = 0; other < 3; ++other) {
      const std::vector<std::byte> expected(other == 1 ? 100'000'000 : 20'000'000,
                                            static_cast<std::byte>(other + 1));
      if (gathered[other] != expected) throw std::logic_error("content");
    }
  }));
}

// Others wait in a gather, or compute and ask.
TEST_CASE("a process that is killed is missed by all others within a second") {
  for (const int victim : {0, 2}) {
    for (const bool asking : {false, true}) {
      CAPTURE(victim);
      CAPTURE(asking);
      const int port = free_port();
      const auto outcomes = processes::run(4, [&](int rank, Outcome& own) {
        const auto meeting = join(rank, 4, port);
        meeting->barrier(patience_s);
        if (rank == victim) {
          sleep_ms(50);
          own.values[0] = now_s();
          std::raise(SIGKILL);
        }
        if (!asking) meeting->all_gather(given_bytes(rank, 1), patience_s);
        while (!meeting->poll_failure()) sleep_ms(1);
        own.values[0] = now_s();
        meeting->throw_if_failed();
      });
      for (int rank = 0; rank < 4; ++rank) {
        const Outcome& outcome = outcomes[rank];
        if (rank == victim) {
          CHECK(thrown(outcome) == "killed");
          continue;
        }
        CAPTURE(outcome.text);
        CHECK(thrown(outcome) == "PeerLost");
        CHECK(outcome.ranks[0] == victim);
        CHECK(contains(outcome, "rank " + std::to_string(victim) + " is gone"));
        const double seen_s = asking ? outcome.values[0] : outcome.finished_s;
        CHECK(seen_s - outcomes[victim].values[0] < promptly_s);
        MESSAGE("seen after " << (seen_s - outcomes[victim].values[0]) * 1e3 << " ms");
      }
    }
  }
}

TEST_CASE("a process that dies in the middle of a large message is missed") {
  const int port = free_port();
  const auto outcomes = processes::run(3, [&](int rank, Outcome&) {
    const auto meeting = join(rank, 3, port);
    meeting->barrier(patience_s);
    if (rank == 1) {
      // More than loopback buffers hold: most of it never leaves.
      std::thread([&] { meeting->all_gather(std::vector<std::byte>(64 << 20), patience_s); }).detach();
      sleep_ms(5);
      std::raise(SIGKILL);
    }
    meeting->all_gather(given_bytes(rank, 1), patience_s);
    meeting->barrier(patience_s);  // should the message have got through
  });
  for (const int rank : {0, 2}) {
    CHECK(thrown(outcomes[rank]) == "PeerLost");
    CHECK(outcomes[rank].ranks[0] == 1);
  }
}

TEST_CASE("an announced failure reaches all, with rank and message") {
  const int port = free_port();
  const auto outcomes = processes::run(4, [&](int rank, Outcome& own) {
    const auto meeting = join(rank, 4, port);
    meeting->barrier(patience_s);
    if (rank == 1) {
      sleep_ms(20);
      own.values[0] = now_s();
      meeting->announce_failure("arena overrun");
      meeting->announce_failure("a consequence");
    } else if (rank == 3) {
      while (!meeting->poll_failure()) sleep_ms(1);
      own.values[0] = now_s();
      own.values[1] = contains(*meeting->poll_failure(), "rank 1 failed: arena overrun");
    } else {
      try {
        meeting->barrier(patience_s);
      } catch (const PeerFailed&) {
        own.values[0] = now_s();
        own.values[1] = 1;
      }
    }
    meeting->barrier(patience_s);  // later calls throw too
  });
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(thrown(outcomes[rank]) == "PeerFailed");
    CHECK(outcomes[rank].ranks[0] == 1);
    CHECK(contains(outcomes[rank], "rank 1 failed: arena overrun"));
    if (rank == 1) continue;
    CHECK(outcomes[rank].values[1] == 1);
    CHECK(outcomes[rank].values[0] - outcomes[1].values[0] < promptly_s);
  }
}

TEST_CASE("an exception that ends one process is a failure for the others") {
  const int port = free_port();
  const auto outcomes = processes::run(3, [&](int rank, Outcome&) {
    const auto meeting = join(rank, 3, port);
    meeting->barrier(patience_s);
    if (rank == 2) throw std::runtime_error("out of memory");
    meeting->barrier(patience_s);
  });
  CHECK(thrown(outcomes[2]) == "exception");
  for (const int rank : {0, 1}) {
    CHECK(thrown(outcomes[rank]) == "PeerFailed");
    CHECK(outcomes[rank].ranks[0] == 2);
  }
}

TEST_CASE("leaving is no failure until somebody needs the one who left") {
  for (const int leaver : {0, 1}) {
    CAPTURE(leaver);
    const int port = free_port();
    Board board = Board::create_shared(Board::shared_name(port), 1);  // forked processes have it too
    board.unlink();
    const auto outcomes = processes::run(3, [&](int rank, Outcome& own) {
      auto meeting = join(rank, 3, port);
      meeting->barrier(patience_s);
      if (rank == leaver) return;
      sleep_ms(50);
      own.values[0] = meeting->poll_failure().has_value();
      board.cell(0).fetch_add(1);
      while (board.cell(0) < 2) sleep_ms(1);  // both have asked
      meeting->barrier(patience_s);
    });
    CHECK(thrown(outcomes[leaver]) == "");
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == leaver) continue;
      CAPTURE(outcomes[rank].text);
      CHECK(outcomes[rank].values[0] == 0);
      CHECK(thrown(outcomes[rank]) == "PeerLost");
      CHECK(outcomes[rank].ranks[0] == leaver);
    }
  }
}

TEST_CASE("who waits for one who left hears of it though rank 0 computes") {
  const int port = free_port();
  Board board = Board::create_shared(Board::shared_name(port), 1);
  board.unlink();
  const auto outcomes = processes::run(3, [&](int rank, Outcome&) {
    const auto meeting = join(rank, 3, port);
    meeting->barrier(patience_s);
    if (rank == 1) return;
    if (rank == 2) {
      try {
        meeting->barrier(patience_s);
      } catch (const PeerLost&) {
        board.cell(0) = 1;
        throw;
      }
    }
    const double deadline = now_s() + patience_s / 2;
    while (board.cell(0) == 0 && now_s() < deadline) sleep_ms(1);
    if (board.cell(0) == 0) throw std::logic_error("rank 2 still waits");
  });
  CHECK(thrown(outcomes[0]) == "");
  CHECK(thrown(outcomes[2]) == "PeerLost");
  CHECK(outcomes[2].ranks[0] == 1);
}

TEST_CASE("timeouts name the ranks that are missing") {
  SUBCASE("while joining") {
    const int port = free_port();
    const auto outcomes = processes::run(5, [&](int rank, Outcome&) {
      if (rank == 1 || rank == 3) return;
      Rendezvous::join(launch_of(rank, 5, port), rank == 0 ? 0.3 : 0.6);
    });
    for (const int rank : {0, 2, 4}) {
      CAPTURE(outcomes[rank].text);
      CHECK(thrown(outcomes[rank]) == "RendezvousTimeout");
      REQUIRE(outcomes[rank].rank_count == 2);
      CHECK(outcomes[rank].ranks[0] == 1);
      CHECK(outcomes[rank].ranks[1] == 3);
      CHECK(contains(outcomes[rank], "ranks 1, 3 did not join at 127.0.0.1:"));
    }
  }
  SUBCASE("without rank 0") {
    const int port = free_port();
    CHECK_THROWS_AS(Rendezvous::join(launch_of(1, 2, port), 0.1), RendezvousTimeout);
  }
  SUBCASE("in a call") {
    const int port = free_port();
    const auto outcomes = processes::run(4, [&](int rank, Outcome& own) {
      const auto meeting = join(rank, 4, port);
      if (rank != 2) meeting->all_gather(given_bytes(rank, 1), 0.5);
      while (!meeting->poll_failure()) sleep_ms(1);  // of the first that gave up
      own.values[0] = 1;
    });
    CHECK(outcomes[2].values[0] == 1);
    int timeouts = 0;
    for (const int rank : {0, 1, 3}) {
      // The first to give up tells the others, and that may be before their own time is up.
      CHECK(contains(outcomes[rank], "nothing from rank 2 within 0.5 s"));
      if (thrown(outcomes[rank]) == "PeerFailed") continue;
      CHECK(thrown(outcomes[rank]) == "RendezvousTimeout");
      CHECK(outcomes[rank].rank_count == 1);
      CHECK(outcomes[rank].ranks[0] == 2);
      ++timeouts;
    }
    CHECK(timeouts >= 1);
  }
}

long entries(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return std::distance(begin(all), end(all));
}

TEST_CASE("nothing is left behind, whether it ended well or not") {
  const int port = free_port();
  const auto outcomes = processes::run(2, [&](int rank, Outcome& own) {
    const long descriptors = entries("/proc/self/fd");
    const long threads = entries("/proc/self/task");
    for (int round = 0; round < 10; ++round) {
      const auto meeting = join(rank, 2, port);  // the same port again
      meeting->barrier(patience_s);
      if (round % 2 == 1 && rank == 1) meeting->announce_failure("on purpose");
    }
    try {
      Rendezvous::join(launch_of(rank, 3, port), 0.1);
    } catch (const RendezvousTimeout&) {
      own.values[0] = 1;
    }
    own.values[1] = static_cast<double>(entries("/proc/self/fd") - descriptors);
    own.values[2] = static_cast<double>(entries("/proc/self/task") - threads);
  });
  check_all_fine(outcomes);
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.values[0] == 1);
    CHECK(outcome.values[1] == 0);
    CHECK(outcome.values[2] == 0);
  }
}

}  // namespace
}  // namespace cplab
