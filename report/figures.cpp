// Derived figures, one pass over the operations of each rank.
#include "report/figures.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>

#include "report/peers.hpp"

namespace cplab {
namespace {

struct Interval {
  double begin = 0, end = 0;
};

// Intervals of several lanes, each lane in order of time, brought into one order. Lanes of a measured
// timeline may be out of order by the error of its clocks: then they are sorted.
class Intervals {
 public:
  void add(Lane lane, Interval interval) {
    if (interval.end <= interval.begin) return;
    lane_of(lane).push_back(interval);
  }

  // Union of all, as disjoint intervals in order.
  std::vector<Interval> merged() {
    const auto earlier = [](const Interval& a, const Interval& b) { return a.begin < b.begin; };
    std::vector<Interval> all;
    for (auto& [lane, intervals] : lanes_) {
      if (!std::is_sorted(intervals.begin(), intervals.end(), earlier))
        std::sort(intervals.begin(), intervals.end(), earlier);
      const auto middle = static_cast<std::ptrdiff_t>(all.size());
      all.insert(all.end(), intervals.begin(), intervals.end());
      std::inplace_merge(all.begin(), all.begin() + middle, all.end(), earlier);
    }
    std::vector<Interval> joined;
    for (const Interval& next : all) {
      if (!joined.empty() && next.begin <= joined.back().end) {
        joined.back().end = std::max(joined.back().end, next.end);
      } else {
        joined.push_back(next);
      }
    }
    return joined;
  }

 private:
  std::vector<Interval>& lane_of(Lane lane) {
    for (auto& [known, intervals] : lanes_)
      if (known == lane) return intervals;
    return lanes_.emplace_back(lane, std::vector<Interval>{}).second;
  }
  std::vector<std::pair<Lane, std::vector<Interval>>> lanes_;
};

double length(const std::vector<Interval>& intervals) {
  double sum = 0;
  for (const Interval& interval : intervals) sum += interval.end - interval.begin;
  return sum;
}

// Length of the part of `a` outside `b`, both disjoint and in order.
double length_outside(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  double sum = 0;
  std::size_t next = 0;
  for (const Interval& interval : a) {
    double begin = interval.begin;
    while (next < b.size() && b[next].end <= begin) ++next;
    for (std::size_t i = next; i < b.size() && b[i].begin < interval.end; ++i) {
      sum += std::max(0.0, b[i].begin - begin);
      begin = std::max(begin, b[i].end);
    }
    sum += std::max(0.0, interval.end - begin);
  }
  return sum;
}

struct Totals {
  std::array<double, 2> phase_end{};
  std::array<bool, 2> has_phase{};
  std::array<double, 4> busy_by_origin{};
};

bool computes(const Operation& op) {
  return op.lane.kind == LaneKind::compute && !is_communication(op.kind) && op.kind != OpKind::host_sync;
}

// came_s: of each operation, when its peers had come.
RankFigures rank_figures(const Plan& plan, const RankPlan& rank, const std::vector<OperationTime>& times,
                         const std::vector<double>& came_s, const MemoryPlan& memory, Figures& figures,
                         Totals& totals) {
  RankFigures result{.rank = rank.rank,
                     .replica = rank.replica,
                     .position = rank.position,
                     .peak_bytes = memory.live_peak_bytes,
                     .arena_bytes = rank.arena_bytes,
                     .saved_bytes = memory.saved_bytes};
  std::vector<std::int64_t> bytes_of_view;
  for (const View& view : rank.views)
    bytes_of_view.push_back(view_bytes(rank, view, plan.scenario.problem.dtype));
  Intervals compute, communication, transfer;
  for (std::size_t i = 0; i < rank.operations.size(); ++i) {
    const Operation& op = rank.operations[i];
    const OperationTime& time = times[i];
    const auto phase = static_cast<std::size_t>(op.phase);
    totals.has_phase[phase] = true;
    totals.phase_end[phase] = std::max(totals.phase_end[phase], time.end_s);
    totals.busy_by_origin[static_cast<std::size_t>(time.origin)] +=
        std::max(0.0, time.end_s - time.start_s - time.wait_s);
    result.time_s = std::max(result.time_s, time.end_s);
    if (op.kind == OpKind::host_sync) ++figures.host_syncs;
    const bool reported =
        op.phase == Phase::backward || plan.scenario.problem.direction != Direction::backward;
    if (reported && computes(op)) compute.add(op.lane, {time.start_s, time.end_s});
    if (!is_communication(op.kind)) continue;
    if (reported) {
      communication.add(op.lane, {time.start_s, time.end_s});
      transfer.add(op.lane, {came_s[i], time.end_s});
    }
    if (op.kind == OpKind::all_reduce) {
      result.sent_bytes += op.bytes;
      result.received_bytes += op.bytes;
    }
    for (const Part& part : rank.parts_of(op)) {
      if (part.peer == rank.rank) continue;
      (part.send ? result.sent_bytes : result.received_bytes) += bytes_of_view[part.view];
      if (part.send) ++figures.messages;
    }
  }
  const std::vector<Interval> busy = compute.merged(), communicating = communication.merged();
  result.compute_s = length(busy);
  result.communication_s = length(communicating);
  result.exposed_communication_s = length_outside(communicating, busy);
  result.exposed_transfer_s =
      std::min(length_outside(transfer.merged(), busy), result.exposed_communication_s);
  result.exposed_wait_s = result.exposed_communication_s - result.exposed_transfer_s;
  return result;
}

void set_phases(const Totals& totals, Figures& figures) {
  const double forward = totals.has_phase[0] ? totals.phase_end[0] : 0;
  if (totals.has_phase[0]) figures.phases.push_back({Phase::forward, forward});
  if (totals.has_phase[1]) figures.phases.push_back({Phase::backward, figures.time_s - forward});
}

void set_origins(const Totals& totals, Figures& figures) {
  double busy = 0;
  for (const double part : totals.busy_by_origin) busy += part;
  if (busy <= 0) return;
  const auto share = [&](Origin origin) {
    return totals.busy_by_origin[static_cast<std::size_t>(origin)] / busy;
  };
  figures.origins = {share(Origin::measured), share(Origin::interpolated), share(Origin::extrapolated),
                     share(Origin::assumed)};
}

}  // namespace

Figures derive_figures(const Plan& plan, const Timeline& timeline, std::span<const MemoryPlan> memory) {
  if (timeline.ranks.size() != plan.ranks.size() || memory.size() != plan.ranks.size())
    throw std::invalid_argument("timeline or memory of another number of ranks than the plan");
  for (std::size_t r = 0; r < plan.ranks.size(); ++r)
    if (timeline.ranks[r].size() != plan.ranks[r].operations.size())
      throw std::invalid_argument("timeline of another number of operations than the plan, rank " +
                                  std::to_string(plan.ranks[r].rank));
  const std::vector<std::vector<double>> came_s = peers_came_s(plan, timeline);
  Figures figures;
  figures.transports = transports_of(plan);
  Totals totals;
  std::size_t peak = 0;
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const RankPlan& rank = plan.ranks[r];
    figures.ranks.push_back(
        rank_figures(plan, rank, timeline.ranks[r], came_s[r], memory[r], figures, totals));
    figures.time_s = std::max(figures.time_s, figures.ranks[r].time_s);
    if (figures.ranks[r].peak_bytes > figures.ranks[peak].peak_bytes) peak = r;
  }
  set_phases(totals, figures);
  if (plan.scenario.problem.direction == Direction::backward && !figures.phases.empty()) {
    const double forward_s = figures.time_s - figures.phases.back().time_s;
    for (RankFigures& rank : figures.ranks) rank.time_s = std::max(0.0, rank.time_s - forward_s);
    figures.time_s = figures.phases.back().time_s;
  }
  set_origins(totals, figures);
  if (!plan.ranks.empty()) {
    figures.peak_bytes = figures.ranks[peak].peak_bytes;
    figures.peak_rank = figures.ranks[peak].rank;
    for (const std::uint32_t b : memory[peak].peak_buffers) {
      const Buffer& buffer = plan.ranks[peak].buffers[b];
      figures.peak_buffers.push_back({buffer.name, buffer.category, buffer.bytes});
    }
  }
  return figures;
}

std::vector<NotableRank> notable_ranks(const std::vector<RankFigures>& ranks) {
  std::vector<std::size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return std::pair(ranks[a].time_s, ranks[a].exposed_communication_s) >
           std::pair(ranks[b].time_s, ranks[b].exposed_communication_s);
  });
  std::vector<NotableRank> notable;
  if (!order.empty()) notable.push_back({order.front(), "worst"});
  if (order.size() > 2) notable.push_back({order[order.size() / 2], "median"});
  if (order.size() > 1) notable.push_back({order.back(), "best"});
  return notable;
}

Fit fit(const Figures& figures, std::int64_t capacity_bytes, std::int64_t fixed_bytes) {
  std::int64_t arena = 0;
  for (const RankFigures& rank : figures.ranks) arena = std::max(arena, rank.arena_bytes);
  const std::int64_t headroom = capacity_bytes - arena - fixed_bytes;
  return {capacity_bytes, fixed_bytes, headroom >= 0, headroom};
}

}  // namespace cplab
