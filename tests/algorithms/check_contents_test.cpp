// The checker on plans written by hand that move, combine or normalise the wrong contents: each single
// mistake is found with its kind, rank and operation.
#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "check/check.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/algorithms/operation_changes.hpp"
#include "tests/hand_plans/attention_plans.hpp"

using namespace cplab;
using namespace cplab::hand;

namespace {

Segment& segment(Plan& plan, int rank, const Operation& op) {
  return plan.ranks[static_cast<std::size_t>(rank)].segments[op.segments.first];
}

}  // namespace

TEST_CASE("check: a tile left out, and a tile twice") {
  Plan plan = ring(3, 4);
  Operation& merge = find(plan, 1, OpKind::merge, Phase::forward, 1);
  silence(find(plan, 1, OpKind::attend, Phase::forward, 1));
  silence(merge);
  require_finding(plan, FindingKind::coverage, 1,
                  "1/backward/0");  // row_dot reads an out that lacks the keys of the missing tile
  Plan forward = ring(3, 4, Merge::incremental, Direction::forward);
  silence(find(forward, 1, OpKind::attend, Phase::forward, 1));
  silence(find(forward, 1, OpKind::merge, Phase::forward, 1));
  const CheckResult result = check(forward);
  INFO(text(result));
  REQUIRE(result.findings.size() == 2);  // out and lse
  CHECK(result.findings[0].kind == FindingKind::coverage);
  CHECK(result.findings[0].message.find("lacks 16 live") != std::string::npos);

  Plan twice = ring(3, 4);
  Operation& tile = find(twice, 1, OpKind::attend, Phase::forward, 2);
  silence(tile);
  require_finding(
      twice, FindingKind::coverage, 1,
      "1/forward/6");  // the merge takes the slot as the tile before left it: those keys count twice
}

TEST_CASE("check: stale keys") {
  Plan plan = ring(4, 4, Merge::incremental, Direction::forward);
  Operation& tile = find(plan, 0, OpKind::attend, Phase::forward, 3);
  tile.reads = find(plan, 0, OpKind::attend, Phase::forward, 2).reads;
  require_finding(plan, FindingKind::coverage, 0, "0/forward/9");
  // Under a causal mask it shows already in the attend that reads them: a segment for the right keys makes
  // other pairs visible on the stale ones.
  Plan causal = gathered(2, 4);
  for (Part& part :
       causal.ranks[1].parts) {  // rank 1 takes its own rows for those of rank 0 and the other way
    if (!part.send && part.view < causal.ranks[1].views.size() && part.peer < 2 &&
        &part < &causal.ranks[1].parts[4])
      part.peer = 1 - part.peer;
  }
  const CheckResult result = check(causal);
  INFO(text(result));
  CHECK(has(result, FindingKind::coverage, 1, "1/forward/1"));
}

TEST_CASE("check: reads of what nobody has written") {
  Plan plan = ring(2, 6, Merge::incremental, Direction::forward);
  for (int r = 0; r < 2; ++r) {  // only half of the rows travels
    RankPlan& rank = plan.ranks[static_cast<std::size_t>(r)];
    for (const Part& part : rank.parts_of(find(plan, r, OpKind::exchange, Phase::forward, 0)))
      rank.row_ranges[rank.views[part.view].ranges.first].count = 3;
  }
  require_finding(plan, FindingKind::uninitialised, 0, "0/forward/2");
  require_finding(plan, FindingKind::uninitialised, 1, "1/forward/2");

  Plan unwritten = single(8);
  silence(unwritten.ranks[0].operations[2]);
  const CheckResult result = check(unwritten);
  INFO(text(result));
  CHECK(has(result, FindingKind::uninitialised, 0, ""));  // dq and dkv
}

TEST_CASE("check: bands") {
  for (const std::int64_t by :
       {-1, 1}) {  // the diagonal is one off: masked pairs are computed, or visible ones left out
    Plan plan = gathered(3, 4);
    Operation& tile = find(plan, 2, OpKind::attend, Phase::forward, 0);
    segment(plan, 2, tile).offset += by;
    require_finding(plan, FindingKind::coverage, 2, "2/forward/1");
    const std::string message = check(plan).findings[0].message;
    CHECK(message.find(by > 0 ? "forbids" : "leaves out") != std::string::npos);
  }
  Plan bidirectional = single(8, Direction::forward);
  segment(bidirectional, 0, bidirectional.ranks[0].operations[0]).right = -1;
  require_finding(bidirectional, FindingKind::coverage, 0, "0/forward/0");
  // A window masks pairs on both sides of the diagonal.
  Plan window = single(8, Direction::forward);
  window.scenario.problem.window = {3, -1};
  require_finding(window, FindingKind::coverage, 0, "0/forward/0");
  segment(window, 0, window.ranks[0].operations[0]).left = 3;
  require_right(window);
  segment(window, 0, window.ranks[0].operations[0]).left = 2;
  require_finding(window, FindingKind::coverage, 0, "0/forward/0");
}

TEST_CASE("check: padding and other sequences") {
  Plan padding = single(8, Direction::forward);
  padding.scenario.problem.lengths = {7};
  require_finding(padding, FindingKind::coverage, 0, "0/forward/0");
  CHECK(check(padding).findings[0].message.find("padding") != std::string::npos);
  Segment& s = segment(padding, 0, padding.ranks[0].operations[0]);
  s.q_count = s.k_count = 7;
  require_right(padding);

  Plan sequences = single(8, Direction::forward);
  sequences.scenario.problem.lengths = sequences.scenario.problem.padded_lengths = {5, 3};
  require_finding(sequences, FindingKind::coverage, 0, "0/forward/0");
  CHECK(check(sequences).findings[0].message.find("across sequences") != std::string::npos);
  RankPlan& rank = sequences.ranks[0];
  rank.operations[0].segments = {static_cast<std::uint32_t>(rank.segments.size()), 2};
  rank.segments.push_back({0, 5, 0, 5, 0, -1, 0});
  rank.segments.push_back({5, 3, 5, 3, 0, -1, 0});
  require_right(sequences);
}

TEST_CASE("check: query heads go with the key heads of their group") {
  const auto halves = [](std::int32_t key_head_of_first) {
    Plan plan = empty_plan(1, 8, true, Direction::forward);
    Rank rank(plan, 0);
    const Tensors t = tensors(plan, rank);
    const Segment causal{0, 8, 0, 8, 0, -1, 0};
    for (std::int32_t half = 0; half < 2; ++half) {
      const std::int32_t head = half == 0 ? key_head_of_first : 1 - key_head_of_first;
      At q{t.q}, kv{t.kv}, out{t.out}, lse{t.lse};
      for (At* at : {&q, &out, &lse}) at->head_begin = 2 * half, at->head_end = 2 * half + 2;
      kv.head_begin = head, kv.head_end = head + 1;
      rank.attend(
          compute,
          {rank.view(q), keys(plan, rank, kv), values(plan, rank, kv), rank.view(out), rank.view(lse)},
          {causal});
    }
    return plan;
  };
  require_right(halves(0));
  require_finding(halves(1), FindingKind::coverage, 0, "0/forward/0");
  require_finding(halves(1), FindingKind::coverage, 0, "0/forward/1");
}

TEST_CASE("check: results are normalised by the keys they cover") {
  Plan plan = ring(3, 4, Merge::deferred, Direction::forward);
  // The second partial result is rescaled by the LSE of the third.
  Operation* rescale = nullptr;
  int seen = 0;
  for (Operation& op : plan.ranks[0].operations)
    if (op.kind == OpKind::merge && op.reads.count == 3 && ++seen == 2) rescale = &op;
  REQUIRE(rescale);
  RankPlan& rank = plan.ranks[0];
  rank.views[rank.accesses[rescale->reads.first + 1].view].slot_begin = 2;
  rank.views[rank.accesses[rescale->reads.first + 1].view].slot_end = 3;
  require_finding(plan, FindingKind::coverage, 0, operation_id(rank, *rescale));

  // Rescaled too early, out is normalised by the keys of two tiles only.
  Plan early = ring(2, 4, Merge::deferred, Direction::forward);
  std::vector<Operation>& list = early.ranks[1].operations;
  std::size_t fold = 0, first = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].kind == OpKind::merge && list[i].reads.count == 1) fold = i;
    if (list[i].kind == OpKind::merge && list[i].reads.count == 3 && first == 0) first = i;
  }
  std::swap(list[fold], list[first]);
  const CheckResult result = check(early);
  INFO(text(result));
  CHECK_FALSE(result.ok());
}

TEST_CASE("check: an lse filled with zero is not empty") {
  for (const double value : {-std::numeric_limits<double>::infinity(), 0.0}) {
    Plan plan = empty_plan(1, 8, true, Direction::forward);
    Rank rank(plan, 0);
    const Tensors t = tensors(plan, rank);
    rank.fill(compute, rank.view({t.out}));
    const std::uint32_t fill = rank.fill(compute, rank.view({t.lse}));
    rank.op(fill).value = value;
    rank.attend(compute,
                {rank.view({t.q}), keys(plan, rank, {t.kv}), values(plan, rank, {t.kv}), rank.view({t.out}),
                 rank.view({t.lse}), merge},
                {{0, 8, 0, 8, 0, -1, 0}});
    if (value == 0)
      require_finding(plan, FindingKind::coverage, 0, "0/forward/2");
    else
      require_right(plan);
  }
}

TEST_CASE("check: rows keep their order through a row map, strided or permuted") {
  for (const bool right : {true, false}) {
    Plan plan = empty_plan(1, 8, true, Direction::forward);
    Rank rank(plan, 0);
    const Tensors t = tensors(plan, rank);
    const auto packed = rank.buffer("packed", Role::nominal, Category::working, 1, 8, 2, 14);
    const auto sorted = rank.buffer("sorted", Role::nominal, Category::working, 1, 8, 2, 14);
    // Even rows, then odd rows; then back, once with the map and once as if it were the other way.
    const std::vector<RowRange> map{{0, 4, 2}, {1, 4, 2}}, other{{1, 4, 2}, {0, 4, 2}};
    rank.copy(compute, rank.view({t.kv}, map), rank.view({packed}));
    rank.copy(compute, rank.view({packed}), rank.view({sorted}, right ? map : other));
    rank.attend(compute,
                {rank.view({t.q}), keys(plan, rank, {sorted}), values(plan, rank, {sorted}),
                 rank.view({t.out}), rank.view({t.lse})},
                {{0, 8, 0, 8, 0, -1, 0}});
    if (right)
      require_right(plan);
    else
      require_finding(plan, FindingKind::coverage, 0, "0/forward/2");
  }
}

TEST_CASE("check: a tile must scale as the problem does") {
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    Plan plan = ring(3, 4);
    const OpKind kind = phase == Phase::forward ? OpKind::attend : OpKind::attend_backward;
    Operation& tile = find(plan, 2, kind, phase, 1);
    tile.value = 2 * logit_scale;
    require_finding(plan, FindingKind::coverage, 2, operation_id(plan.ranks[2], tile));
  }
}

TEST_CASE("check: inputs, outputs, LSEs and row sums have their dtype role, and no output is undeclared") {
  const auto changed = [](const char* name, auto change) {
    Plan plan = ring(3, 4);
    for (Buffer& buffer : plan.ranks[1].buffers) {
      if (buffer.name != name) continue;
      change(buffer);
      return plan;
    }
    FAIL("no buffer " << name);
    return plan;
  };
  const auto wrong_on_rank_1 = [](const Plan& plan) {
    const CheckResult result = check(plan);
    for (const Finding& f : result.findings)
      if (f.rank == 1 && f.kind != FindingKind::lifetime) return true;
    return false;
  };
  for (const char* name : {"q", "kv", "dout", "out", "dq", "dkv"}) {
    CAPTURE(name);
    CHECK(wrong_on_rank_1(changed(name, [](Buffer& b) { b.role = Role::wide; })));
    CHECK(wrong_on_rank_1(changed(name, [](Buffer& b) { b.role = Role::integer; })));
  }
  for (const char* name : {"lse", "delta"}) {
    CAPTURE(name);
    CHECK(wrong_on_rank_1(changed(name, [](Buffer& b) { b.role = Role::nominal; })));
    CHECK(wrong_on_rank_1(changed(name, [](Buffer& b) { b.role = Role::integer; })));
  }
  CHECK(wrong_on_rank_1(changed("delta", [](Buffer& b) { b.category = Category::output; })));
}
