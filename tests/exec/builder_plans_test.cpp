// The builder as algorithms need it: collectives, teams, rows of several ranks in one buffer, global head
// numbers, slabs and edges that wait for a start. Each plan is proved, and executed against the reference.
#include <doctest/doctest.h>

#include "algorithms/core/build.hpp"
#include "algorithms/core/resolve.hpp"
#include "algorithms/core/scope.hpp"
#include "algorithms/softmax/softmax.hpp"
#include "check/check.hpp"
#include "cli/verify/verify.hpp"
#include "derive/memory.hpp"
#include "tests/exec/builder_plans.hpp"
#include "tests/exec/scenarios.hpp"

namespace cplab {
namespace {

ScenarioSpec spec_of(std::int64_t ranks, const char* placement, bool causal) {
  ScenarioSpec spec;
  spec.ranks = ranks;
  spec.placement = placement;
  spec.causal = causal;
  spec.lengths = {13, 0, 22, 1};
  spec.padded_lengths = {14, 2, 22, 1};
  spec.heads = 8;
  spec.kv_heads = 4;
  return spec;
}

// Proved, and in several orders equal to the dense double-precision reference.
void check_right(const Plan& plan) {
  for (const Finding& finding : check(plan).findings) FAIL_CHECK(finding.message);
  const Inputs inputs = random_inputs(plan.scenario.problem, 3);
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    CpuOptions options;
    options.order = {seed > 0, seed};
    const VerifyResult result = verify(plan, inputs, {options});
    for (const Finding& finding : result.findings) FAIL_CHECK(finding.message);
    for (const TensorFigures& t : result.tensors) CHECK_MESSAGE(t.rel_l2 < 1e-12, t.tensor);
  }
}

void check_everywhere(const Algorithm& algorithm, std::initializer_list<std::int64_t> ranks) {
  for (const std::int64_t P : ranks) {
    for (const char* placement : {"zigzag", "contiguous", "striped"}) {
      for (const bool causal : {true, false}) {
        CAPTURE(P);
        CAPTURE(placement);
        CAPTURE(causal);
        ScenarioSpec spec = spec_of(P, placement, causal);
        check_right(build_plan(scenario(spec), algorithm));
        spec.window = {3, 2};
        spec.replicas = 2;
        check_right(build_plan(scenario(spec), algorithm));
      }
    }
  }
}

TEST_CASE("builder: one all_gather of all keys, a reduce_scatter of their gradients") {
  check_everywhere(gathered_algorithm(), {1, 2, 3, 4});
}

TEST_CASE("builder: all_to_all trades tokens for heads, which keep their numbers") {
  check_everywhere(traded_algorithm(), {1, 2, 4});
}

TEST_CASE("builder: teams of neighbours and teams across them") {
  check_everywhere(two_level_algorithm(), {2, 4, 6});
  const Plan plan = build_plan(scenario(spec_of(4, "zigzag", true)), two_level_algorithm());
  REQUIRE(plan.groups.size() == 5);
  CHECK(plan.groups[1].name == "cp0/inner0");
  CHECK(plan.groups[4].ranks == std::vector<int>{1, 3});
}

TEST_CASE("a slab is one allocation, and its buffers take turns") {
  Plan plan = build_plan(scenario(spec_of(2, "zigzag", true)), gathered_algorithm());
  RankPlan& rank = plan.ranks[0];
  const auto index = [&](const char* name) {
    for (std::uint32_t b = 0; b < rank.buffers.size(); ++b)
      if (rank.buffers[b].name == name) return b;
    return UINT32_MAX;
  };
  const std::uint32_t first = index("kv_all"), second = index("kv_again");
  CHECK(rank.buffers[first].offset == rank.buffers[second].offset);
  const MemoryPlan memory = plan_memory(rank);
  CHECK(memory.lifetimes[first] ==
        memory.lifetimes[second]);  // from the first use of one to the last of both
  std::int64_t births = 0;
  for (const MemoryEvent& e : memory.events)
    if (e.bytes > 0 && (e.buffer == first || e.buffer == second)) births += e.bytes;
  CHECK(births == rank.buffers[first].bytes);

  SUBCASE("at two offsets they are no slab") {
    rank.buffers[second].offset += 256;
    rank.arena_bytes += 256;
    CHECK_FALSE(check(plan).ok());
  }
  SUBCASE("the second must wait until the first is no longer read") {
    for (Operation& op : rank.operations)
      if (op.kind == OpKind::all_gather && op.phase == Phase::backward) op.after = {};
    bool found = false;
    for (const Finding& f : check(plan).findings) found = found || f.kind == FindingKind::lifetime;
    CHECK(found);
  }
  SUBCASE("what the first held is gone once the second is written") {
    for (Operation& op : rank.operations) {
      if (op.kind != OpKind::attend_backward) continue;
      for (std::uint32_t a = op.reads.first; a < op.reads.first + op.reads.count; ++a) {
        if (rank.accesses[a].operand != Operand::k && rank.accesses[a].operand != Operand::v) continue;
        rank.views.push_back(rank.views[rank.accesses[a].view]);
        rank.views.back().buffer = first;
        rank.accesses[a].view = static_cast<std::uint32_t>(rank.views.size() - 1);
      }
    }
    bool found = false;
    for (const Finding& f : check(plan).findings) found = found || f.kind == FindingKind::uninitialised;
    CHECK(found);
  }
}

TEST_CASE("an edge that waits for a start orders no data") {
  Scenario without_head_start = scenario(spec_of(2, "zigzag", true));  // which has an edge of its own
  without_head_start.schedule.set("head_start_us", std::int64_t{0});
  Plan plan = build_plan(without_head_start, gathered_algorithm());
  RankPlan& rank = plan.ranks[0];
  for (Operation& op : rank.operations) {
    if (op.kind != OpKind::attend) continue;
    REQUIRE(op.after_started.count == 1);
    REQUIRE(op.after.count == 1);
    // Waiting for the start of the gather is not waiting for what it brings.
    rank.edges[op.after_started.first] = rank.edges[op.after.first];
    op.after = {};
  }
  bool race = false;
  for (const Finding& f : check(plan).findings) race = race || f.kind == FindingKind::race;
  CHECK(race);
}

// Rank 0 joins a barrier and attends beside it; what it then sends is what rank 1 waits for before it joins.
template <bool waits>
void build_crossed(Builder& b) {
  const Problem& p = b.problem();
  const auto tensor = [&](const char* name, Category category, std::int64_t width) {
    return b.buffer({name, Role::nominal, category, 1, b.rows(), p.heads, width});
  };
  const Box q = tensor("q", Category::input, p.head_size),
            out = tensor("out", Category::output, p.value_size);
  const Box kv = Scope(b).kv_buffer("kv", Role::nominal, Category::input, 1, b.rows());
  const Box lse = Scope(b).lse_buffer("lse", Category::output, 1, b.rows());
  const Tile t = Scope(b).tile(b.position(), Take::all);
  const auto attend = [&] { b.attend(compute_lane, {q, keys(b, kv), values(b, kv), out, lse, t.segments}); };
  if (b.position() == 0) {
    b.barrier(beside_lane, Transport::nccl, b.team("beside"));
    if (waits) b.wait_for_start(b.last());
    attend();
    b.exchange(comm_lane, Transport::nccl, {send(out, 1)});
  } else {
    attend();
    b.exchange(beside_lane, Transport::nccl, {receive(tensor("theirs", Category::working, p.value_size), 0)});
    b.barrier(beside_lane, Transport::nccl, b.team("beside"));
  }
}

TEST_CASE("waiting for the start of what its peers cannot meet is a deadlock") {
  ScenarioSpec spec = spec_of(2, "contiguous", true);
  spec.backward = false;
  const auto deadlocks = [&](void (*build)(Builder&)) {
    Algorithm algorithm = gathered_algorithm();  // for its team
    algorithm.build = build;
    bool found = false;
    for (const Finding& f : check(build_plan(scenario(spec), algorithm)).findings)
      found = found || f.kind == FindingKind::deadlock;
    return found;
  };
  CHECK(deadlocks(build_crossed<true>));
  CHECK_FALSE(deadlocks(build_crossed<false>));  // then only no order of launches suits both ranks
}

TEST_CASE("between layers: nothing but inputs, outputs and saved buffers crosses, and the phases are apart") {
  ScenarioSpec spec = spec_of(2, "zigzag", true);
  spec.options = {{"between", std::string("layers")}};
  const Scenario layers = scenario(spec);
  check_right(build_plan(layers, gathered_algorithm()));
  // The traded Q, K and V of the forward are used again: working buffers.
  bool found = false;
  for (const Finding& f : check(build_plan(layers, traded_algorithm())).findings)
    found = found || (f.kind == FindingKind::lifetime && f.buffer == "kv_traded");
  CHECK(found);
  Plan open = build_plan(layers, gathered_algorithm());
  for (Operation& op : open.ranks[1].operations)
    if (op.kind == OpKind::row_dot) op.after = {};
  for (Operation& op : open.ranks[1].operations)
    if (op.kind == OpKind::all_gather && op.phase == Phase::backward) op.after = {};
  found = false;
  for (const Finding& f : check(open).findings) found = found || f.kind == FindingKind::order;
  CHECK(found);
}

}  // namespace
}  // namespace cplab
