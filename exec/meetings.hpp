// The collectives of a plan as what all their members do together: which bytes are gathered, which are
// summed, and whether that is one call of a communication library. The same on every rank, from the plan
// alone.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "calls/kernel_call.hpp"
#include "derive/walk.hpp"
#include "exec/plan_messages.hpp"
#include "kernels/kernels.hpp"
#include "plan/plan.hpp"

namespace cplab {

// `bytes` at from[m] of member m go to every member; member r has them at into[r] + m * bytes.
struct Gather {
  std::vector<Place> from, into;
  std::int64_t bytes = 0;
};

// `bytes` at from[m] of member m, summed (or their maximum) over all members. `root` >= 0: into[0] of that
// member takes the result; else every member m has it at into[m].
struct Sum {
  std::vector<Place> from, into;
  std::int64_t bytes = 0;
  kernels::DType dtype = kernels::DType::fp32;
  int root = -1;
};

// One collective: the k-th of its group, in program order, on every member.
struct Meeting {
  OpKind kind = OpKind::barrier;
  Transport transport = Transport::nccl;
  Reduction reduction = Reduction::sum;
  std::uint16_t group = 0;
  std::vector<OpRef> members;  // in group order
  // all_gather: not empty if every message of it is part of a Gather. Otherwise messages carry it.
  std::vector<Gather> gathers;
  // reduce_scatter, all_reduce. `scattered`: the sums come in runs of one for each root, in group order, of
  // equal bytes, and what a member gives to them lies one behind the other.
  std::vector<Sum> sums;
  bool scattered = false;
};

// all_gather, reduce_scatter, all_reduce and barrier, except those that not all members have or whose parts
// have no counterpart: they never complete. Throws BadPlan where members do not fit each other.
std::deque<Meeting> plan_meetings(const Plan&, const std::deque<PlanMessage>&,
                                  const std::vector<std::vector<PostedParts>>&);

// Bytes [begin, end) of an all_reduce of `bytes` that member `member` of `members` sums for all of them:
// equal shares in multiples of 16 bytes, the last shorter.
struct Share {
  std::int64_t begin = 0, end = 0;
};
Share share_of(std::int64_t bytes, std::size_t members, std::size_t member);

// The NCCL call that carries a communication operation; `meeting` null: it is in none.
std::string_view nccl_call(OpKind, const Meeting* meeting);
// The same for the link copy.
std::string_view copy_call(OpKind);

}  // namespace cplab
