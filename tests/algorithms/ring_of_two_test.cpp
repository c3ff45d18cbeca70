// Rings of two ranks: what their defaults save, and rows that travel in parts.
#include <doctest/doctest.h>

#include "derive/memory.hpp"
#include "tests/algorithms/ring_plans.hpp"

using namespace cplab;
using testing::count;
using testing::find;
using testing::ring_scenario;
using testing::sent;
using testing::Shape;
using testing::word;

TEST_CASE(
    "two ranks with long rows: one slot of K and V, the gradients rounded once, and no pass over them") {
  // n rows a rank, 4 heads of 16 + 8 in bf16: K and V take s = n x 4 x 24 x 2 bytes, and so do their
  // gradients. When the first half of the other rank's gradients goes there are: inputs q, kv, dout; out,
  // lse, delta; the other rank's K and V (s), dq in fp32, gradients of the other rank's (s) and the own ones
  // (s).
  Shape shape{.ranks = 2, .lengths = {32768}, .heads = 4, .kv_heads = 4};
  const Plan plan = build_plan(ring_scenario(shape));
  const Schedule& o = plan.scenario.schedule;
  CHECK(o.is_word("own_kv", "keep"));
  CHECK(o.is_word("gradient_sum", "fused"));
  CHECK(o.is_word("gradient_wire_dtype", "nominal"));
  CHECK(o.count("parts") == 2);
  const std::int64_t n = 16384, kv = n * 4 * 24 * 2;
  const std::int64_t peak = n * 4 * (16 * 2 + 8 * 2 + 8 * 2 + 4 + 4 + 16 * 4) + 4 * kv;
  for (const RankPlan& rank : plan.ranks) {
    CHECK(find(rank, "dkv_tile") == nullptr);
    CHECK(find(rank, "kv_slots_backward") == nullptr);
    CHECK(plan_memory(rank).live_peak_bytes == peak);
    CHECK(rank.arena_bytes == peak);
  }
  // Rank 0 holds chunks 0 and 3 and sees all keys of rank 1, which sees chunk 0 alone.
  CHECK(sent(plan.ranks[0], Phase::backward) == kv);
  CHECK(sent(plan.ranks[1], Phase::backward) == kv / 2);
  // In fp32 apart: two slots of twice the size, and half a tile's gradients in the memory of K and V.
  shape.options = {{"gradient_sum", word("apart")}};
  const Plan apart = build_plan(ring_scenario(shape));
  CHECK(apart.scenario.schedule.count("dkv_tile_heads") == 2);
  for (const RankPlan& rank : apart.ranks) {
    CHECK(find(rank, "dkv_tile")->heads == 2);
    CHECK(plan_memory(rank).live_peak_bytes == peak + 2 * kv);
    CHECK(sent(rank, Phase::backward) == 2 * kv);  // gradients alone, in fp32
  }
  // Grouped heads: a tile of its own sums the query heads in fp32.
  const Scenario grouped = ring_scenario({.ranks = 2, .lengths = {32768}, .heads = 4, .kv_heads = 2});
  CHECK(grouped.schedule.is_word("gradient_sum", "apart"));
  CHECK(grouped.schedule.is_word("own_kv", "keep"));
  // Shorter rows, a longer ring, layers between: as TransformerEngine does it.
  for (int other = 0; other < 3; ++other) {
    Shape changed{.ranks = 2, .lengths = {32768}, .heads = 4, .kv_heads = 4};
    if (other == 0) changed.lengths = {5116};  // 2558 rows a rank; from 2560 on
    if (other == 1) changed.ranks = 3, changed.lengths = {98304};
    if (other == 2) changed.options = {{"between", word("layers")}};
    const Scenario s = ring_scenario(changed);
    CHECK(s.schedule.is_word("own_kv", "receive"));
    CHECK(s.schedule.is_word("gradient_sum", "apart"));
    CHECK(s.schedule.is_word("gradient_wire_dtype", "fp32"));
    CHECK(s.schedule.count("dkv_tile_heads") == 0);
    CHECK(s.schedule.count("parts") == 1);
  }
}

TEST_CASE("two ranks merge inside the kernel, into an out of the problem's dtype") {
  // The one partial result that is rounded is the first, not the second.
  const Plan plan = build_plan(ring_scenario({.ranks = 2, .lengths = {16384}, .backward = false}));
  CHECK(plan.scenario.schedule.is_word("merge", "fused"));
  CHECK(ring_scenario({.ranks = 2, .lengths = {64}}).schedule.is_word("merge", "fused"));
  CHECK(ring_scenario({.ranks = 3, .lengths = {16380}}).schedule.is_word("merge", "incremental"));
  for (const RankPlan& rank : plan.ranks) {
    CHECK(find(rank, "out_sum") == nullptr);
    CHECK(find(rank, "out_parts") == nullptr);
    std::vector<OpKind> kinds;
    for (const Operation& op : rank.operations) kinds.push_back(op.kind);
    CHECK(kinds == std::vector<OpKind>{OpKind::exchange, OpKind::attend, OpKind::attend});
    CHECK(rank.mode_of(rank.operations[1], Operand::out) == WriteMode::store);
    CHECK(rank.mode_of(rank.operations[2], Operand::out) == WriteMode::merge);
  }
  // Who asks for fp32, or for slots of partial results, gets them.
  const Plan wide = build_plan(ring_scenario(
      {.ranks = 2, .lengths = {16384}, .backward = false, .options = {{"accumulator", word("fp32")}}}));
  CHECK(find(wide.ranks[0], "out_sum")->role == Role::wide);
  const Plan slots = build_plan(ring_scenario(
      {.ranks = 2, .lengths = {16384}, .backward = false, .options = {{"out_slots", count(1)}}}));
  CHECK(find(slots.ranks[0], "out_parts")->slots == 1);
  CHECK(find(slots.ranks[0], "out_sum")->role == Role::wide);
}

TEST_CASE("of four sequences in two parts, the first two are worked on while the others travel") {
  // 4 sequences of 32: chunks of 8, 16 rows of each at a rank, 64 in all. Rank 0 holds chunks 0 and 3, and
  // its chunk 3 sees all keys of rank 1; rank 1 sees chunk 0 of rank 0.
  Shape shape{.ranks = 2, .lengths = {32, 32, 32, 32}};
  shape.options = {
      {"parts", count(2)},      {"merge", word("fused")},        {"out_accumulator", word("nominal")},
      {"own_kv", word("keep")}, {"gradient_sum", word("fused")}, {"gradient_wire_dtype", word("nominal")}};
  const Plan plan = build_plan(ring_scenario(shape));
  struct Seen {
    OpKind kind;
    std::vector<std::int64_t> rows;  // of keys, or sent
    WriteMode mode = WriteMode::store;
    bool operator==(const Seen&) const = default;
  };
  const auto seen = [&](const RankPlan& rank, Phase phase) {
    std::vector<Seen> list;
    for (const Operation& op : rank.operations) {
      if (op.phase != phase) continue;
      const auto rows = [&](std::uint32_t view) {
        std::vector<std::int64_t> numbers;
        for (const RowRange& range : rank.rows_of(rank.views[view]))
          for (std::int64_t i = 0; i < range.count; i += 8) numbers.push_back((range.begin + i) / 8);
        return numbers;
      };
      if (op.kind == OpKind::exchange) {
        list.push_back({op.kind, rows(rank.parts_of(op)[0].view)});
      } else if (const Access* keys = rank.find(op, Operand::k)) {
        const Operand result = phase == Phase::forward ? Operand::out : Operand::dk;
        list.push_back({op.kind, rows(keys->view), rank.mode_of(op, result)});
      }
    }
    return list;
  };
  constexpr OpKind exchange = OpKind::exchange, attend = OpKind::attend,
                   attend_backward = OpKind::attend_backward;
  constexpr WriteMode add = WriteMode::add, merge = WriteMode::merge;
  const std::vector<std::int64_t> all{0, 1, 2, 3, 4, 5, 6, 7};  // chunks of 8 rows; even: 0 of rank 0
  CHECK(seen(plan.ranks[0], Phase::forward) == std::vector<Seen>{{exchange, {0, 1, 2, 3}},
                                                                 {attend, all},
                                                                 {exchange, {4, 5, 6, 7}},
                                                                 {attend, {0, 1, 2, 3}, merge},
                                                                 {attend, {4, 5, 6, 7}, merge}});
  CHECK(seen(plan.ranks[1], Phase::forward) == std::vector<Seen>{{exchange, {0, 1, 2, 3}},
                                                                 {attend, all},
                                                                 {exchange, {4, 5, 6, 7}},
                                                                 {attend, {0, 2}, merge},
                                                                 {attend, {4, 6}, merge}});
  // Chunk 3 of rank 0 has been seen by nobody else: its gradients wait for nothing.
  CHECK(seen(plan.ranks[0], Phase::backward) == std::vector<Seen>{{attend_backward, {0, 1, 2, 3}},
                                                                  {exchange, {0, 1, 2, 3}},
                                                                  {attend_backward, {4, 5, 6, 7}},
                                                                  {exchange, {4, 5, 6, 7}},
                                                                  {attend_backward, {1, 3, 5, 7}},
                                                                  {attend_backward, {0, 2}, add},
                                                                  {attend_backward, {4, 6}, add}});
  CHECK(seen(plan.ranks[1], Phase::backward) == std::vector<Seen>{{attend_backward, {0, 2}},
                                                                  {exchange, {0, 2}},
                                                                  {attend_backward, {4, 6}},
                                                                  {exchange, {4, 6}},
                                                                  {attend_backward, {0, 1, 2, 3}, add},
                                                                  {attend_backward, {4, 5, 6, 7}, add}});
  // Nothing passes over the gradients but the kernels and one cast of dq.
  for (const RankPlan& rank : plan.ranks)
    for (const Operation& op : rank.operations) {
      CHECK(op.kind != OpKind::add);
      CHECK(op.kind != OpKind::copy);
      CHECK(op.kind != OpKind::merge);
    }
}
