// Kernel times from measured tables with a tile and wave model between the points.
#include "sim/kernel_cost.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "sim/attention_cost.hpp"
#include "sim/linear_cost.hpp"
#include "sim/product_cost.hpp"
#include "sim/table_walk.hpp"
#include "sim/waves.hpp"

namespace cplab {
namespace {

class StandardCost {
 public:
  StandardCost(const Hardware& hardware, ClockLift lift)
      : hardware_(hardware),
        attention_(attention_cost(hardware, std::move(lift),
                                  [this](const Plan& plan, OpKind kind, std::int64_t bytes) {
                                    Operation rowwise;
                                    rowwise.kind = kind;
                                    rowwise.bytes = bytes;
                                    return memory_bound(plan, rowwise);
                                  })),
        linear_(hardware) {}
  StandardCost(const StandardCost&) = delete;

  KernelCost operator()(const Plan& plan, const CallConverter& calls, const Operation& op) {
    if (has_square_points(op.kind)) return bounded(attention_(plan, calls, op));
    const DType dtype = plan.scenario.problem.dtype;
    if (has_chunk_points(op.kind)) {
      KernelCost cost = linear_(calls, op, dtype);
      cost.seconds /= hardware_.attention_speed;
      // NCCL's thread blocks start beside those of every kernel of linear attention (seen on H200s).
      cost.shares = true;
      return cost;
    }
    if (is_projection(op.kind)) return bounded(product_cost(hardware_, calls.plan(), op, dtype));
    if (op.kind == OpKind::combine && !has_curve(op.kind, dtype))
      return linear_roofline(hardware_, linear_launch(linear_work(calls, op, dtype, hardware_.gpu)));
    return memory_bound(plan, op);
  }

 private:
  // A curve is a launch, what it keeps where memory carries the rest at most as fast as a copy, and an
  // efficiency.
  void scale_to_memory(const std::vector<CurvePoint>& curve, KernelCost& cost) const {
    const double launch_s = curve_launch_s(curve, hardware_.curve_copy_bytes_s, hardware_.gpu.least_kernel_s);
    cost.seconds = launch_s + (cost.seconds - launch_s) * hardware_.copy_scale();
    cost.origin = worst(cost.origin, worst(hardware_.gpu.provenance.origin, Origin::extrapolated));
  }

  // No kernel takes less than an empty one; a curve says so itself.
  KernelCost bounded(KernelCost cost) const {
    const GpuSpec& gpu = hardware_.gpu;
    if (cost.seconds >= gpu.least_kernel_s) return cost;
    cost.seconds = gpu.least_kernel_s;
    cost.origin = worst(cost.origin, gpu.least_kernel_origin);
    cost.parts = {};
    return cost;
  }

  KernelCost memory_bound(const Plan& plan, const Operation& op) const {
    KernelCost cost;
    const int sms = hardware_.gpu.sms;
    // Half of the multiprocessors saturate memory; each thread block moves this much.
    constexpr double block_bytes = 64 * 1024;
    const Waves waves = waves_of(std::ceil(static_cast<double>(op.bytes) / block_bytes), sms);
    cost.waves = waves.count;
    cost.tail_sms = waves.tail_sms;
    cost.useful_sms = (sms + 1) / 2;
    for (const KernelTable& table : hardware_.kernels) {
      if (table.kind != op.kind || table.dtype != plan.scenario.problem.dtype) continue;
      const Estimate estimate = lookup(table.curve, static_cast<double>(op.bytes), table.provenance.origin);
      cost.seconds = estimate.seconds;
      cost.origin = estimate.origin;
      if (hardware_.copy_scale() != 1) scale_to_memory(table.curve, cost);
      return cost;
    }
    const ElementwiseSpec& classes = hardware_.elementwise;
    cost.seconds = static_cast<double>(op.bytes) / (classes.of(op.kind) * hardware_.gpu.copy_bytes_s);
    // One bandwidth, measured on a copy, for another size (copy) or another kernel (the rest).
    cost.origin = worst(hardware_.gpu.provenance.origin,
                        op.kind == OpKind::copy ? Origin::interpolated : Origin::extrapolated);
    if (classes.says(op.kind))
      cost.origin =
          worst(worst(hardware_.gpu.provenance.origin, Origin::interpolated), classes.provenance.origin);
    return bounded(cost);
  }

  bool has_curve(OpKind kind, DType dtype) const {
    return std::any_of(hardware_.kernels.begin(), hardware_.kernels.end(),
                       [&](const KernelTable& t) { return t.kind == kind && t.dtype == dtype; });
  }

  const Hardware& hardware_;
  KernelCostFunction attention_;
  LinearCost linear_;
};

}  // namespace

double curve_launch_s(const std::vector<CurvePoint>& curve, double copy_bytes_s, double least_s) {
  const double first_s = curve.front().seconds;
  double launch_s = first_s;
  for (const CurvePoint& point : curve)
    launch_s = std::min(launch_s, point.seconds - point.bytes / copy_bytes_s);
  return std::max(launch_s, std::min(least_s, first_s));
}

double point_flops(const KernelTable& table, const KernelPoint& point) {
  return square_pairs(point.sequence, table.causal) * static_cast<double>(point.batch * point.heads) *
         flops_per_pair(table.kind, table.head_size, table.value_size);
}

KernelCostFunction standard_kernel_cost(const Hardware& hardware, ClockLift lift) {
  const auto standard = std::make_shared<StandardCost>(hardware, std::move(lift));
  return [standard](const Plan& plan, const CallConverter& calls, const Operation& op) {
    return (*standard)(plan, calls, op);
  };
}

}  // namespace cplab
