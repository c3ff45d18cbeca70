// Ring plans against hand-derived numbers: messages, bytes, FLOPs, edges, memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "algorithms/core/resolve.hpp"
#include "derive/arena.hpp"
#include "derive/memory.hpp"
#include "derive/walk.hpp"
#include "tests/algorithms/ring_plans.hpp"

using namespace cplab;
using testing::count;
using testing::find;
using testing::ring_scenario;
using testing::sent;
using testing::Shape;
using testing::word;

namespace {

bool is_ancestor(const RankPlan& rank, std::uint32_t from, std::uint32_t to) {
  std::vector<std::uint32_t> open{to};
  std::set<std::uint32_t> seen;
  while (!open.empty()) {
    const std::uint32_t i = open.back();
    open.pop_back();
    if (i == from) return true;
    if (!seen.insert(i).second) continue;
    for (const std::uint32_t before : rank.after(rank.operations[i])) open.push_back(before);
    for (std::uint32_t j = i; j-- > 0;) {
      if (rank.operations[j].lane == rank.operations[i].lane) {
        open.push_back(j);
        break;
      }
    }
  }
  return false;
}

}  // namespace

TEST_CASE("bytes on the wire: (P-1) hops of K and V forward, K, V and dK, dV backward") {
  for (const int P : {1, 2, 3, 4, 5, 8}) {
    for (const char* wire : {"fp32", "nominal"}) {
      Shape shape;
      shape.ranks = P;
      shape.lengths = {16 * P, 32 * P};
      shape.options = {{"gradient_wire_dtype", word(wire)}};
      const Plan plan = build_plan(ring_scenario(shape));
      // One rank's K and V: 48 rows x 1 head x (16 + 8) columns x 2 bytes; dK and dV 4 bytes in fp32.
      const std::int64_t kv = 48 * 24 * 2, dkv = 48 * 24 * (std::string_view(wire) == "fp32" ? 4 : 2);
      for (const RankPlan& rank : plan.ranks) {
        CHECK(sent(rank, Phase::forward) == (P - 1) * kv);
        CHECK(sent(rank, Phase::backward) == (P - 1) * (kv + dkv));
      }
    }
  }
}

TEST_CASE(
    "a tile's gradients take the memory of as many heads as it computes at a time, in the order of heads") {
  Shape shape{.ranks = 4, .heads = 10, .kv_heads = 5, .options = {{"dkv_tile_heads", count(2)}}};
  const Plan plan = build_plan(ring_scenario(shape));
  for (const RankPlan& rank : plan.ranks) {
    CHECK(find(rank, "dkv_tile")->heads == 2);
    std::vector<std::pair<int, int>> parts;
    for (const Operation& op : rank.operations)
      if (op.kind == OpKind::attend_backward) parts.emplace_back(op.head_begin, op.head_end);
    // The first tile writes into the sums. Of the three others each is 2, 2 and 1 key heads, of 2 query heads
    // each.
    const std::vector<std::pair<int, int>> tile{{0, 4}, {4, 8}, {8, 10}};
    std::vector<std::pair<int, int>> expected{{0, 10}};
    for (int v = 1; v < 4; ++v) expected.insert(expected.end(), tile.begin(), tile.end());
    CHECK(parts == expected);
  }
}

TEST_CASE("a single rank sums dq in fp32 too") {
  const auto gradients = [](const char* accumulator) {
    Shape shape{.ranks = 1, .options = {{"accumulator", word(accumulator)}}};
    return build_plan(ring_scenario(shape));
  };
  const Plan wide = gradients("fp32"), nominal = gradients("nominal");
  REQUIRE(find(wide.ranks[0], "dq_sum"));
  CHECK(find(wide.ranks[0], "dq_sum")->role == Role::wide);
  CHECK(wide.ranks[0].find(wide.ranks[0].operations.back(), Operand::rounded_dq) != nullptr);
  CHECK(find(nominal.ranks[0], "dq_sum") == nullptr);
}

TEST_CASE("FLOPs: 2(D+E) a pair and head forward, 2(3D+2E) backward, whatever the placement") {
  for (const char* placement : {"contiguous", "zigzag", "striped"}) {
    Shape shape;
    shape.placement = placement;
    shape.lengths = {64, 37};
    const Plan plan = build_plan(ring_scenario(shape));
    double flops[2] = {0, 0};
    for (const RankPlan& rank : plan.ranks)
      for (const Operation& op : rank.operations) flops[static_cast<int>(op.phase)] += op.flops;
    const double pairs = 64.0 * 65 / 2 + 37.0 * 38 / 2;
    CHECK(flops[0] == pairs * 2 * 2 * (16 + 8));
    CHECK(flops[1] == pairs * 2 * 2 * (3 * 16 + 2 * 8));
  }
}

TEST_CASE("two slots wait for the tile that read the slot, three slots for the one before") {
  for (const std::int64_t slots : {2, 3}) {
    Shape shape;
    shape.ranks = 8;
    shape.backward = false;
    shape.options = {{"kv_slots", count(slots)}};
    const Plan plan = build_plan(ring_scenario(shape));
    for (const RankPlan& rank : plan.ranks) {
      std::vector<std::uint32_t> exchanges, tiles;
      for (std::uint32_t i = 0; i < rank.operations.size(); ++i) {
        if (rank.operations[i].kind == OpKind::exchange) exchanges.push_back(i);
        if (rank.operations[i].kind == OpKind::attend) tiles.push_back(i);
      }
      REQUIRE(exchanges.size() == 7);
      REQUIRE(tiles.size() == 8);
      // Receive i fills the slot that tile i+1-slots has read (tile 0 reads the input, in no slot).
      for (std::size_t i = 0; i < exchanges.size(); ++i) {
        const auto reader = static_cast<std::int64_t>(i) + 1 - slots;
        CHECK(is_ancestor(rank, exchanges[i], tiles[i + 1]));
        if (reader > 0) CHECK(is_ancestor(rank, tiles[static_cast<std::size_t>(reader)], exchanges[i]));
        if (reader + 1 > 0 && reader + 1 < 8)
          CHECK_FALSE(is_ancestor(rank, tiles[static_cast<std::size_t>(reader + 1)], exchanges[i]));
      }
    }
  }
}

TEST_CASE("memory of the default ring, buffer by buffer") {
  // P = 4, 64 tokens, 16 rows a rank; H = 2, G = 1, D = 16, E = 8, bf16.
  const Plan plan = build_plan(ring_scenario({.backward = false}));
  const RankPlan& rank = plan.ranks[1];
  CHECK(find(rank, "q")->bytes == 16 * 2 * 16 * 2);
  CHECK(find(rank, "kv")->bytes == 16 * 24 * 2);
  CHECK(find(rank, "kv_slots")->bytes == 2 * 16 * 24 * 2);
  CHECK(find(rank, "out")->bytes == 16 * 2 * 8 * 2);
  CHECK(find(rank, "out_sum")->bytes == 16 * 2 * 8 * 4);
  CHECK(find(rank, "out_parts")->bytes == 2 * 16 * 2 * 8 * 2);
  CHECK(find(rank, "lse")->bytes == 16 * 2 * 4);
  CHECK(find(rank, "lse_parts")->bytes == 2 * 16 * 2 * 4);
  // The peak is while a tile runs and two partial results wait to be merged: every buffer but out, which
  // lives from the last cast on.
  const MemoryPlan memory = plan_memory(rank);
  CHECK(memory.live_peak_bytes == 1024 + 768 + 1536 + 1024 + 1024 + 128 + 256);
  CHECK(find(rank, "dkv") == nullptr);
}

TEST_CASE("peak memory does not grow with P at fixed rows a rank, and does with all slots") {
  std::set<std::int64_t> two;
  std::int64_t before = 0;
  for (const int P : {4, 8, 16, 32}) {
    Shape shape;
    shape.ranks = P;
    shape.lengths = {32 * P};
    const auto peak = [&] {
      std::int64_t most = 0;
      for (const RankPlan& rank : build_plan(ring_scenario(shape)).ranks)
        most = std::max(most, plan_memory(rank).live_peak_bytes);
      return most;
    };
    two.insert(peak());
    shape.backward = false;
    shape.options = {{"kv_slots", word("all")}, {"merge", word("deferred")}};
    const std::int64_t all = peak();
    CHECK(all > before);
    before = all;
  }
  CHECK(two.size() == 1);
}

TEST_CASE("a plan is the same built alone or with all ranks, and replicas take every other sample") {
  Shape shape;
  shape.lengths = {16, 24, 40};
  Scenario s = ring_scenario(shape);
  s.parallel.replicas = 2;
  s.parallel.groups = {{0, 2, 4, 6}, {7, 5, 3, 1}};
  s = resolve(s);
  const Plan plan = build_plan(s);
  REQUIRE(plan.ranks.size() == 8);
  // Replica 0 holds samples 0 and 2 (14 rows a rank), replica 1 sample 1 (6 rows).
  CHECK(find(plan.ranks[0], "q")->rows == 14);
  CHECK(find(plan.ranks[7], "q")->rows == 6);
  CHECK(plan.ranks[7].position == 0);
  CHECK(plan.ranks[1].position == 3);
  for (const RankPlan& rank : plan.ranks) {
    const RankPlan alone = build_rank(s, rank.rank);
    REQUIRE(alone.operations.size() == rank.operations.size());
    CHECK(alone.edges == rank.edges);
    CHECK(alone.parts == rank.parts);
    CHECK(alone.segments == rank.segments);
    CHECK(alone.arena_bytes == rank.arena_bytes);
  }
}

TEST_CASE("walk: every ring plan runs to its end, and a missing part is reported as blocked") {
  const auto run = [](const Plan& plan) {
    Walk walk(plan);
    std::vector<OpRef> ready;
    std::vector<Match> matched;
    walk.begin(ready);
    while (!ready.empty()) {
      const OpRef ref = ready.back();
      ready.pop_back();
      const Operation& op = plan.ranks[ref.rank].operations[ref.operation];
      if (op.parts.count == 0) {
        walk.complete(ref, ready);
        continue;
      }
      matched.clear();
      walk.post(ref, matched);
      for (const Match& m : matched) {
        if (walk.part_done(m.sender)) walk.complete(m.sender, ready);
        if (walk.part_done(m.receiver)) walk.complete(m.receiver, ready);
      }
    }
    return walk.finished() ? std::string() : walk.blocked();
  };
  for (const int P : {1, 2, 3, 7, 16}) {
    Shape shape;
    shape.ranks = P;
    CHECK(run(build_plan(ring_scenario(shape))).empty());
  }
  Plan plan = build_plan(ring_scenario({}));
  for (Operation& op : plan.ranks[2].operations)
    if (op.kind == OpKind::exchange && op.step == 1 && op.phase == Phase::forward) op.parts.count = 1;
  const std::string text = run(plan);
  CHECK(text.find("rank 2: exchange") != std::string::npos);
  CHECK(text.find("waits for its peers") != std::string::npos);
}

TEST_CASE("scenarios that cannot be are refused by key") {
  const auto key_of = [](Shape shape) -> std::string {
    try {
      ring_scenario(shape);
    } catch (const ScenarioError& error) {
      return error.key;
    }
    return "accepted";
  };
  CHECK(key_of({}) == "accepted");
  CHECK(key_of({.ranks = 0}) == "parallel.ranks");
  CHECK(key_of({.ranks = 1 << 20}) == "parallel.ranks");
  CHECK(key_of({.placement = "diagonal"}) == "parallel.placement");
  CHECK(key_of({.heads = 3, .kv_heads = 2}) == "problem.kv_heads");
  CHECK(key_of({.lengths = {8}, .padded_lengths = {7}}) == "problem.padded_lengths");
  CHECK(key_of({.lengths = {INT64_MAX / 2}}) == "problem.lengths");
  CHECK(key_of({.window = {-2, 0}}) == "problem.window");
  CHECK(key_of({.options = {{"kv_slots", count(4)}}}) == "schedule.kv_slots");
  CHECK(key_of({.options = {{"head_stride", count(4)}}}) == "schedule.head_stride");
  CHECK(key_of({.options = {{"merge", word("deferred")}, {"out_slots", count(2)}}}) == "schedule.out_slots");
  CHECK(key_of({.options = {{"merge", word("fused")}, {"out_slots", count(2)}}}) == "schedule.out_slots");
  CHECK(key_of({.options = {{"overlap", false}, {"compute_lanes", count(2)}}}) == "schedule.compute_lanes");
  CHECK(key_of({.options = {{"overlap", false}}}) == "accepted");
}

TEST_CASE("defaults: out_slots follows the merge, overlap=false has one lane") {
  CHECK(ring_scenario({}).schedule.count("out_slots") == 2);
  CHECK(ring_scenario({.options = {{"merge", word("deferred")}}}).schedule.word("out_slots") == "all");
  CHECK(ring_scenario({.options = {{"merge", word("fused")}}}).schedule.find("out_slots") == nullptr);
  CHECK(ring_scenario({.options = {{"overlap", false}}}).schedule.count("compute_lanes") == 1);
}
