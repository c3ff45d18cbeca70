// See product_cost.hpp.
#include "sim/product_cost.hpp"

#include <algorithm>
#include <cmath>

#include "sim/class_efficiency.hpp"
#include "sim/waves.hpp"

namespace cplab {
namespace {

constexpr double least_terms = 1024;  // that a thread block sums up where several share a result

// Thread blocks of a product of so many rows and columns, `groups` times.
double blocks_of(double rows, double columns, double groups) {
  constexpr double tile_rows = 128, tile_columns = 256;
  return std::ceil(rows / tile_rows) * std::ceil(columns / tile_columns) * groups;
}

double blocks_of(const RankPlan& plan, const Operation& op) {
  const auto width = [&](Operand operand) {
    const View& v = plan.view_of(op, operand);
    return static_cast<double>(v.width_end - v.width_begin);
  };
  const double heads = op.head_end - op.head_begin;
  if (op.kind == OpKind::weight_gradient) {
    const double latent = width(Operand::latent);
    return blocks_of(latent, width(Operand::dkey_weights) / latent, heads) +
           blocks_of(latent, width(Operand::dv), heads);
  }
  const bool forward = op.kind == OpKind::project;
  const View& rows = plan.view_of(op, forward ? Operand::k : Operand::dk);
  const auto count = static_cast<double>(row_count(plan.rows_of(rows)));
  if (!forward) return blocks_of(count, width(Operand::dlatent), 1);
  const double latent = width(Operand::latent);
  return blocks_of(count, heads * width(Operand::key_weights) / latent, 1) +
         blocks_of(count, heads * width(Operand::v), 1);
}

}  // namespace

KernelCost product_cost(const Hardware& hardware, const RankPlan& plan, const Operation& op, DType nominal) {
  const GpuSpec& gpu = hardware.gpu;
  const Efficiency share = efficiency_of(hardware, KernelClass::gemm, name(nominal));
  const double peak = gpu.peak(name(nominal)), moved_s = static_cast<double>(op.bytes) / gpu.copy_bytes_s;
  double blocks = blocks_of(plan, op);
  // Of few results: one that a thread block sums up alone takes 2 x 128 x 256 for each term of the sum.
  const double terms = op.flops / (2.0 * 128 * 256 * std::max(1.0, blocks));
  blocks = std::max(blocks, std::min<double>(gpu.sms, blocks * std::ceil(terms / least_terms)));
  const Waves waves = waves_of(std::max(1.0, blocks), gpu.sms);
  const double computed_s = peak > 0 ? op.flops / (peak * share.share * waves.fill) : 0;
  KernelCost cost;
  cost.seconds = std::max(computed_s, moved_s);
  cost.waves = waves.count;
  cost.tail_sms = waves.tail_sms;
  cost.useful_sms = computed_s >= moved_s ? gpu.sms : (gpu.sms + 1) / 2;
  // The share is that of other shapes at best; without a peak only memory is counted.
  cost.origin =
      worst(worst(gpu.provenance.origin, share.origin), peak > 0 ? Origin::interpolated : Origin::assumed);
  return cost;
}

}  // namespace cplab
