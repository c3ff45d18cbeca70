// Which message cannot go where two GPUs have no peer access; the machine is a function here.
#include "exec/gpu/peer_access.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <utility>

#include "exec/gpu/error.hpp"
#include "tests/hand_plans/hand_plans.hpp"

namespace cplab {
namespace {

// Rank 0 sends to 1, rank 1 to 2, and 2 to 0.
Plan circle(Transport transport) {
  Plan plan = hand::ranks_in_one_group(3);
  for (int r = 0; r < 3; ++r) {
    hand::Rank rank(plan, r);
    const std::uint32_t own = rank.view(rank.buffer(hand::column("own", 4, Category::input)));
    const std::uint32_t other = rank.view(rank.buffer(hand::column("other", 4)));
    const std::uint32_t op = rank.communicate(hand::comm, OpKind::exchange,
                                              {{own, (r + 1) % 3, true}, {other, (r + 2) % 3, false}});
    rank.plan().operations[op].transport = transport;
  }
  return plan;
}

std::string access_refusal(const Plan& plan, const std::function<int(int)>& device_of,
                           const std::set<std::pair<int, int>>& missing) {
  try {
    require_peer_access(plan, device_of, [&](int from, int into) {
      return missing.count({from, into}) == 0;
    });
  } catch (const GpuError& error) {
    return error.what();
  }
  return "";
}

// Rank 0 receives the sum of what both give; or both do.
Plan summed(OpKind kind) {
  Plan plan = hand::ranks_in_one_group(2);
  for (int r = 0; r < 2; ++r) {
    hand::Rank rank(plan, r);
    const std::uint32_t own = rank.view(rank.buffer(hand::column("own", 4, Category::input)));
    const std::uint32_t sum = rank.view(rank.buffer(hand::column("sum", 4)));
    std::vector<Part> parts{{own, 0, true}};
    if (r == 0) parts.insert(parts.end(), {{sum, 0, false}, {sum, 1, false}});
    const std::uint32_t op = kind == OpKind::all_reduce ? rank.all_reduce(hand::comm, own, sum)
                                                        : rank.communicate(hand::comm, kind, parts);
    rank.plan().operations[op].transport = Transport::copy;
  }
  return plan;
}

TEST_CASE("peer access of sums: whoever sums reads, and an all_reduce also writes, both ways") {
  const auto own = [](int rank) { return rank; };
  const std::string why =
      " over the link copy, but GPU 0 has no peer access to GPU 1; schedule.transport=nccl does without";
  CHECK(access_refusal(summed(OpKind::reduce_scatter), own, {{1, 0}}) == "");
  CHECK(access_refusal(summed(OpKind::reduce_scatter), own, {{0, 1}}) ==
        "rank 0, operation 0/forward/0 sums what it receives from rank 1" + why);
  CHECK(access_refusal(summed(OpKind::all_reduce), own, {{0, 1}}) ==
        "rank 0, operation 0/forward/0 sums with rank 1" + why);
  CHECK(access_refusal(summed(OpKind::all_reduce), own, {{1, 0}}).starts_with("rank 1, "));
}

TEST_CASE("peer access") {
  const auto own = [](int rank) { return rank; };
  const Plan plan = circle(Transport::copy);
  CHECK(access_refusal(plan, own, {}) == "");
  // Only the direction that a message goes counts: nobody sends from 0 to 2.
  CHECK(access_refusal(plan, own, {{0, 2}, {1, 0}, {2, 1}}) == "");
  CHECK(access_refusal(plan, own, {{1, 2}}) ==
        "rank 1, operation 1/forward/0 sends to rank 2 over the link copy, but GPU 1 has no peer access to "
        "GPU 2; schedule.transport=nccl does without");
  SUBCASE("ranks of one GPU reach each other") {
    CHECK(access_refusal(plan, [](int) { return 0; }, {{0, 0}}) == "");
    CHECK(access_refusal(plan, [](int rank) { return rank / 2; }, {{0, 1}}).starts_with("rank 1, "));
  }
  SUBCASE("a rank out of reach is somebody else's") {
    CHECK(access_refusal(plan, [](int rank) { return rank == 2 ? -1 : rank; }, {{1, 2}, {2, 0}}) == "");
  }
  SUBCASE("NCCL does without") {
    CHECK(access_refusal(circle(Transport::nccl), own, {{0, 1}, {1, 2}}) == "");
  }
}

}  // namespace
}  // namespace cplab
