// Tasks on several processes: which of them are done, and what becomes of a process that ends in one.
#include "cli/sweep/workers.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace cplab;

namespace {

using Clock = std::chrono::steady_clock;

struct Outcome {
  std::map<std::int64_t, std::string> done, lost;
  double seconds = 0;
};

// `work` on so many processes, which are asked five times a second whether they are there.
Outcome outcome_of(const std::vector<std::vector<std::int64_t>>& groups, int processes,
                   const std::function<std::string(std::int64_t)>& work) {
  Outcome outcome;
  WorkerCalls calls;
  calls.work = work;
  calls.done = [&](std::int64_t number, std::string result) { outcome.done[number] = std::move(result); };
  calls.lost = [&](std::int64_t number, std::string why) { outcome.lost[number] = std::move(why); };
  calls.waiting = [] {};
  const auto begin = Clock::now();
  work_in_processes(groups, processes, calls);
  outcome.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return outcome;
}

std::string twice(std::int64_t number) {
  return std::to_string(2 * number);
}

}  // namespace

TEST_CASE("every task is done once, whatever the number of processes") {
  for (const int processes : {1, 2, 7, 50}) {
    const Outcome outcome = outcome_of({{1, 2, 3}, {4}, {}, {5, 6}}, processes, twice);
    CHECK(outcome.lost.empty());
    CHECK(outcome.done ==
          std::map<std::int64_t, std::string>{{1, "2"}, {2, "4"}, {3, "6"}, {4, "8"}, {5, "10"}, {6, "12"}});
  }
}

TEST_CASE("a process that ends in a task is replaced, and the task is lost with the reason") {
  const Outcome outcome = outcome_of({{1, 2, 3, 4, 5}}, 2, [](std::int64_t number) {
    if (number == 2) ::raise(SIGKILL);
    if (number == 4) ::_exit(9);
    return twice(number);
  });
  CHECK(outcome.done == std::map<std::int64_t, std::string>{{1, "2"}, {3, "6"}, {5, "10"}});
  REQUIRE(outcome.lost.size() == 2);
  CHECK(outcome.lost.at(2).find("ended by signal 9") != std::string::npos);
  CHECK(outcome.lost.at(4).find("ended with code 9") != std::string::npos);
}

// As a process of another sweep of the same program has, which was forked when the socket was open here.
TEST_CASE("that its socket is open elsewhere does not hide that a process has ended") {
  const Outcome outcome = outcome_of({{1, 2, 3}}, 1, [](std::int64_t number) {
    if (number == 2) {
      if (::fork() == 0) {
        for (int file = 0; file < 3; ++file) ::close(file);  // CTest waits for these
        ::sleep(8);
        ::_exit(0);
      }
      ::raise(SIGKILL);
    }
    return twice(number);
  });
  CHECK(outcome.done == std::map<std::int64_t, std::string>{{1, "2"}, {3, "6"}});
  CHECK(outcome.lost.count(2) == 1);
  CHECK(outcome.seconds < 6);
}
