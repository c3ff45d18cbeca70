// Processes that do not fit together: other calls, other counts, other launches, other programs at the port.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "exec/processes/rendezvous.hpp"
#include "exec/processes/wire.hpp"
#include "tests/exec/peer_by_hand.hpp"
#include "tests/exec/processes.hpp"

namespace cplab {
namespace {

using by_hand::job_token;
using by_hand::knock;
using processes::check_all_fine;
using processes::contains;
using processes::free_port;
using processes::join;
using processes::launch_of;
using processes::Outcome;
using processes::patience_s;
using processes::thrown;

TEST_CASE("processes that do not fit together") {
  SUBCASE("a barrier here, a gather there") {
    const int port = free_port();
    const auto outcomes = processes::run(2, [&](int rank, Outcome&) {
      const auto meeting = join(rank, 2, port);
      if (rank == 0)
        meeting->barrier(patience_s);
      else
        meeting->all_gather({}, patience_s);
    });
    for (const Outcome& outcome : outcomes) CHECK(thrown(outcome) == "RendezvousError");
  }
  SUBCASE("two processes of one rank, and a wrong count") {
    const int port = free_port();
    const auto outcomes = processes::run(4, [&](int process, Outcome&) {
      const Launch launch = launch_of(process == 2 ? 1 : process, process == 3 ? 4 : 3, port);
      Rendezvous::join(launch, process == 0 ? 1 : 3);
    });
    CHECK(thrown(outcomes[0]) == "RendezvousTimeout");
    CHECK(contains(outcomes[0], "turned away: rank 1 has joined already"));
    const bool first =
        thrown(outcomes[1]) == "RendezvousTimeout";  // processes 1 and 2 both say that they are rank 1
    const Outcome& joined = outcomes[first ? 1 : 2];
    const Outcome& refused = outcomes[first ? 2 : 1];
    CHECK(thrown(joined) == "RendezvousTimeout");
    CHECK(joined.ranks[0] == 2);
    CHECK(thrown(refused) == "RendezvousError");
    CHECK(contains(refused, "two processes have one rank"));
    CHECK(thrown(outcomes[3]) == "RendezvousError");
    CHECK(contains(outcomes[3], "counts 4 processes, rank 0 counts 3"));
  }
  SUBCASE("a launch that contradicts itself") {
    CHECK_THROWS_AS(Rendezvous::join(launch_of(2, 2, 1), 1), std::invalid_argument);
  }
}

wire::Bytes header_bytes(const wire::Header& header) {
  const auto bytes = std::as_bytes(std::span(&header, 1));
  return {bytes.begin(), bytes.end()};
}

TEST_CASE("an older launch at the same port is waited out, not joined") {
  const int port = free_port();
  const auto outcomes = processes::run(3, [&](int process, Outcome& own) {
    const bool old = process == 0;
    Launch launch = launch_of(old ? 0 : process - 1, 2, port);
    launch.job = old ? "old" : "new";
    if (!old) knock(port);  // until the port is taken
    const auto meeting = Rendezvous::join(launch, old ? 1 : patience_s);
    meeting->barrier(patience_s);
    own.values[0] = 1;
  });
  CHECK(thrown(outcomes[0]) == "RendezvousTimeout");
  CHECK(contains(outcomes[0], "this port belongs to another launch"));
  for (const int process : {1, 2}) {
    CAPTURE(outcomes[process].text);
    CHECK(outcomes[process].values[0] == 1);
  }
}

TEST_CASE("another program at the port") {
  const std::string greeting = "HTTP/1.1 400 Bad Request\r\n\r\n";
  const wire::Bytes stranger = *wire::bytes_of(greeting);
  SUBCASE("in the place of rank 0 is an error at once") {
    const int port = free_port();
    const wire::Socket listener = wire::listen_at("127.0.0.1", port, 4);
    std::thread server([&] {
      while (true) {
        wire::wait_for(listener, false, wire::Clock::now() + std::chrono::seconds(1));
        bool starved = false;
        const wire::Socket socket = wire::accept_from(listener, starved);
        if (!socket) continue;
        by_hand::say(socket, stranger);
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        return;
      }
    });
    std::string message;
    try {
      Launch launch = launch_of(1, 2, port);
      launch.token = job_token;
      Rendezvous::join(launch, patience_s);
    } catch (const RendezvousError& error) {
      message = error.what();
    }
    server.join();
    CHECK(contains(message, "no message of cplab; CPLAB_PORT chooses another port"));
  }
  SUBCASE("as a visitor does no harm") {
    const int port = free_port();
    check_all_fine(processes::run(2, [&](int rank, Outcome&) {
      wire::Socket socket;
      if (rank == 1) {
        socket = knock(port);
        by_hand::say(socket, stranger);
      }
      join(rank, 2, port)->barrier(patience_s);
    }));
  }
  SUBCASE("another version explains the timeout") {
    const int port = free_port();
    const auto outcomes = processes::run(2, [&](int process, Outcome&) {
      if (process == 0) Rendezvous::join(launch_of(0, 2, port), 1);
      const wire::Socket socket = knock(port);
      const wire::Header header = {wire::magic, wire::version + 1, wire::Kind::hello, 1, 0, 2, 0};
      by_hand::say(socket, header_bytes(header));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    });
    CHECK(thrown(outcomes[0]) == "RendezvousTimeout");
    CHECK(contains(outcomes[0], "another version of cplab"));
  }
  SUBCASE("garbage, an absurd length or a skipped call from a rank that has joined is an error") {
    for (int what = 0; what < 3; ++what) {
      CAPTURE(what);
      const int port = free_port();
      const auto outcomes = processes::run(3, [&](int process, Outcome&) {
        if (process < 2) {
          Launch launch = launch_of(process, 3, port);
          launch.token = job_token;
          Rendezvous::join(launch, patience_s)->barrier(patience_s);
          return;
        }
        wire::Connection connection(knock(port), wire::Sender::member);
        by_hand::say(connection.socket(), by_hand::hello({2, 3, job_token, ""}));
        wire::Header header = {wire::magic, wire::version, wire::Kind::hello, 2, 0, 3, 0};
        std::vector<wire::Frame> frames;
        const auto read_until = [&](auto&& enough) {
          const auto deadline = wire::Clock::now() + std::chrono::seconds(5);
          bool open = true;
          while (open && !enough() && wire::Clock::now() < deadline) {
            wire::wait_for(connection.socket(), false, deadline);
            open = connection.read(frames);
          }
        };
        read_until([&] {
          return std::any_of(frames.begin(), frames.end(), [](const wire::Frame& frame) {
            return frame.kind == wire::Kind::joined && frame.rank == 1;
          });
        });
        header.kind = wire::Kind::barrier;
        if (what == 0) header.magic += 1;
        if (what == 1) header.bytes = ~std::uint64_t{0};
        header.sequence = what == 2 ? 1 : 0;
        by_hand::say(connection.socket(), header_bytes(header));
        read_until([] { return false; });
      });
      for (const int rank : {0, 1}) {
        CAPTURE(outcomes[rank].text);
        CHECK(thrown(outcomes[rank]) == "RendezvousError");
        CHECK(contains(outcomes[rank], "rank 2"));
      }
    }
  }
}

}  // namespace
}  // namespace cplab
