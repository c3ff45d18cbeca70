// What a rank does moment by moment, by hand.
#include "report/moments.hpp"

#include <doctest/doctest.h>

#include <tuple>

#include "tests/hand_plans/hand_plans.hpp"
#include "tests/report/hand_plan.hpp"

using namespace cplab;

namespace {

using Cut = std::vector<std::tuple<double, double, std::uint32_t>>;
Cut cut(const RankPlan& rank, const std::vector<OperationTime>& times, double begin_s, double end_s) {
  Cut result;
  for (const Moment& m : moments(rank, times, begin_s, end_s))
    result.emplace_back(m.begin_s, m.end_s, m.operation);
  return result;
}

}  // namespace

TEST_CASE("moments: attention before other kernels, these before communication, the earlier of two alike") {
  Plan plan = hand::ranks_in_one_group(2, "all", DType::bf16);
  hand::Rank rank(plan, 0);
  rank.buffer(hand::column("bytes", 4));
  rank.communicate(hand::comm, OpKind::exchange, {hand::send(rank.view({0}), 1)});  // 0
  rank.operation(hand::compute, OpKind::copy, {}, {});                              // 1
  rank.operation(hand::compute, OpKind::attend, {}, {});                            // 2
  rank.communicate(hand::comm, OpKind::exchange, {hand::send(rank.view({0}), 1)});  // 3
  rank.operation(hand::compute, OpKind::host_sync, {}, {});                         // 4
  const std::vector<OperationTime> times{from_to(0, 6), from_to(1, 4), from_to(3, 5), from_to(2, 8),
                                         from_to(0, 10)};
  constexpr std::uint32_t nothing = Moment::nothing;
  // 0-1 the exchange alone, 1-3 the copy beside it, 3-5 attention, 5-6 the first exchange again (the second
  // is under way too), 6-8 the second, 8-9 nothing: the host waits, which is no work of the rank
  CHECK(cut(plan.ranks[0], times, 0, 9) ==
        Cut{{0, 1, 0}, {1, 3, 1}, {3, 5, 2}, {5, 6, 0}, {6, 8, 3}, {8, 9, nothing}});
  // A stretch inside: its ends cut what is under way.
  CHECK(cut(plan.ranks[0], times, 4, 5.5) == Cut{{4, 5, 2}, {5, 5.5, 0}});
  CHECK(cut(plan.ranks[0], times, 9, 10) == Cut{{9, 10, nothing}});
  CHECK(cut(plan.ranks[0], times, 4, 4).empty());
}
