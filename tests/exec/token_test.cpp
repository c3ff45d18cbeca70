// The launch token: where it comes from, who may know it, and what is said when it is missing or wrong.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/console.hpp"
#include "cli/execution.hpp"
#include "exec/processes/rendezvous.hpp"
#include "exec/processes/shared_token.hpp"
#include "tests/exec/peer_by_hand.hpp"
#include "tests/exec/processes.hpp"

namespace cplab {
namespace {

using by_hand::hear;
using by_hand::hello;
using by_hand::job_token;
using by_hand::knock;
using by_hand::say;
using by_hand::with_token;
using processes::contains;
using processes::free_port;
using processes::launch_of;
using processes::now_s;
using processes::Outcome;
using processes::patience_s;
using processes::sleep_ms;
using processes::thrown;

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
    if (answer.find("job") != std::string::npos || answer.find(job_token) != std::string::npos)
      throw std::logic_error("it said: " + answer);
  });
  CHECK(thrown(outcomes[0]) == "RendezvousTimeout");
  CHECK(contains(outcomes[0], "turned away: another launch token (CPLAB_TOKEN) than that of rank 0"));
  CHECK(thrown(outcomes[1]) == "");
}

TEST_CASE("ranks of one host need no token of their user's: rank 0 leaves one for its user alone") {
  const int port = free_port();
  const std::filesystem::path left =
      "/dev/shm/cplab-token-" + std::to_string(::geteuid()) + "-" + std::to_string(port);
  // What a launch that was killed left behind.
  std::ofstream(left) << "an old one";
  const auto outcomes = processes::run(3, [&](int rank, Outcome& own) {
    if (rank == 2) {  // a process that knows everything but the token
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
  for (const Outcome& outcome : outcomes) {
    CAPTURE(outcome.text);
    CHECK(thrown(outcome) == "");
  }
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
    Rendezvous::join(with_token(rank, 2, port, rank == 0 ? job_token : "another-secret-1"),
                     rank == 0 ? 1 : 0.8);
  });
  for (const Outcome& outcome : outcomes) {
    CAPTURE(outcome.text);
    CHECK(thrown(outcome) == "RendezvousTimeout");
    CHECK(contains(outcome, "another launch token (CPLAB_TOKEN) than that of rank 0"));
    CHECK_FALSE(contains(outcome, job_token));
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
        throw RendezvousError(error.what());  // the parent is told the names of these types only
      }
    });
    CAPTURE(outcomes[0].text);
    CHECK(thrown(outcomes[0]) == "RendezvousError");
    CHECK(contains(outcomes[0], setting.text));
  }
}

}  // namespace
}  // namespace cplab
