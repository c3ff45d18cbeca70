// The checker on plans written by hand: right ones pass, and each single mistake of order, matching, memory
// or launch is found with its kind, rank and operation. Mistakes of contents are in check_contents_test.cpp.
#include "check/check.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/algorithms/check_expect.hpp"
#include "tests/hand_plans/attention_plans.hpp"

using namespace cplab;
using namespace cplab::hand;

namespace {

void set_parts(RankPlan& rank, Operation& op, const std::vector<Part>& parts) {
  op.parts = {static_cast<std::uint32_t>(rank.parts.size()), static_cast<std::uint32_t>(parts.size())};
  rank.parts.insert(rank.parts.end(), parts.begin(), parts.end());
}

}  // namespace

TEST_CASE("check: right plans written by hand pass") {
  for (const Direction d : {Direction::forward, Direction::forward_backward}) {
    require_right(single(12, d));
    for (const int P : {2, 3, 4, 5}) {
      require_right(ring(P, 6, Merge::incremental, d));
      require_right(ring(P, 6, Merge::deferred, d));
    }
  }
  for (const int P : {1, 2, 3, 5}) require_right(gathered(P, 4));
}

TEST_CASE("check: rounds, messages, flops and bytes of a ring") {
  constexpr int P = 4;
  constexpr std::int64_t n = 6;
  const Plan plan = ring(P, n);
  const CheckResult result = check(plan);
  CHECK(result.messages == P * (P - 1) * 3);  // KV forward, KV and dKV backward
  CHECK(result.rounds == (P - 1) + P);
  const std::int64_t kv = n * 2 * (8 + 6);
  for (std::size_t r = 0; r < P; ++r) {
    CHECK(result.sent_bytes[r] == (P - 1) * (2 * kv + 2 * kv + 4 * kv));  // dKV travels in fp32
    CHECK(result.flops[r] == double(n * n * P) * 4 * 2 * ((8 + 6) + (3 * 8 + 2 * 6)));
  }
  const CheckResult one = check(single(10));
  CHECK(one.flops[0] == 55.0 * 4 * 2 * ((8 + 6) + (3 * 8 + 2 * 6)));  // 10 x 11 / 2 causal pairs
  CHECK(one.messages == 0);
  CHECK(one.rounds == 0);
}

TEST_CASE("check: a removed edge is a race") {
  Plan plan = ring(3, 4);
  find(plan, 2, OpKind::attend, Phase::forward, 1).after = {};
  require_finding(plan, FindingKind::race, 2, "2/forward/3");
  CHECK(check(plan).findings.size() == 1);
}

TEST_CASE("check: two slots need the tile to be done before its slot is received into") {
  for (const int P : {3, 4}) {
    Plan plan = ring(P, 4, Merge::incremental, Direction::forward);
    for (RankPlan& rank : plan.ranks)
      for (Operation& op : rank.operations)
        if (op.kind == OpKind::exchange) op.after = {};
    const CheckResult result = check(plan);
    INFO(text(result));
    // The first P - 2 receives go into slots that nobody has read.
    CHECK(result.ok() == (P == 3));
    if (P == 4) CHECK(has(result, FindingKind::race, 0, "0/forward/5"));
  }
}

TEST_CASE("check: sends and receives in a cycle wait for ever") {
  Plan plan = empty_plan(3, 12, false, Direction::forward);
  for (int r = 0; r < 3; ++r) {
    Rank rank(plan, r);
    const Tensors t = tensors(plan, rank);
    const auto other = rank.buffer("other", Role::nominal, Category::working, 1, 4, 2, 14);
    rank.communicate(comm, OpKind::exchange, {send(rank.view({t.kv}), (r + 1) % 3)});
    rank.communicate(comm, OpKind::exchange, {receive(rank.view({other}), (r + 2) % 3)});
  }
  const CheckResult result = check(plan);
  INFO(text(result));
  REQUIRE(result.findings.size() == 1);
  CHECK(has(result, FindingKind::deadlock, 0, "0/forward/0"));
  CHECK(result.findings[0].message.find("0 -> 1 -> 2 -> 0") != std::string::npos);
  CHECK(result.findings[0].message.find("rank 2 waits in exchange 2/forward/0") != std::string::npos);
  // With send and receive in one exchange there is no deadlock: what is left to find are outputs that nobody
  // computes.
  for (int r = 0; r < 3; ++r) {
    RankPlan& rank = plan.ranks[static_cast<std::size_t>(r)];
    rank.operations[0].parts.count = 2;
    rank.operations.pop_back();
  }
  CHECK_FALSE(has(check(plan), FindingKind::deadlock, 0, "0/forward/0"));
}

TEST_CASE("check: buffers and values nobody uses are leaks") {
  Plan plan = ring(2, 4);
  Rank rank(plan, 1);
  rank.buffer("spare", Role::wide, Category::workspace, 1, 4, 1, 1);
  require_finding(plan, FindingKind::leak, 1, "");
  Plan computed = ring(2, 4);
  Rank zero(computed, 0);
  const auto spare = zero.buffer("spare", Role::nominal, Category::working, 1, 4, 4, 6);
  zero.copy(compute, zero.view({zero.find("out")}), zero.view({spare}));
  const std::string id = operation_id(zero.plan(), zero.plan().operations.back());
  require_finding(computed, FindingKind::leak, 0, id);
  CHECK(check(computed).findings.size() == 1);
}

TEST_CASE("check: messages that differ in size, dtype or number") {
  Plan size = ring(3, 4);
  {
    RankPlan& rank = size.ranks[2];
    const Operation& op = find(size, 2, OpKind::exchange, Phase::forward, 0);
    rank.views[rank.parts_of(op)[0].view].head_end = 1;
  }
  require_finding(size, FindingKind::unmatched, 0, "0/forward/0");

  Plan dtype = ring(3, 4);
  for (Buffer& b : dtype.ranks[1].buffers)
    if (b.name == "kv_back")
      b.role = Role::wide, b.bytes *= 2, b.offset = (dtype.ranks[1].arena_bytes += 4096) - 4096;
  require_finding(dtype, FindingKind::unmatched, 1, "1/backward/1");

  Plan missing = ring(3, 4);
  Operation& op = find(missing, 1, OpKind::exchange, Phase::forward, 0);
  set_parts(missing.ranks[1], op, {missing.ranks[1].parts_of(op)[0]});
  require_finding(missing, FindingKind::unmatched, 0, "0/forward/0");
}

TEST_CASE("check: launch order across groups") {
  const auto two = [](bool crossed) {
    Plan plan = single(8, Direction::forward);
    plan = empty_plan(2, 8, false, Direction::forward);
    plan.groups.push_back({"other", {0, 1}});
    for (int r = 0; r < 2; ++r) {
      Rank rank(plan, r);
      const Tensors t = tensors(plan, rank);
      const auto x = rank.buffer("x", Role::nominal, Category::working, 1, 4, 2, 14);
      const auto y = rank.buffer("y", Role::nominal, Category::working, 1, 4, 4, 8);
      const std::vector<Part> kv{send(rank.view({t.kv}), 1 - r), receive(rank.view({x}), 1 - r)};
      const std::vector<Part> q{send(rank.view({t.q}), 1 - r), receive(rank.view({y}), 1 - r)};
      const Lane second{LaneKind::comm, 1};
      if (crossed && r == 1) rank.communicate(second, OpKind::exchange, q, {}, 1);
      rank.communicate(comm, OpKind::exchange, kv);
      if (!crossed || r == 0) rank.communicate(second, OpKind::exchange, q, {}, 1);
    }
    return check(plan);
  };
  CHECK_FALSE(has(two(false), FindingKind::order, 0, "0/forward/1"));
  const CheckResult crossed = two(true);
  INFO(text(crossed));
  CHECK(has(crossed, FindingKind::order, 0, "0/forward/1"));
  CHECK_FALSE(
      has(crossed, FindingKind::deadlock, 0, "0/forward/0"));  // on two lanes both are posted: no deadlock
}

TEST_CASE("check: messages of one pair of ranks need an order") {
  for (const bool ordered : {true, false}) {
    Plan plan = empty_plan(2, 8, false, Direction::forward);
    for (int r = 0; r < 2; ++r) {
      Rank rank(plan, r);
      const Tensors t = tensors(plan, rank);
      const auto x = rank.buffer("x", Role::nominal, Category::working, 2, 4, 2, 14);
      std::uint32_t last = 0;
      for (std::int32_t i = 0; i < 2; ++i)
        last = rank.communicate(
            {LaneKind::comm, static_cast<std::uint8_t>(i)}, OpKind::exchange,
            {send(rank.view({t.kv}), 1 - r), receive(rank.view({x, i}), 1 - r)},
            i == 1 && ordered ? std::vector<std::uint32_t>{last} : std::vector<std::uint32_t>{});
    }
    CHECK(has(check(plan), FindingKind::order, 1, "1/forward/1") != ordered);
  }
}

TEST_CASE("check: bytes shared by buffers in use") {
  Plan plan = ring(3, 4);
  RankPlan& rank = plan.ranks[1];
  const auto buffer = [&](const char* name) -> Buffer& {
    for (Buffer& b : rank.buffers)
      if (b.name == name) return b;
    throw std::runtime_error(name);
  };
  // part_lse is used for the last time before delta is written, on the same lane: they may share bytes.
  const std::int64_t was = buffer("delta").offset;
  buffer("delta").offset = buffer("part_lse").offset;
  require_right(plan);
  // The first backward tile still reads kv_slots when it writes dkv_slots.
  buffer("delta").offset = was;
  buffer("dkv_slots").offset = buffer("kv_slots").offset;
  require_finding(plan, FindingKind::lifetime, 1, "1/backward/2");
  buffer("dkv_tile").offset = buffer("q").offset;
  require_finding(plan, FindingKind::lifetime, 1, "1/backward/4");
}

TEST_CASE("check: host_sync orders what is issued after it") {
  for (const bool waits : {false, true}) {
    Plan plan = empty_plan(1, 8, true, Direction::forward);
    Rank rank(plan, 0);
    const Tensors t = tensors(plan, rank);
    const auto copied = rank.buffer("copied", Role::nominal, Category::working, 1, 8, 2, 14);
    rank.copy({LaneKind::copy, 0}, rank.view({t.kv}), rank.view({copied}));
    rank.host_sync(waits ? Lane{LaneKind::copy, 0} : compute);
    rank.attend(compute,
                {rank.view({t.q}), keys(plan, rank, {copied}), values(plan, rank, {copied}),
                 rank.view({t.out}), rank.view({t.lse})},
                {{0, 8, 0, 8, 0, -1, 0}});
    if (waits)
      require_right(plan);
    else
      require_finding(plan, FindingKind::race, 0, "0/forward/2");
  }
}

TEST_CASE("check: collectives meet the whole group") {
  const auto three = [](int absent, OpKind other) {
    Plan plan = ring(3, 4);
    for (int r = 0; r < 3; ++r) {
      Rank rank(plan, r);
      if (r != absent) rank.communicate(comm, r == 2 ? other : OpKind::barrier, {});
    }
    return check(plan);
  };
  CHECK(three(-1, OpKind::barrier).ok());
  CHECK(three(-1, OpKind::barrier).rounds == check(ring(3, 4)).rounds + 1);
  const CheckResult absent = three(1, OpKind::barrier);
  INFO(text(absent));
  CHECK(absent.findings.size() == 1);
  CHECK(absent.findings[0].kind == FindingKind::unmatched);
  CHECK(absent.findings[0].message.find("rank 1") != std::string::npos);
  CHECK_FALSE(three(-1, OpKind::all_reduce).ok());
}

TEST_CASE("check: findings are limited and in order") {
  Plan plan = ring(4, 4);
  for (RankPlan& rank : plan.ranks)
    for (Operation& op : rank.operations) op.after = {};
  const CheckResult all = check(plan), few = check(plan, 3);
  CHECK(all.findings.size() > 3);
  CHECK(few.findings.size() == 3);
  CHECK(few.findings[0].message == all.findings[0].message);
  CHECK(text(check(plan)) == text(all));
}
