// What strangers and faulty members can do to a launch: nothing but be turned away, or be named. All traffic
// is on the loopback interface.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "cli/console.hpp"
#include "cli/execution.hpp"
#include "exec/rendezvous.hpp"
#include "exec/shared_token.hpp"
#include "exec/wire.hpp"
#include "tests/exec/processes.hpp"

namespace cplab {
namespace {

using processes::free_port;
using processes::launch_of;
using processes::now_s;
using processes::Outcome;
using processes::thrown;

constexpr double patience_s = 20;
constexpr const char* token = "0123456789abcdef";

Launch with_token(int rank, int world, int port, const std::string& secret = token) {
  Launch launch = launch_of(rank, world, port);
  launch.token = secret;
  launch.job = "job";
  return launch;
}

std::unique_ptr<Rendezvous> join(int rank, int world, int port) {
  return Rendezvous::join(with_token(rank, world, port), patience_s);
}

bool contains(const Outcome& outcome, const std::string& part) {
  return std::string(outcome.text).find(part) != std::string::npos;
}

void sleep_ms(int duration) {
  std::this_thread::sleep_for(std::chrono::milliseconds(duration));
}

wire::Socket knock(int port) {
  const auto deadline = wire::Clock::now() + std::chrono::seconds(5);
  while (wire::Clock::now() < deadline) {
    std::string why;
    wire::Socket socket = wire::connect_to("127.0.0.1", port, deadline, why);
    if (socket) return socket;
    sleep_ms(5);
  }
  throw std::runtime_error("nobody listens");
}

void say(const wire::Socket& socket, const wire::Bytes& bytes) {
  [[maybe_unused]] const ssize_t written = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

wire::Bytes hello(const wire::Greeting& greeting) {
  return wire::encode(wire::greeting_frame(greeting));
}

// Reads until the other side closes; what it said as frames.
std::vector<wire::Frame> hear(wire::Connection& connection) {
  std::vector<wire::Frame> frames;
  const auto deadline = wire::Clock::now() + std::chrono::seconds(15);
  bool open = true;
  while (open && wire::Clock::now() < deadline) {
    wire::wait_for(connection.socket(), false, deadline);
    open = connection.read(frames);
  }
  if (open) throw std::logic_error("the connection was left open");
  return frames;
}

// Until rank 0 has named `world` ranks that have joined, one's own included.
void wait_until_joined(wire::Connection& connection, int world) {
  std::vector<wire::Frame> frames;
  const auto deadline = wire::Clock::now() + std::chrono::seconds(10);
  const auto joined = [&] {
    return std::count_if(frames.begin(), frames.end(),
                         [](const wire::Frame& frame) { return frame.kind == wire::Kind::joined; });
  };
  while (joined() < world && wire::Clock::now() < deadline) {
    wire::wait_for(connection.socket(), false, deadline);
    if (!connection.read(frames)) throw std::logic_error("turned away");
  }
}

void check_all_fine(const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) {
    CAPTURE(outcome.text);
    CHECK(thrown(outcome) == "");
  }
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
  const wire::Bytes good = hello({1, 2, token, "job"});
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
      {hello({1, 2, std::string(token) + token, "job"}), "another launch token"},
      {hello({1, 2, token, "another"}), "belongs to another launch"},
      {hello({1, 3, token, "job"}), "counts 3 processes, rank 0 counts 2"},
      {hello({1, ~std::uint64_t{0}, token, "job"}), "counts 18446744073709551615 processes"},
      {hello({2, 2, token, "job"}), "there is no rank 2"},
      {hello({0, 2, token, "job"}), "there is no rank 0"},
      {wire::Bytes(8, std::byte{'G'}), nullptr},
      {wire::Bytes(good.begin(), good.begin() + 20), nullptr},  // half a header, then silence
      {wire::Bytes(good.begin(), good.end() - 1), nullptr},     // all but the last byte
  };
  const int port = free_port();
  const auto outcomes = processes::run(2, [&](int rank, Outcome& own) {
    if (rank == 0) {
      const long before = resident_bytes();
      const auto meeting = join(0, 2, port);
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
    join(1, 2, port)->barrier(patience_s);
  });
  check_all_fine(outcomes);
  CHECK(outcomes[0].values[0] < 16 << 20);
}

TEST_CASE("who has another token learns nothing of the launch") {
  const int port = free_port();
  const auto outcomes = processes::run(2, [&](int rank, Outcome&) {
    if (rank == 0) {
      Rendezvous::join(with_token(0, 2, port), 1);
      return;
    }
    wire::Connection connection(knock(port), wire::Sender::host);
    say(connection.socket(), hello({1, 2, "fedcba9876543210", "guess"}));
    const std::string answer = wire::text_of(hear(connection).at(0));
    if (answer.find("job") != std::string::npos || answer.find(token) != std::string::npos)
      throw std::logic_error("it said: " + answer);
  });
  CHECK(thrown(outcomes[0]) == "RendezvousTimeout");
  CHECK(contains(outcomes[0], "turned away: another launch token (CPLAB_TOKEN) than that of rank 0"));
  CHECK(thrown(outcomes[1]) == "");
}

// More than there are places for, more than there are descriptors for.
TEST_CASE("silent connections do not keep real ranks out") {
  for (const bool few_descriptors : {false, true}) {
    CAPTURE(few_descriptors);
    const int port = free_port();
    const auto outcomes = processes::run(3, [&](int rank, Outcome& own) {
      if (rank == 0) {
        if (few_descriptors) limit_descriptors(24);
        const double before_s = cpu_seconds();
        const auto meeting = join(0, 3, port);
        meeting->barrier(patience_s);
        own.values[0] = cpu_seconds() - before_s;
        return;
      }
      std::vector<wire::Socket> silent;
      if (rank == 1) {
        for (int i = 0; i < 60; ++i) silent.push_back(knock(port));
        sleep_ms(300);
      } else {
        sleep_ms(150);  // in the middle of them
      }
      const auto meeting = join(rank, 3, port);
      meeting->barrier(patience_s);
    });
    check_all_fine(outcomes);
    CHECK(outcomes[0].values[0] < 0.15);  // it waited about half a second, and mostly slept
  }
}

TEST_CASE("without a descriptor for a connection rank 0 waits, does not spin, and goes on when it has one") {
  const int port = free_port();
  const auto outcomes = processes::run(2, [&](int rank, Outcome& own) {
    if (rank == 1) {
      join(1, 2, port)->barrier(patience_s);
      return;
    }
    std::unique_ptr<Rendezvous> meeting;
    std::thread joining([&] { meeting = join(0, 2, port); });
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
    const wire::Bytes whole = hello({1, 2, token, std::string(1000, 'j')});
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
      say(connection.socket(), hello({1, i + 3, token, "job"}));
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
      {hello({2, 3, token, "job"}), "RendezvousError", "which is not due"},
      // Half of what it announced, then gone.
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
        const auto meeting = join(rank, 3, port);
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
      say(connection.socket(), hello({2, 3, token, "job"}));
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
      const auto meeting = join(0, 2, port);
      while (!meeting->poll_failure()) sleep_ms(1);
      meeting->throw_if_failed();
      return;
    }
    wire::Connection connection(knock(port), wire::Sender::host);
    say(connection.socket(), hello({1, 2, token, "job"}));
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
    wire::Bytes bytes = hello({1, 2, token, "job"});
    bytes[offsetof(wire::Header, version)] = std::byte{99};
    say(connection.socket(), bytes);
    const auto frames = hear(connection);  // its header has the version; ours could read the rest, too
    own.values[0] = frames.size() == 1 && frames[0].kind == wire::Kind::refuse;
  });
  CHECK(thrown(outcomes[0]) == "RendezvousTimeout");
  CHECK(contains(outcomes[0], "another version of cplab (protocol 99, here 2)"));
  CHECK(outcomes[1].values[0] == 1);
}

TEST_CASE("ranks of one host need no token of their user's: rank 0 leaves one for its user alone") {
  const int port = free_port();
  const std::filesystem::path left =
      "/dev/shm/cplab-token-" + std::to_string(::geteuid()) + "-" + std::to_string(port);
  // Of a launch that was killed.
  std::ofstream(left) << "an old one";
  const auto outcomes = processes::run(3, [&](int rank, Outcome& own) {
    if (rank == 2) {  // knows all but the token
      wire::Connection connection(knock(port), wire::Sender::host);
      const double deadline_s = now_s() + 5;
      std::string why;
      while (!rendezvous::read_shared_token(port, why) && now_s() < deadline_s) sleep_ms(2);
      own.values[1] = std::filesystem::status(left).permissions() ==
                      (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
      say(connection.socket(), hello({1, 2, "", ""}));
      const auto frames = hear(connection);
      own.values[0] = frames.size() == 1 && frames[0].kind == wire::Kind::refuse;
      return;
    }
    if (rank == 1) sleep_ms(300);
    Rendezvous::join(launch_of(rank, 2, port), patience_s)->barrier(patience_s);
  });
  check_all_fine(outcomes);
  CHECK(outcomes[2].values[0] == 1);
  CHECK(outcomes[2].values[1] == 1);
  CHECK_FALSE(std::filesystem::exists(left));  // nobody needs it once all have joined
}

TEST_CASE("a token that others can read is not taken") {
  const int port = free_port();
  const std::filesystem::path left =
      "/dev/shm/cplab-token-" + std::to_string(::geteuid()) + "-" + std::to_string(port);
  std::ofstream(left) << "0123456789abcdef0123456789abcdef";
  std::string why;
  std::filesystem::permissions(left, static_cast<std::filesystem::perms>(0644));
  CHECK_FALSE(rendezvous::read_shared_token(port, why));
  CHECK(why.find("is not this user's alone; CPLAB_TOKEN") != std::string::npos);
  std::filesystem::permissions(left, static_cast<std::filesystem::perms>(0600));
  CHECK(rendezvous::read_shared_token(port, why) == "0123456789abcdef0123456789abcdef");
  std::filesystem::remove(left);
  CHECK_FALSE(rendezvous::read_shared_token(port, why));
  CHECK(why.find("no launch token of rank 0 in shared memory") != std::string::npos);
}

TEST_CASE("processes that were given different tokens say what is wrong") {
  const int port = free_port();
  const auto outcomes = processes::run(2, [&](int rank, Outcome&) {
    Rendezvous::join(with_token(rank, 2, port, rank == 0 ? token : "another-secret-1"), rank == 0 ? 1 : 0.8);
  });
  for (const Outcome& outcome : outcomes) {
    CAPTURE(outcome.text);
    CHECK(thrown(outcome) == "RendezvousTimeout");
    CHECK(contains(outcome, "another launch token (CPLAB_TOKEN) than that of rank 0"));
    CHECK_FALSE(contains(outcome, token));
    CHECK_FALSE(contains(outcome, "another-secret-1"));
  }
}

// EnvironmentError is exit code 3.
TEST_CASE("what keeps processes apart is the environment's fault, and says what to set") {
  const int port = free_port();
  struct Setting {
    std::vector<std::pair<const char*, std::string>> variables;
    const char* text;
  };
  const std::vector<std::pair<const char*, std::string>> one_host = {{"RANK", "0"},
                                                                     {"WORLD_SIZE", "2"},
                                                                     {"LOCAL_RANK", "0"},
                                                                     {"LOCAL_WORLD_SIZE", "2"},
                                                                     {"CPLAB_PORT", std::to_string(port)}};
  const auto with = [&](std::vector<std::pair<const char*, std::string>> more) {
    auto all = one_host;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::vector<Setting> settings = {
      {one_host, "rank 1 did not join at 127.0.0.1:"},
      {with({{"RANK", "2"}}), "RANK is 2; it must be from 0 to 1"},
      {with({{"WORLD_SIZE", "0"}}), "WORLD_SIZE is 0"},
      {with({{"CPLAB_TOKEN", "short"}}), "CPLAB_TOKEN has 5 characters"},
      {with({{"LOCAL_WORLD_SIZE", "1"}, {"MASTER_ADDR", "127.0.0.1"}}), "CPLAB_TOKEN is not set"},
      {with({{"RANK", "1"}, {"LOCAL_RANK", "1"}}), "rank 1 did not reach rank 0 at 127.0.0.1:"},
  };
  for (const Setting& setting : settings) {
    CAPTURE(setting.text);
    const auto outcomes = processes::run(1, [&](int, Outcome&) {
      ::unsetenv("CPLAB_TOKEN");
      for (const auto& [name, value] : setting.variables) ::setenv(name, value.c_str(), 1);
      try {
        participate(0.2);
      } catch (const EnvironmentError& error) {
        throw RendezvousError(error.what());  // a type that the parent tells from others
      }
    });
    CAPTURE(outcomes[0].text);
    CHECK(thrown(outcomes[0]) == "RendezvousError");
    CHECK(contains(outcomes[0], setting.text));
  }
}

}  // namespace
}  // namespace cplab
