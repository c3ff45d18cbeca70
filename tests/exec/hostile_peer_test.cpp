// What strangers and faulty members can do to a launch: nothing but be turned away, or be named. All traffic
// is on the loopback interface.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "exec/processes/rendezvous.hpp"
#include "exec/processes/wire.hpp"
#include "tests/exec/peer_by_hand.hpp"
#include "tests/exec/processes.hpp"

namespace cplab {
namespace {

using by_hand::hear;
using by_hand::hello;
using by_hand::job_token;
using by_hand::knock;
using by_hand::say;
using by_hand::wait_until_joined;
using by_hand::with_token;
using processes::check_all_fine;
using processes::contains;
using processes::free_port;
using processes::Outcome;
using processes::patience_s;
using processes::sleep_ms;
using processes::thrown;

std::unique_ptr<Rendezvous> join_with_token(int rank, int world, int port) {
  return Rendezvous::join(with_token(rank, world, port), patience_s);
}

long resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  long total = 0, resident = 0;
  statm >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

double cpu_seconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void limit_descriptors(rlim_t count) {
  const rlimit limit = {count, count};
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) throw std::runtime_error("setrlimit");
}

TEST_CASE("strangers at the port of rank 0 are turned away one by one, and the launch goes on") {
  const wire::Bytes announces_64_gib = [] {
    wire::Header header = wire::header_of({wire::Kind::hello, 1, 0, 2, wire::bytes_of("")});
    header.bytes = std::uint64_t{64} << 30;
    wire::Bytes bytes(sizeof(header));
    std::memcpy(bytes.data(), &header, sizeof(header));
    return bytes;
  }();
  const wire::Bytes good = hello({1, 2, job_token, "job"});
  struct Stranger {
    wire::Bytes says;
    const char* answer;  // null: the connection is closed without a word
  };
  const std::vector<Stranger> strangers = {
      {announces_64_gib, nullptr},
      {wire::encode({wire::Kind::gather, 1, 0, 0, std::make_shared<wire::Bytes>(100)}), nullptr},
      {wire::encode({wire::Kind::failure, 1, 1, 0, wire::bytes_of("all is lost")}), nullptr},
      {wire::encode({wire::Kind::joined, 1, 0, 0}), nullptr},
      {wire::encode({wire::Kind::leave, 1, 0, 0}), nullptr},
      {wire::encode({wire::Kind::hello, 1, 0, 2, wire::bytes_of("xy")}), nullptr},
      {hello({1, 2, "", "job"}), "another launch token"},
      {hello({1, 2, "0123456789abcdeg", "job"}), "another launch token"},
      {hello({1, 2, std::string(job_token) + job_token, "job"}), "another launch token"},
      {hello({1, 2, job_token, "another"}), "belongs to another launch"},
      {hello({1, 3, job_token, "job"}), "counts 3 processes, rank 0 counts 2"},
      {hello({1, ~std::uint64_t{0}, job_token, "job"}), "counts 18446744073709551615 processes"},
      {hello({2, 2, job_token, "job"}), "there is no rank 2"},
      {hello({0, 2, job_token, "job"}), "there is no rank 0"},
      {wire::Bytes(8, std::byte{'G'}), nullptr},
      {wire::Bytes(good.begin(), good.begin() + 20), nullptr},  // half a header, then silence
      {wire::Bytes(good.begin(), good.end() - 1), nullptr},     // all but the last byte
  };
  const int port = free_port();
  const auto outcomes = processes::run(2, [&](int rank, Outcome& own) {
    if (rank == 0) {
      const long before = resident_bytes();
      const auto meeting = join_with_token(0, 2, port);
      meeting->barrier(patience_s);
      own.values[0] = static_cast<double>(resident_bytes() - before);
      return;
    }
    std::vector<std::thread> at_once;
    std::vector<std::string> wrong(strangers.size());
    for (std::size_t i = 0; i < strangers.size(); ++i)
      at_once.emplace_back([&, i] {
        const Stranger& stranger = strangers[i];
        wire::Connection connection(knock(port), wire::Sender::host);
        say(connection.socket(), stranger.says);
        const auto frames = hear(connection);
        if (stranger.answer == nullptr
                ? !frames.empty()
                : frames.size() != 1 || frames[0].kind != wire::Kind::refuse ||
                      wire::text_of(frames[0]).find(stranger.answer) == std::string::npos)
          wrong[i] = "stranger " + std::to_string(i) + " heard " +
                     (frames.empty() ? "nothing" : wire::text_of(frames[0]));
      });
    for (std::thread& thread : at_once) thread.join();
    for (const std::string& each : wrong)
      if (!each.empty()) throw std::logic_error(each);
    join_with_token(1, 2, port)->barrier(patience_s);
  });
  check_all_fine(outcomes);
  CHECK(outcomes[0].values[0] < 16 << 20);
}

// Ranks 1 and 2 join while 60 connections, more than rank 0 keeps waiting at once, say nothing.
void join_among_silent(bool few_descriptors) {
  const int port = free_port();
  const auto outcomes = processes::run(3, [&](int rank, Outcome& own) {
    if (rank == 0) {
      if (few_descriptors) limit_descriptors(24);
      const double before_s = cpu_seconds();
      const auto meeting = join_with_token(0, 3, port);
      meeting->barrier(patience_s);
      own.values[0] = cpu_seconds() - before_s;
      return;
    }
    std::vector<wire::Socket> silent;
    if (rank == 1) {
      for (int i = 0; i < 60; ++i) silent.push_back(knock(port));
      sleep_ms(300);
    } else {
      sleep_ms(150);  // the silent ones are there already, rank 1 is not
    }
    const auto meeting = join_with_token(rank, 3, port);
    meeting->barrier(patience_s);
  });
  check_all_fine(outcomes);
  CHECK(outcomes[0].values[0] < 0.15);  // it waited about half a second, and mostly slept
}

TEST_CASE("silent connections do not keep real ranks out") {
  join_among_silent(false);
}

// Not under the sanitizers: to look at memory they open a pipe, and report an error when they get none.
TEST_CASE("long: silent connections do not keep real ranks out where descriptors are few") {
  join_among_silent(true);
}

TEST_CASE("without a descriptor for a connection rank 0 waits, does not spin, and goes on when it has one") {
  const int port = free_port();
  const auto outcomes = processes::run(2, [&](int rank, Outcome& own) {
    if (rank == 1) {
      join_with_token(1, 2, port)->barrier(patience_s);
      return;
    }
    std::unique_ptr<Rendezvous> meeting;
    std::thread joining([&] { meeting = join_with_token(0, 2, port); });
    // All descriptors that there may be are in use, but those of the listener and the service thread.
    std::vector<wire::Socket> held;
    limit_descriptors(64);
    sleep_ms(20);
    for (int descriptor = ::dup(0); descriptor >= 0; descriptor = ::dup(0)) held.emplace_back(descriptor);
    const double before_s = cpu_seconds();
    sleep_ms(1000);
    own.values[0] = cpu_seconds() - before_s;
    held.clear();
    joining.join();
    meeting->barrier(patience_s);
  });
  check_all_fine(outcomes);
  CHECK(outcomes[0].values[0] < 0.3);
}

TEST_CASE("who is silent, or says its hello byte by byte, is dropped after a while") {
  const int port = free_port();
  const auto outcomes = processes::run(3, [&](int process, Outcome&) {
    if (process == 0) Rendezvous::join(with_token(0, 2, port), 6);
    wire::Connection connection(knock(port), wire::Sender::host);
    if (process == 1) {
      if (!hear(connection).empty()) throw std::logic_error("an answer");
      return;
    }
    const wire::Bytes whole = hello({1, 2, job_token, std::string(1000, 'j')});
    std::vector<wire::Frame> frames;
    for (const std::byte byte : whole) {
      say(connection.socket(), {byte});
      sleep_ms(10);
      if (!connection.read(frames)) return;
    }
    throw std::logic_error("heard to the end");
  });
  CHECK(thrown(outcomes[0]) == "RendezvousTimeout");
  CHECK(contains(outcomes[0], "somebody connected and said nothing"));
  CHECK(thrown(outcomes[1]) == "");
  CAPTURE(outcomes[2].text);
  CHECK(thrown(outcomes[2]) == "");
}

TEST_CASE("a crowd of strangers makes a short message") {
  const int port = free_port();
  const auto outcomes = processes::run(2, [&](int rank, Outcome&) {
    if (rank == 0) Rendezvous::join(with_token(0, 2, port), 1.5);
    for (std::uint64_t i = 0; i < 200; ++i) {
      wire::Connection connection(knock(port), wire::Sender::host);
      say(connection.socket(), hello({1, i + 3, job_token, "job"}));
      hear(connection);
    }
  });
  CHECK(thrown(outcomes[0]) == "RendezvousTimeout");
  CHECK(contains(outcomes[0], "counts 3 processes"));
  CHECK(std::string(outcomes[0].text).size() < sizeof(Outcome::text));
}

// A member knows the token, and may still be faulty. It is named, and nobody else goes down with a crash.
TEST_CASE("a faulty member is named by all others") {
  const auto header_with = [](wire::Kind kind, auto&& change) {
    wire::Header header = wire::header_of({kind, 2, 0, 0});
    change(header);
    wire::Bytes bytes(sizeof(header));
    std::memcpy(bytes.data(), &header, sizeof(header));
    return bytes;
  };
  const auto nothing = [](wire::Header&) {};
  struct Fault {
    wire::Bytes says;
    std::string type;
    std::string text;
  };
  const std::vector<Fault> faults = {
      {header_with(wire::Kind::gather, [](wire::Header& h) { h.bytes = (std::uint64_t{64} << 30) + 1; }),
       "RendezvousError", "are the most"},
      {header_with(wire::Kind::barrier, [](wire::Header& h) { h.bytes = 8; }), "RendezvousError",
       "0 are the most"},
      {header_with(wire::Kind::barrier, [](wire::Header& h) { h.rank = 1; }), "RendezvousError",
       "rank 2 sent a message of rank 1"},
      {header_with(wire::Kind::leave, [](wire::Header& h) { h.rank = 1; }), "RendezvousError",
       "rank 2 sent a message of rank 1"},
      {header_with(wire::Kind::barrier, [](wire::Header& h) { h.rank = 77; }), "RendezvousError",
       "rank 2 sent a message of rank 77"},
      {header_with(wire::Kind::failure, [](wire::Header& h) { h.rank = 77; }), "RendezvousError",
       "rank 2 sent a message of rank 77"},
      {header_with(wire::Kind::failure, [](wire::Header& h) { h.detail = 9; }), "RendezvousError",
       "unknown cause 9"},
      {header_with(wire::Kind::joined, nothing), "RendezvousError", "rank 2"},
      {header_with(wire::Kind::barrier, [](wire::Header& h) { h.sequence = 5; }), "RendezvousError",
       "message 5 of rank 2 where 0 was due"},
      {hello({2, 3, job_token, "job"}), "RendezvousError", "which is not due"},
      // It sends half of the bytes that its header announced, and closes.
      {header_with(wire::Kind::gather, [](wire::Header& h) { h.bytes = std::uint64_t{1} << 30; }), "PeerLost",
       "rank 2 is gone"},
      {{}, "PeerLost", "rank 2 is gone"},
  };
  for (const Fault& fault : faults) {
    CAPTURE(fault.text);
    CAPTURE(&fault - faults.data());
    const int port = free_port();
    const auto outcomes = processes::run(3, [&](int rank, Outcome& own) {
      if (rank < 2) {
        const auto meeting = join_with_token(rank, 3, port);
        const long before = resident_bytes();
        const auto note = [&] { own.values[0] = static_cast<double>(resident_bytes() - before); };
        try {
          meeting->barrier(patience_s);
        } catch (...) {
          note();
          throw;
        }
        return;
      }
      wire::Connection connection(knock(port), wire::Sender::host);
      say(connection.socket(), hello({2, 3, job_token, "job"}));
      wait_until_joined(connection, 3);
      say(connection.socket(), fault.says);
      if (fault.type == "PeerLost") return;
      hear(connection);
    });
    for (const int rank : {0, 1}) {
      CAPTURE(rank);
      CAPTURE(outcomes[rank].text);
      CHECK(thrown(outcomes[rank]) == fault.type);
      CHECK(contains(outcomes[rank], fault.text));
      CHECK(outcomes[rank].values[0] < 64 << 20);
    }
  }
}

TEST_CASE("a member that runs ahead of the others fills nobody's memory") {
  const int port = free_port();
  const auto outcomes = processes::run(2, [&](int rank, Outcome&) {
    if (rank == 0) {
      const auto meeting = join_with_token(0, 2, port);
      while (!meeting->poll_failure()) sleep_ms(1);
      meeting->throw_if_failed();
      return;
    }
    wire::Connection connection(knock(port), wire::Sender::host);
    say(connection.socket(), hello({1, 2, job_token, "job"}));
    wait_until_joined(connection, 2);
    for (std::uint64_t call = 0; call < 2; ++call)
      say(connection.socket(),
          wire::encode({wire::Kind::gather, 1, 0, call, std::make_shared<wire::Bytes>(10)}));
    hear(connection);
  });
  CHECK(thrown(outcomes[0]) == "RendezvousError");
  CHECK(contains(outcomes[0], "rank 1 is ahead of a call that needs all"));
}

TEST_CASE("processes of different versions both say so") {
  const int port = free_port();
  const auto outcomes = processes::run(2, [&](int process, Outcome& own) {
    if (process == 0) Rendezvous::join(with_token(0, 2, port), 2);
    wire::Connection connection(knock(port), wire::Sender::host);
    wire::Bytes bytes = hello({1, 2, job_token, "job"});
    bytes[offsetof(wire::Header, version)] = std::byte{99};
    say(connection.socket(), bytes);
    const auto frames = hear(connection);  // its header has the version; ours could read the rest, too
    own.values[0] = frames.size() == 1 && frames[0].kind == wire::Kind::refuse;
  });
  CHECK(thrown(outcomes[0]) == "RendezvousTimeout");
  CHECK(contains(outcomes[0], "another version of cplab (protocol 99, here 2)"));
  CHECK(outcomes[1].values[0] == 1);
}

}  // namespace
}  // namespace cplab
