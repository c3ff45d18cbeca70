// See linear_cost.hpp.
#include "sim/linear_cost.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cplab {
namespace {

double rate_of(const GpuSpec& gpu, DType dtype) {
  const double peak = gpu.peak(name(dtype));
  return peak > 0 ? peak : std::numeric_limits<double>::infinity();
}

// What a call's time goes by: of a scan the states that a thread block walks, whatever their chunks hold;
// else its roofline. By its tokens more of them would be faster where they are no more waves.
double extent_of(const LinearWork& work, double roofline_s) {
  return work.kind == OpKind::scan ? static_cast<double>(work.longest_group) : roofline_s;
}

bool same_problem(const LinearWork& a, const LinearWork& b) {
  if (a.kind == OpKind::scan)
    return a.heads == b.heads && a.chunks == b.chunks && a.longest_group == b.longest_group &&
           a.bytes == b.bytes;
  return a.tokens == b.tokens && a.heads == b.heads && a.chunks == b.chunks && a.longest == b.longest &&
         a.bytes == b.bytes;
}

std::vector<Operand> sorted(std::vector<Operand> states) {
  std::sort(states.begin(), states.end());
  return states;
}

bool alike(const KernelTable& a, const KernelTable& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.head_size == b.head_size &&
         a.value_size == b.value_size && a.cut == b.cut && sorted(a.states) == sorted(b.states) &&
         sorted(results_of(a)) == sorted(results_of(b));
}

// Microseconds that a multiprocessor which is never idle takes on an H200, D = E = 128 in bf16: for a block
// of 64 tokens and a head, or for a step of a walk by a block (docs/lab/gated-linear.md).
struct GatedTimes {
  double block, column_block, rows, gradients, column_gradients, step, reverse_step;
};
constexpr GatedTimes with_strengths{9.4, 32.2, 3.2, 22.7, 93.6, 1.68, 2.86},
    without_strengths{6.0, 23.8, 3.2, 17.4, 66.3, 1.22, 2.50};
// By so much a step takes longer where a multiprocessor has two walks, as it has room for of those from the
// left.
constexpr double beside_another_walk = 1.2;

// One kernel after the other.
double gated_seconds(const Hardware& hardware, const GatedLaunch& gated) {
  const GatedTimes& us = gated.strengths ? with_strengths : without_strengths;
  const int sms = hardware.gpu.sms;
  const double blocks = std::ceil(gated.blocks / sms);
  double all = blocks * (gated.columns ? us.column_block : us.block);
  if (gated.forward)
    all += std::ceil(gated.walks / (2 * sms)) * (gated.walks > sms ? beside_another_walk : 1) * gated.steps *
           us.step;
  if (gated.reverse) all += std::ceil(gated.walks / sms) * gated.steps * us.reverse_step;
  if (gated.reads) all += blocks * us.rows;
  if (gated.differentiates) all += blocks * (gated.columns ? us.column_gradients : us.gradients);
  return all * gated.size * 1e-6;
}

}  // namespace

KernelCost linear_roofline(const Hardware& hardware, const LinearLaunch& launch) {
  return linear_roofline(hardware, launch, hardware.gpu);
}

KernelCost linear_roofline(const Hardware& hardware, const LinearLaunch& launch, const GpuSpec& gpu) {
  const int sms = hardware.gpu.sms;
  const double blocks = std::max(1.0, launch.blocks), waves = std::ceil(blocks / sms);
  const double moved_s = launch.bytes / gpu.copy_bytes_s;
  const double computed_s = launch.flops / rate_of(gpu, launch.dtype);
  const double paired_waves = std::ceil(blocks / (2 * sms));
  const double walked_s =
      (launch.gated ? gated_seconds(hardware, *launch.gated) : 0) +
      (waves * launch.steps + paired_waves * launch.paired_steps) * hardware.linear.step_s +
      paired_waves * launch.scan_steps * hardware.rates[kernels::cuda::Rate::linear_scan_step_us] * 1e-6;
  KernelCost cost;
  cost.seconds = std::max({moved_s, computed_s, walked_s, hardware.linear.floor_s});
  cost.waves = launch.persistent ? 1 : static_cast<int>(std::min(waves, 1e9));
  cost.tail_sms =
      static_cast<int>(std::clamp(launch.persistent ? blocks : blocks - (waves - 1) * sms, 1.0, 1.0 * sms));
  // Half of the multiprocessors saturate memory.
  cost.useful_sms = walked_s < moved_s && computed_s < moved_s ? (sms + 1) / 2 : sms;
  cost.origin = Origin::assumed;
  return cost;
}

std::vector<Operand> states_of(const RankPlan& rank, const Operation& op) {
  std::vector<Operand> states;
  for (const Operand operand :
       {Operand::state, Operand::dstate, Operand::carry, Operand::dcarry, Operand::final_state})
    if (rank.find(op, operand)) states.push_back(operand);
  return states;
}

LinearCost::LinearCost(const Hardware& hardware)
    : hardware_(hardware), measured_gpu_(hardware.measured_gpu()) {
  for (const KernelTable& table : hardware.kernels) {
    if (!has_chunk_points(table.kind)) continue;
    // Several tables of one class and kind of operands are one larger table, as of other lengths of chunks.
    auto into = std::find_if(tables_.begin(), tables_.end(),
                             [&](const Measured& other) { return alike(*other.table, table); });
    if (into == tables_.end()) into = tables_.insert(into, {&table, {}});
    Measured& measured = *into;
    for (const KernelPoint& point : table.points) {
      const RankPlan rank = linear_point(table, point);
      const LinearWork work =
          linear_work(CallConverter(rank, table.dtype), rank.operations.front(), table.dtype, hardware.gpu);
      const double roofline_s = linear_roofline(hardware, linear_launch(work), measured_gpu_).seconds;
      measured.points.push_back({extent_of(work, roofline_s), point.seconds / roofline_s, work, point.seconds,
                                 table.provenance.origin});
    }
    std::stable_sort(measured.points.begin(), measured.points.end(),
                     [](const Point& a, const Point& b) { return a.extent < b.extent; });
  }
}

const LinearCost::Measured* LinearCost::table_for(const LinearWork& work, const std::vector<Operand>& states,
                                                  const std::vector<Operand>& results, bool& exact) const {
  const Measured* best = nullptr;
  double best_away = std::numeric_limits<double>::infinity();
  for (const Measured& each : tables_) {
    const KernelTable& table = *each.table;
    if (table.kind != work.kind || table.dtype != work.dtype) continue;
    const auto ratio = [](std::int64_t a, std::int64_t b) {
      return std::abs(std::log(static_cast<double>(a) / static_cast<double>(std::max<std::int64_t>(1, b))));
    };
    const double away = ratio(table.head_size, work.D) + ratio(table.value_size, work.E) +
                        (table.cut != work.cut ? 2 : 0) + (sorted(table.states) != sorted(states) ? 1 : 0) +
                        (sorted(results_of(table)) != sorted(results) ? 1 : 0);
    if (away >= best_away) continue;
    best_away = away;
    best = &each;
  }
  exact = best_away == 0;
  return best;
}

KernelCost LinearCost::operator()(const CallConverter& calls, const Operation& op, DType nominal) const {
  const LinearWork work = linear_work(calls, op, nominal, hardware_.gpu);
  KernelCost cost = of_tables(calls, op, work);
  if (hardware_.curve_copy_bytes_s <= 0 && hardware_.curve_peak_flops.empty()) return cost;
  const LinearLaunch launch = linear_launch(work);
  const double now_s = linear_roofline(hardware_, launch).seconds,
               then_s = linear_roofline(hardware_, launch, measured_gpu_).seconds;
  if (now_s == then_s || cost.origin == Origin::assumed) return cost;
  cost.seconds *= now_s / then_s;
  cost.origin = worst(cost.origin, worst(hardware_.gpu.provenance.origin, Origin::extrapolated));
  return cost;
}

KernelCost LinearCost::of_tables(const CallConverter& calls, const Operation& op,
                                 const LinearWork& work) const {
  KernelCost cost = linear_roofline(hardware_, linear_launch(work));
  if (work.gated) return cost;  // tables are of decays
  bool exact = false;
  const Measured* measured =
      table_for(work, states_of(calls.plan(), op), results_of(calls.plan(), op), exact);
  if (!measured) return cost;
  cost.seconds = linear_roofline(hardware_, linear_launch(work), measured_gpu_).seconds;
  const auto& points = measured->points;
  for (const Point& point : points) {
    if (!exact || !same_problem(point.work, work)) continue;
    cost.seconds = point.seconds;
    cost.origin = point.origin;
    return cost;
  }
  const double extent = extent_of(work, cost.seconds);
  const auto above = std::lower_bound(points.begin(), points.end(), extent,
                                      [](const Point& point, double t) { return point.extent < t; });
  const bool outside = above == points.end() || (above == points.begin() && above->extent > extent);
  const Point& high = above == points.end() ? points.back() : *above;
  // Outside, or of another shape of this extent. No kernel takes less than an empty one.
  double seconds = std::max(cost.seconds * high.factor, std::min(high.seconds, hardware_.linear.floor_s));
  Origin of_points = high.origin;
  if (!outside && high.extent > extent) {
    // Of the time, not of the factor: that may fall by more than the roofline grows.
    const Point& low = *std::prev(above);
    const double fraction = std::log(extent / low.extent) / std::log(high.extent / low.extent);
    seconds = low.seconds * std::pow(high.seconds / low.seconds, fraction);
    of_points = worst(of_points, low.origin);
  }
  cost.seconds = seconds;
  cost.origin = worst(of_points, exact && !outside ? Origin::interpolated : Origin::extrapolated);
  return cost;
}

}  // namespace cplab
