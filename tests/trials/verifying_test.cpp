// cplab verify: limits of time, inputs that see each feature, results of others.
#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/cli/program.hpp"
#include "tests/contains.hpp"
#include "tests/trials/inputs.hpp"

using cplab::testing::contains;

TEST_CASE("a time limit of verify that ran out is no finding: exit 3, with how far it came") {
  const std::vector<std::string> slow{"verify",    "faults/ring", "--set", "problem.sequence=512",
                                      "--timeout", "0.001"};
  const ProgramResult up = run_cplab(slow);
  CHECK(up.code == 3);
  CHECK(contains(up.err, "the time is up after "));
  CHECK(contains(up.err, " operations; unfinished ranks: rank 0: "));
  CHECK(contains(up.err, "/forward/"));
  CHECK(contains(up.err, "--timeout 0.001"));
  CHECK_FALSE(contains(up.err + up.out, "deadlock"));
  CHECK_FALSE(contains(up.err + up.out, "wrong:"));
  // What the checker found stands.
  std::vector<std::string> faulty = slow;
  faulty.insert(faulty.end(), {"--inject", "ring-slot-reuse"});
  const ProgramResult found = run_cplab(faulty);
  CHECK(found.code == 1);
  CHECK(contains(found.out, "race"));
  CHECK(contains(found.out, "the execution did not end: the time is up after "));
  // Where nothing can move any more it is a deadlock, and known at once.
  const ProgramResult hang = run_cplab({"verify", "faults/ring", "--inject", "dropped-receive"});
  CHECK(hang.code == 1);
  CHECK(contains(hang.out, "execution hangs: "));
}

TEST_CASE("progress off a terminal: a line now and then, none with --quiet") {
  setenv("CPLAB_TEST_PROGRESS_LINES_S", "0.05", 1);
  const std::vector<std::string> work{"verify", "ring-small", "--set", "problem.sequence=1024"};
  const ProgramResult talks = run_cplab(work);
  std::vector<std::string> quiet = work;
  quiet.push_back("--quiet");
  const ProgramResult silent = run_cplab(quiet);
  unsetenv("CPLAB_TEST_PROGRESS_LINES_S");
  CHECK(talks.code == 0);
  CHECK(contains(talks.err, ", 0 s\n"));
  CHECK_FALSE(contains(talks.err, "\033["));
  CHECK(silent.err.empty());
}
