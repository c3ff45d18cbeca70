// See hand_plan.hpp.
#include "tests/report/hand_plan.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "derive/walk.hpp"
#include "tests/hand_plans/hand_plans.hpp"

namespace cplab {
namespace {

// One of the two ranks: what hand_plan.hpp shows as a table.
void write_rank(Plan& plan, int r) {
  hand::Rank rank(plan, r);
  const auto buffer = [&](const char* name, Role role, Category category, std::int64_t heads,
                          std::int64_t width) {
    Buffer b{.name = name, .role = role, .category = category};
    b.layout = role == Role::wide ? Layout::heads_first : Layout::rows_first;
    b.rows = 4;
    b.heads = heads;
    b.width = width;
    b.planes = heads == 1 ? 4 : 0;
    return rank.buffer(b);
  };
  const auto q = buffer("q", Role::nominal, Category::input, 2, 4);
  const auto kv = buffer("kv", Role::nominal, Category::input, 1, 8);
  const auto out = buffer("out", Role::nominal, Category::output, 2, 4);
  const auto lse = buffer("lse", Role::wide, Category::output, 2, 1);
  const auto kv_slots = buffer("kv_slots", Role::nominal, Category::working, 1, 8);
  const auto part_out = buffer("part_out", Role::nominal, Category::working, 2, 4);
  const auto part_lse = buffer("part_lse", Role::wide, Category::workspace, 2, 1);
  const auto lse_max = buffer("lse_max", Role::wide, Category::output, 2, 1);

  const auto attend = [&](std::uint32_t from, std::uint32_t into, std::uint32_t into_lse,
                          const hand::After& after) {
    const hand::Attend operands{rank.view(q), rank.view({.buffer = from, .width_end = 4}),
                                rank.view({.buffer = from, .width_begin = 4}), rank.view(into),
                                rank.view(into_lse)};
    Operation& op =
        rank.op(rank.attend(hand::compute, operands, {{0, 2, 0, 4, 0, -1, 0}, {2, 2, 0, 4, 2, 3, 0}}, after));
    op.value = 0.5;
    op.flops = 512;
    op.bytes = 224;
  };
  const auto exchange =
      rank.communicate(hand::comm, OpKind::exchange,
                       {hand::send(rank.view(kv), 1 - r), hand::receive(rank.view(kv_slots), 1 - r)});
  rank.op(exchange).bytes = 64;
  attend(kv, out, lse, {});
  rank.step = 1;
  attend(kv_slots, part_out, part_lse, {exchange});
  const auto merge =
      rank.merge_out(hand::compute, rank.view(part_out), rank.view(part_lse), rank.view(out), rank.view(lse));
  rank.phase(Phase::backward);
  rank.step = 0;
  const auto stripe = rank.view({.buffer = part_lse, .head_begin = 1}, {{1, 2, 2}});
  const auto fill = rank.fill(hand::compute, stripe, -std::numeric_limits<double>::infinity());
  const auto all_reduce =
      rank.all_reduce(hand::comm, rank.view(part_lse), rank.view(lse_max), {merge, fill}, Reduction::max);
  rank.op(all_reduce).bytes = 32;
  rank.host_sync(hand::comm);
}

}  // namespace

Plan hand_plan() {
  Plan plan = hand::ranks_in_one_group(2, "cp0", DType::bf16);
  Problem& problem = plan.scenario.problem;
  problem.batch = 1;
  problem.sequence = 8;
  problem.lengths = problem.padded_lengths = {8};
  problem.heads = 2;
  problem.kv_heads = 1;
  problem.head_size = problem.value_size = 4;
  problem.scale = 0.5;
  problem.causal = true;
  plan.scenario.algorithm = "by hand";
  plan.scenario.placement = "contiguous";
  plan.scenario.schedule.set("kv_slots", std::int64_t{2});
  plan.scenario.schedule.set("overlap", true);
  plan.scenario.schedule.set("merge", std::string("incremental"));
  for (int r = 0; r < 2; ++r) write_rank(plan, r);
  return plan;
}

Timeline hand_timeline() {
  const Origin m = Origin::measured, i = Origin::interpolated, e = Origin::extrapolated, a = Origin::assumed;
  Timeline timeline;
  timeline.predicted = true;
  timeline.ranks = {{{0, 1, 5, 1, a},
                     {0, 0, 2, 0, m},
                     {0, 6, 8, 0, m},
                     {0, 8, 9, 0, i},
                     {0, 9, 10, 0, m},
                     {0, 10, 11, 0, e},
                     {0, 11, 11, 0, m}},
                    {{0, 2, 5, 0, a},
                     {0, 0, 3, 0, m},
                     {0, 5, 8, 0, m},
                     {0, 8, 8.5, 0, i},
                     {0, 9, 10, 0, m},
                     {0, 10, 11, 0, e},
                     {0, 11, 11, 0, m}}};
  return timeline;
}

Timeline millisecond_timeline(const Plan& plan) {
  constexpr double unit = 1e-3;
  Timeline timeline;
  timeline.predicted = true;
  std::vector<std::map<int, double>> lane_free(plan.ranks.size());
  for (const RankPlan& rank : plan.ranks) timeline.ranks.emplace_back(rank.operations.size());
  const auto time_of = [&](OpRef ref) -> OperationTime& { return timeline.ranks[ref.rank][ref.operation]; };
  const auto lane_of = [&](OpRef ref) -> double& {
    const Lane lane = plan.ranks[ref.rank].operations[ref.operation].lane;
    return lane_free[ref.rank][static_cast<int>(lane.kind) * 256 + lane.index];
  };
  std::vector<double> host_free(plan.ranks.size());
  Walk walk(plan);
  std::vector<OpRef> ready;
  walk.begin(ready);
  const auto finish = [&](OpRef ref, double end) {
    time_of(ref).end_s = lane_of(ref) = end;
    if (plan.ranks[ref.rank].operations[ref.operation].kind == OpKind::host_sync) host_free[ref.rank] = end;
    walk.complete(ref, ready);
  };
  for (std::size_t next = 0; next < ready.size(); ++next) {
    const OpRef ref = ready[next];
    const RankPlan& rank = plan.ranks[ref.rank];
    const Operation& op = rank.operations[ref.operation];
    double start = std::max(lane_of(ref), host_free[ref.rank]);
    for (const std::uint32_t edge : rank.after(op))
      start = std::max(start, timeline.ranks[ref.rank][edge].end_s);
    OperationTime& time = time_of(ref);
    time = {start, start, start, 0, Origin::assumed};
    if (!is_communication(op.kind)) {
      finish(ref, start + unit);
      continue;
    }
    if (op.kind == OpKind::all_reduce || op.kind == OpKind::barrier) {
      std::vector<OpRef> members;
      if (!walk.meet(ref, members)) continue;
      double last = 0;
      for (const OpRef member : members) last = std::max(last, time_of(member).start_s);
      for (const OpRef member : members) {
        time_of(member).wait_s = last - time_of(member).start_s;
        finish(member, last + unit);
      }
      continue;
    }
    std::vector<Match> matches;
    walk.post(ref, matches);
    for (const Match& match : matches) {
      const double both = std::max(time_of(match.sender).start_s, time_of(match.receiver).start_s);
      for (const OpRef side : {match.sender, match.receiver}) {
        OperationTime& at = time_of(side);
        at.wait_s = std::max(at.wait_s, both - at.start_s);
        if (walk.part_done(side)) finish(side, at.start_s + at.wait_s + unit);
      }
    }
    if (op.parts.count == 0) finish(ref, start + unit);
  }
  return timeline;
}

OperationTime from_to(double start, double end) {
  return {0, start, end, 0, Origin::measured};
}

std::vector<MemoryPlan> memory_of(const Plan& plan) {
  std::vector<MemoryPlan> memory;
  for (const RankPlan& rank : plan.ranks) memory.push_back(plan_memory(rank));
  return memory;
}

}  // namespace cplab
