// Brackets and framework launches by edits of the plan; see lasp_benchmark.hpp.
#include "cli/studies/lasp_benchmark.hpp"

#include <algorithm>

#include "derive/edits.hpp"

namespace cplab {
namespace {

constexpr Lane bracket_lane{LaneKind::comm, 255}, framework_lane{LaneKind::compute, 0};
constexpr const char* framework_buffer = "framework";

bool is_over_tokens(OpKind kind) {
  return kind == OpKind::local || kind == OpKind::local_backward || kind == OpKind::state ||
         kind == OpKind::inter;
}

// Collects operations to be put before places of a rank's list, then puts them there.
class Editor {
 public:
  Editor(RankPlan& rank, std::uint16_t world, Phase phase) : rank_(rank), world_(world), phase_(phase) {}

  void barrier(std::size_t place) {
    Operation op;
    op.kind = OpKind::barrier;
    op.group = world_;
    add(place, op, bracket_lane);
    host_sync(place, bracket_lane);
  }
  void host_sync(std::size_t place, Lane lane) {
    Operation op;
    op.kind = OpKind::host_sync;
    add(place, op, lane);
  }
  void launches(std::size_t place, const std::vector<FrameworkLaunch>& list) {
    for (const FrameworkLaunch& launch : list) {
      Operation op;
      op.kind = OpKind::fill;
      op.writes = add_accesses(rank_, {{view(launch), WriteMode::store, Operand::into}});
      op.bytes = static_cast<std::int64_t>(launch.bytes);
      add(place, op, framework_lane);
      if (launch.host) host_sync(place, framework_lane);
    }
  }
  // The last first, so that places stay right; of one place the operations keep the order of their calls.
  void apply() {
    std::stable_sort(added_.begin(), added_.end(),
                     [](const Added& a, const Added& b) { return a.place < b.place; });
    for (auto at = added_.rbegin(); at != added_.rend(); ++at) insert_operation(rank_, at->place, at->op);
  }

 private:
  struct Added {
    std::size_t place;
    Operation op;
  };
  void add(std::size_t place, Operation op, Lane lane) {
    op.phase = phase_;
    op.lane = lane;
    added_.push_back({place, op});
  }
  std::uint32_t view(const FrameworkLaunch& launch) {
    Buffer buffer;
    buffer.name = launch.host ? std::string(host_buffer_name) : framework_buffer;
    buffer.category = Category::workspace;
    buffer.rows = std::max<std::int64_t>(1, static_cast<std::int64_t>(launch.bytes) / 2);
    buffer.bytes = 2 * buffer.rows;
    View whole;
    whole.buffer = static_cast<std::uint32_t>(rank_.buffers.size());
    whole.ranges = add_ranges(rank_, {{0, buffer.rows, 1}});
    rank_.buffers.push_back(buffer);
    return add_view(rank_, whole);
  }

  RankPlan& rank_;
  std::uint16_t world_;
  Phase phase_;
  std::vector<Added> added_;
};

void bracket_phase(RankPlan& rank, std::uint16_t world, Phase phase, const FrameworkPhase& framework) {
  Editor edit(rank, world, phase);
  std::vector<Lane> lanes{framework_lane};
  const auto& all = rank.operations;
  const auto in_phase = [&](const Operation& op) { return op.phase == phase; };
  const auto begin = static_cast<std::size_t>(std::find_if(all.begin(), all.end(), in_phase) - all.begin());
  std::size_t end = begin, first = all.size(), last = all.size();
  for (; end < all.size() && in_phase(all[end]); ++end) {
    if (std::find(lanes.begin(), lanes.end(), all[end].lane) == lanes.end()) lanes.push_back(all[end].lane);
    if (!is_over_tokens(all[end].kind)) continue;
    first = std::min(first, end);
    last = end;
  }
  edit.barrier(begin);
  edit.launches(begin, framework.start);
  for (std::size_t i = begin; i < end; ++i) {
    if (i == first) edit.launches(i, framework.before_kernels);
    if (all[i].kind == OpKind::combine) edit.launches(i + 1, framework.combine);
    if (i == last) edit.launches(i + 1, framework.after_kernels);
    if (all[i].kind != OpKind::barrier) continue;
    rank.operations[i].group = world;
    edit.host_sync(i + 1, all[i].lane);
  }
  edit.launches(end, framework.end);
  for (const Lane lane : lanes) edit.host_sync(end, lane);
  edit.barrier(end);
  edit.apply();
}

}  // namespace

void bracket(Plan& plan, const LaspBenchmark& benchmark) {
  const auto world = static_cast<std::uint16_t>(plan.groups.size());
  plan.groups.push_back({"world", {}});
  for (const RankPlan& rank : plan.ranks) plan.groups.back().ranks.push_back(rank.rank);
  const bool has_backward = plan.scenario.problem.has_backward();
  for (RankPlan& rank : plan.ranks) {
    bracket_phase(rank, world, Phase::forward, benchmark.phases[0]);
    if (has_backward) bracket_phase(rank, world, Phase::backward, benchmark.phases[1]);
  }
}

std::array<double, 2> bracketed_s(const Plan& plan, const Timeline& timeline) {
  std::array<std::vector<double>, 2> marks;
  const RankPlan& rank = plan.ranks.front();
  for (std::size_t i = 0; i < rank.operations.size(); ++i) {
    const Operation& op = rank.operations[i];
    if (op.kind == OpKind::host_sync && op.lane == bracket_lane)
      marks[static_cast<std::size_t>(op.phase)].push_back(timeline.ranks.front()[i].end_s);
  }
  std::array<double, 2> seconds{};
  for (std::size_t phase = 0; phase < 2; ++phase)
    if (!marks[phase].empty()) seconds[phase] = marks[phase].back() - marks[phase].front();
  return seconds;
}

}  // namespace cplab
