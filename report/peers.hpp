// When the peers of each communication had come, from a timeline of a plan.
#pragma once

#include <vector>

#include "derive/walk.hpp"
#include "plan/plan.hpp"
#include "report/timeline.hpp"

namespace cplab {

// By rank and operation, seconds: the latest start of an operation that it sends to or receives from
// (all_reduce, barrier: of any member), its own start included; until then it waits for a peer, from then on
// all it does is move data. 0 for other operations. The same for predicted and measured timelines, which have
// the same sizes as the plan; the starts of different ranks are on one axis, as good as its clocks.
std::vector<std::vector<double>> peers_came_s(const Plan& plan, const Timeline& timeline);

// Of those other operations the one that started last, of equal ones one that sends to it.
struct LastPeer {
  OpRef ref{0, no_operation};  // no_operation: there is none
  bool sends = false;          // a message to it; false for what begins when all members of a group are there
};
std::vector<std::vector<LastPeer>> last_peers(const Plan& plan, const Timeline& timeline);

}  // namespace cplab
