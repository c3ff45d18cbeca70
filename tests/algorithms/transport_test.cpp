// Which transport, lane and channels messages get, on machines written down by hand.
#include <doctest/doctest.h>

#include <cstdlib>

#include "algorithms/core/build.hpp"
#include "algorithms/core/builder.hpp"
#include "check/check.hpp"
#include "plan/islands.hpp"
#include "tests/algorithms/scenarios.hpp"

using namespace cplab;

namespace {

Scenario ring_of_four(const std::string& transport, std::vector<int> islands) {
  Scenario s = testing::scenario({.ranks = 4,
                                  .backward = false,
                                  .options = {{"transport", transport}, {"rotation", std::string("whole")}},
                                  .algorithm = "ring"});
  s.parallel.islands = std::move(islands);
  return s;
}

std::int64_t messages_over(const Plan& plan, Transport transport) {
  for (const TransportUse& use : transports_of(plan))
    if (use.transport == transport) return use.messages;
  return 0;
}

}  // namespace

TEST_CASE("islands: a rank joins the first whose members it all reaches, and they it") {
  // GPUs in a row that reach their neighbours alone: 0 1 | 2 3 | 4.
  const auto neighbours = [](int a, int b) { return std::abs(a - b) <= 1; };
  CHECK(islands_of(5, neighbours) == std::vector<int>{0, 0, 1, 1, 2});
  // One direction is not enough.
  CHECK(islands_of(2, [](int a, int b) { return a < b; }) == std::vector<int>{0, 1});
  CHECK(islands_of_nodes(5, 2) == std::vector<int>{0, 0, 1, 1, 2});
}

TEST_CASE("auto: without a word about nodes all ranks share one, and everything is copied") {
  const Plan plan = build_plan(ring_of_four("auto", {}));
  CHECK(messages_over(plan, Transport::copy) == 12);  // P (P - 1)
  CHECK(messages_over(plan, Transport::nccl) == 0);
  for (const RankPlan& rank : plan.ranks)
    for (const Operation& op : rank.operations) CHECK(op.lane.index < beside_copies);
}

TEST_CASE("auto: of a ring over two nodes of two, half of the hops are copies and half go over nccl") {
  const Plan plan = build_plan(ring_of_four("auto", {0, 0, 1, 1}));
  // 3 hops; in each 0 -> 1 and 2 -> 3 stay in a node, 1 -> 2 and 3 -> 0 leave it.
  CHECK(messages_over(plan, Transport::copy) == 6);
  CHECK(messages_over(plan, Transport::nccl) == 6);
  const std::vector<TransportUse> uses = transports_of(plan);
  REQUIRE(uses.size() == 2);
  CHECK(uses[0].bytes == uses[1].bytes);
  CHECK(uses[0].operations == 12);  // a send and a receive are operations of two ranks
  for (const RankPlan& rank : plan.ranks) {
    for (const Operation& op : rank.operations) {
      if (!is_communication(op.kind)) continue;
      CHECK(op.parts.count == 1);
      CHECK(op.lane.index == (op.transport == Transport::nccl ? beside_copies : 0));
    }
  }
  CHECK(check(plan).ok());
}

TEST_CASE("auto: GPUs that do not reach each other use nccl alone, on the lane of the schedule") {
  const Plan plan = build_plan(ring_of_four("auto", {0, 1, 2, 3}));
  CHECK(messages_over(plan, Transport::nccl) == 12);
  for (const RankPlan& rank : plan.ranks)
    for (const Operation& op : rank.operations) CHECK(op.lane.index < beside_copies);
}

TEST_CASE("a transport that is asked for is taken, whatever the machine") {
  CHECK(messages_over(build_plan(ring_of_four("nccl", {})), Transport::nccl) == 12);
  CHECK(messages_over(build_plan(ring_of_four("copy", {0, 1, 2, 3})), Transport::copy) == 12);
}

TEST_CASE("sums over more members than the link copy takes go over nccl") {
  Parallel parallel;
  std::vector<int> ranks(most_summed_by_copy);
  for (int i = 0; i < most_summed_by_copy; ++i) ranks[static_cast<std::size_t>(i)] = i;
  CHECK(transport_within(parallel, OpKind::all_reduce, ranks) == Transport::copy);
  ranks.push_back(most_summed_by_copy);
  CHECK(transport_within(parallel, OpKind::all_reduce, ranks) == Transport::nccl);
  CHECK(transport_within(parallel, OpKind::all_gather, ranks) == Transport::copy);
}

TEST_CASE(
    "an attention kernel waits for the start of what goes over nccl beside it, unless it has no head start") {
  for (const std::int64_t head_start : {0, 7}) {
    Scenario s = ring_of_four("nccl", {});
    s.schedule.set("head_start_us", head_start);
    for (const RankPlan& rank : build_plan(s).ranks) {
      int waits = 0;
      for (const Operation& op : rank.operations) {
        for (const std::uint32_t edge : rank.after_started(op)) {
          CHECK(op.kind == OpKind::attend);
          CHECK(rank.operations[edge].kind == OpKind::exchange);
          CHECK(rank.operations[edge].step == op.step);
          ++waits;
        }
      }
      CHECK(waits == (head_start > 0 ? 3 : 0));  // the last tile has no exchange beside it
    }
  }
}

TEST_CASE("channels: what the option says, by default NCCL's own choice") {
  Scenario s = ring_of_four("nccl", {});
  for (const int channels : {0, 8}) {
    if (channels > 0) s.schedule.set("channels", std::int64_t{channels});
    for (const RankPlan& rank : build_plan(s).ranks)
      for (const Operation& op : rank.operations)
        CHECK(op.channels == (op.kind == OpKind::exchange ? channels : 0));
  }
}

TEST_CASE("channels: both ends must say the same number, and only what goes over nccl has any") {
  Scenario s = ring_of_four("nccl", {});
  s.schedule.set("channels", std::int64_t{4});
  const auto first = [](RankPlan& rank) -> Operation& {
    for (Operation& op : rank.operations)
      if (op.kind == OpKind::exchange) return op;
    FAIL("no exchange");
    return rank.operations.front();
  };
  Plan plan = build_plan(s);
  CHECK(check(plan).ok());
  first(plan.ranks[2]).channels = 8;
  const CheckResult other = check(plan);
  REQUIRE(!other.ok());
  CHECK(other.findings.front().kind == FindingKind::unmatched);
  plan = build_plan(s);
  for (RankPlan& rank : plan.ranks)
    for (Operation& op : rank.operations) op.transport = Transport::copy;
  CHECK(!check(plan).ok());
}

TEST_CASE("a message that one end sends as a copy and the other receives over nccl is found") {
  Plan plan = build_plan(ring_of_four("auto", {0, 0, 1, 1}));
  for (Operation& op : plan.ranks[1].operations) {
    if (op.kind != OpKind::exchange || op.transport != Transport::nccl) continue;
    op.transport = Transport::copy;
    op.channels = 0;
    break;
  }
  const CheckResult result = check(plan);
  REQUIRE(!result.ok());
  CHECK(result.findings.front().kind == FindingKind::unmatched);
}
