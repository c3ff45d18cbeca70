// Processes for tests: forked, each with its rank; what became of each is read by the parent afterwards.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/processes/launch.hpp"
#include "exec/processes/rendezvous.hpp"
#include "tests/contains.hpp"

namespace cplab::processes {

// How a process ended. The body fills in `values` and `text` if it wants to; an exception that leaves the
// body gives `thrown` (the type's name), `text` (what()) and `ranks` (the rank or ranks it names).
struct Outcome {
  bool ended = false;  // the body returned or threw; false: killed
  char thrown[32] = {};
  char text[512] = {};
  int ranks[8] = {};
  int rank_count = 0;
  double values[8] = {};
  double finished_s = 0;  // now_s() when the body ended
};

// Seconds of a clock that all processes of the host share.
double now_s();

// Forks one process per body and waits for all. At most `limit_s`: what still runs then is killed, which
// shows as not ended.
using Body = std::function<void(Outcome& own)>;
std::vector<Outcome> run(const std::vector<Body>& bodies, double limit_s = 60);
// The same body for ranks 0 .. count - 1.
std::vector<Outcome> run(int count, const std::function<void(int rank, Outcome& own)>& body);

// A port of this host that nobody uses, outside the range that the kernel hands out.
int free_port();
Launch launch_of(int rank, int world, int port);

std::string thrown(const Outcome& outcome);  // "" for none, "killed" for one that did not end
using testing::contains;
bool contains(const Outcome& outcome, const std::string& part);  // in its text
// CHECKs that no process threw or was killed.
void check_all_fine(const std::vector<Outcome>& outcomes);

// How long a call may wait for others where all of them come: far longer than it takes, so that only what
// never comes fails a test.
inline constexpr double patience_s = 20;
std::unique_ptr<Rendezvous> join(int rank, int world, int port);
void sleep_ms(int duration);

}  // namespace cplab::processes
