// The plan of hand_plan.hpp, spelled out, and unit times for real plans.
#include "tests/report/hand_plan.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "algorithms/resolve.hpp"
#include "derive/arena.hpp"
#include "derive/walk.hpp"
#include "tests/hand_plans/hand_plans.hpp"

namespace cplab {
namespace {

enum BufferIndex : std::uint32_t { q, kv, out, lse, kv_slots, part_out, part_lse, lse_max };

class HandRank {
 public:
  explicit HandRank(int rank) {
    plan_.rank = plan_.position = rank;
    const auto add = [&](const char* name, Role role, Category category, std::int64_t heads,
                         std::int64_t width) {
      Buffer buffer{.name = name, .role = role, .category = category};
      buffer.layout = role == Role::wide ? Layout::heads_first : Layout::rows_first;
      buffer.rows = 4;
      buffer.heads = heads;
      buffer.width = width;
      buffer.planes = heads == 1 ? 4 : 0;
      buffer.bytes = 4 * heads * width * (role == Role::wide ? 4 : 2);
      buffer.offset = static_cast<std::int64_t>(plan_.buffers.size()) * arena_alignment;
      plan_.buffers.push_back(buffer);
    };
    add("q", Role::nominal, Category::input, 2, 4);
    add("kv", Role::nominal, Category::input, 1, 8);
    add("out", Role::nominal, Category::output, 2, 4);
    add("lse", Role::wide, Category::output, 2, 1);
    add("kv_slots", Role::nominal, Category::working, 1, 8);
    add("part_out", Role::nominal, Category::working, 2, 4);
    add("part_lse", Role::wide, Category::workspace, 2, 1);
    add("lse_max", Role::wide, Category::output, 2, 1);
    plan_.arena_bytes = static_cast<std::int64_t>(plan_.buffers.size()) * arena_alignment;
    plan_.row_ranges = {{0, 4, 1}, {1, 2, 2}};
  }

  std::uint32_t view(std::uint32_t buffer, int width_begin, int width_end) {
    const Buffer& b = plan_.buffers[buffer];
    plan_.views.push_back({buffer, {0, 1}, 0, 1, 0, static_cast<int>(b.heads), width_begin, width_end});
    return static_cast<std::uint32_t>(plan_.views.size()) - 1;
  }
  std::uint32_t whole(std::uint32_t buffer) {
    return view(buffer, 0, static_cast<int>(plan_.buffers[buffer].width));
  }

  Operation& add(OpKind kind, Phase phase, LaneKind lane, std::uint32_t step) {
    Operation op;
    op.kind = kind;
    op.phase = phase;
    op.lane = {lane, 0};
    op.step = step;
    op.ordinal =
        static_cast<std::uint32_t>(std::count_if(plan_.operations.begin(), plan_.operations.end(),
                                                 [&](const Operation& o) { return o.phase == phase; }));
    return plan_.operations.emplace_back(op);
  }
  Span accesses(const std::vector<std::uint32_t>& views, WriteMode mode = WriteMode::store) {
    std::vector<Access> list;
    for (const std::uint32_t v : views) list.push_back({v, mode});
    return hand::append(plan_.accesses, list);
  }

  void attend(std::uint32_t step, std::uint32_t from, std::uint32_t to, std::uint32_t to_lse) {
    const std::uint32_t k = view(from, 0, 4), v = view(from, 4, 8);
    Operation& op = add(OpKind::attend, Phase::forward, LaneKind::compute, step);
    op.reads = accesses({whole(q), k, v});
    op.writes = accesses({whole(to), whole(to_lse)});
    op.head_end = 2;
    op.value = 0.5;
    op.flops = 512;
    op.bytes = 224;
    op.segments = hand::append(plan_.segments, {{0, 2, 0, 4, 0, -1, 0}, {2, 2, 0, 4, 2, 3, 0}});
    if (step > 0) op.after = hand::append(plan_.edges, {0});
  }

  RankPlan build() {
    const int peer = 1 - plan_.rank;
    Operation& exchange = add(OpKind::exchange, Phase::forward, LaneKind::comm, 0);
    exchange.bytes = 64;
    exchange.parts = {0, 2};
    plan_.parts = {{whole(kv), peer, true}, {whole(kv_slots), peer, false}};
    attend(0, kv, out, lse);
    attend(1, kv_slots, part_out, part_lse);
    Operation& merge = add(OpKind::merge, Phase::forward, LaneKind::compute, 1);
    merge.reads = accesses({whole(part_out), whole(part_lse)});
    merge.writes = accesses({whole(out), whole(lse)}, WriteMode::merge);

    Operation& fill = add(OpKind::fill, Phase::backward, LaneKind::compute, 0);
    const std::uint32_t stripe = whole(part_lse);
    plan_.views[stripe].ranges = {1, 1};
    plan_.views[stripe].head_begin = 1;
    fill.writes = accesses({stripe});
    fill.value = -std::numeric_limits<double>::infinity();
    Operation& all_reduce = add(OpKind::all_reduce, Phase::backward, LaneKind::comm, 0);
    all_reduce.reduction = Reduction::max;
    all_reduce.reads = accesses({whole(part_lse)});
    all_reduce.writes = accesses({whole(lse_max)});
    all_reduce.after = hand::append(plan_.edges, {3, 4});
    all_reduce.bytes = 32;
    add(OpKind::host_sync, Phase::backward, LaneKind::comm, 0);
    hand::name_operands(plan_);
    return plan_;
  }

 private:
  RankPlan plan_;
};

}  // namespace

Plan hand_plan() {
  Plan plan;
  Problem& problem = plan.scenario.problem;
  problem.batch = 1;
  problem.sequence = 8;
  problem.lengths = problem.padded_lengths = {8};
  problem.heads = 2;
  problem.kv_heads = 1;
  problem.head_size = problem.value_size = 4;
  problem.scale = 0.5;
  problem.causal = true;
  plan.scenario.parallel = {2, 1, {{0, 1}}};
  plan.scenario.algorithm = "by hand";
  plan.scenario.placement = "contiguous";
  plan.scenario.schedule.set("kv_slots", std::int64_t{2});
  plan.scenario.schedule.set("overlap", true);
  plan.scenario.schedule.set("merge", std::string("incremental"));
  plan.groups = {{"cp0", {0, 1}}};
  plan.ranks = {HandRank(0).build(), HandRank(1).build()};
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

Scenario ring_scenario(int ranks) {
  Scenario scenario;
  Problem& problem = scenario.problem;
  problem.batch = 2;
  problem.sequence = 96;
  problem.lengths = problem.padded_lengths = {96, 96};
  problem.heads = 4;
  problem.kv_heads = 2;
  problem.head_size = problem.value_size = 8;
  problem.scale = 0.35;
  problem.causal = true;
  scenario.parallel.ranks = ranks;
  scenario.parallel.groups.emplace_back();
  for (int r = 0; r < ranks; ++r) scenario.parallel.groups[0].push_back(r);
  scenario.algorithm = "ring";
  scenario.placement = "zigzag";
  return resolve(scenario);
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

std::vector<MemoryPlan> memory_of(const Plan& plan) {
  std::vector<MemoryPlan> memory;
  for (const RankPlan& rank : plan.ranks) memory.push_back(plan_memory(rank));
  return memory;
}

}  // namespace cplab
