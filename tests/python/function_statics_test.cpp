// Statics of functions as the Python module makes them (python/function_statics.cpp), beside forks and
// threads.
#include <doctest/doctest.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <thread>

namespace {

using namespace std::chrono_literals;

// The exit code of a forked process that runs `work`; -1 if it does not end within ten seconds.
int code_of_forked(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  for (int i = 0; i < 1000; ++i) {
    if (::waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
    std::this_thread::sleep_for(10ms);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return -1;
}

std::atomic<bool> begun = false;

int slowly(int value) {
  begun = true;
  std::this_thread::sleep_for(300ms);
  return value;
}

int made_slowly() {
  static const int made = slowly(7);
  return made;
}

int throws_once() {
  static int calls = 0;
  if (++calls == 1) throw std::runtime_error("the first time");
  return calls;
}

int made_at_last() {
  static const int made = throws_once();
  return made;
}

int outer() {
  static const int made = 10 * made_at_last();
  return made;
}

int made_by_one() {
  static std::atomic<int> times = 0;
  static const int made = slowly(++times);
  return made;
}

}  // namespace

TEST_CASE("a process that is forked while another thread makes a static finds it made") {
  begun = false;
  std::thread maker([] { made_slowly(); });
  while (!begun) std::this_thread::yield();
  CHECK(code_of_forked([] { return made_slowly(); }) == 7);
  maker.join();
  CHECK(made_slowly() == 7);
}

TEST_CASE("what throws is made by the next call, and may be made within another") {
  CHECK_THROWS_AS(made_at_last(), std::runtime_error);
  CHECK(outer() == 20);
  CHECK(made_at_last() == 2);
}

TEST_CASE("a forked process makes statics of its own, and forks") {
  CHECK(code_of_forked([] { return code_of_forked([] { return made_by_one() + 3; }) + 1; }) == 5);
}

TEST_CASE("threads that come together make it once") {
  std::atomic<int> sum = 0;
  std::thread first([&] { sum += made_by_one(); }), second([&] { sum += made_by_one(); });
  first.join();
  second.join();
  CHECK(sum == 2);
}
