// See speed_table.hpp.
#include "sim/speed_table.hpp"

#include <cmath>
#include <iterator>

#include "plan/live_pairs.hpp"
#include "sim/kernel_cost.hpp"
#include "sim/waves.hpp"

namespace cplab {
namespace {

// `speed_at` makes a Speed of a map's value.
template <class Value, class SpeedAt>
Speed interpolate(const std::map<double, Value>& points, double x, Origin outside, SpeedAt speed_at) {
  const double tolerance = 1e-12 * x;  // keys per row and blocks are small fractions, equal up to rounding
  const auto above = points.lower_bound(x - tolerance);
  if (above != points.end() && above->first <= x + tolerance) return speed_at(above->second);
  if (above == points.end() || above == points.begin()) {
    const Speed nearest = speed_at(above == points.end() ? points.rbegin()->second : above->second);
    return {nearest.flops_s, nearest.of_model, worst(nearest.origin, outside)};
  }
  const auto below = std::prev(above);
  const Speed low = speed_at(below->second), high = speed_at(above->second);
  const double fraction = std::log(x / below->first) / std::log(above->first / below->first);
  return {low.flops_s + fraction * (high.flops_s - low.flops_s),
          low.of_model + fraction * (high.of_model - low.of_model),
          worst(worst(low.origin, high.origin), Origin::interpolated)};
}

}  // namespace

double blocks_of(std::int64_t rows, std::int64_t heads, int tile_rows) {
  return static_cast<double>(rows / tile_rows + (rows % tile_rows != 0)) * static_cast<double>(heads);
}

double square_pairs(std::int64_t sequence, bool causal) {
  const auto s = static_cast<double>(sequence);
  return causal ? s * (s + 1) / 2 : s * s;
}

double point_flops(const KernelTable& table, const KernelPoint& point) {
  return square_pairs(point.sequence, table.causal) * static_cast<double>(point.batch * point.heads) *
         flops_per_pair(table.kind, table.head_size, table.value_size);
}

bool SpeedTable::takes(const KernelTable& t) const {
  return t.kind == table->kind && t.dtype == table->dtype && t.head_size == table->head_size &&
         t.value_size == table->value_size && t.causal == table->causal && t.tile_rows == table->tile_rows &&
         t.both_sides == table->both_sides && family_of(t) == family;
}

Speed SpeedTable::speed(double keys_per_row, double blocks) const {
  for (; read_ < tables_.size(); ++read_) read(*tables_[read_]);
  return interpolate(
      speeds_, keys_per_row, Origin::extrapolated, [&](const std::map<double, Speed>& by_blocks) {
        // Any other number of thread blocks is what the models of waves and of tiles are for.
        return interpolate(by_blocks, blocks, Origin::interpolated, [](const Speed& s) { return s; });
      });
}

// A table of another GPU's multiprocessors is scaled to those of the file.
void SpeedTable::read(const KernelTable& t) const {
  const int own_sms = t.sms > 0 ? t.sms : hardware_->gpu.sms;
  const double scale = static_cast<double>(hardware_->gpu.sms) / own_sms;
  const Origin origin =
      worst(t.provenance.origin, own_sms == hardware_->gpu.sms ? Origin::measured : Origin::extrapolated);
  for (const KernelPoint& point : t.points) {
    const double pairs = square_pairs(point.sequence, t.causal);
    const double blocks = blocks_of(point.sequence, point.batch * point.heads, t.tile_rows);
    const double seconds = t.sustained ? point.seconds : point.seconds * burst_;
    const double flops_s = scale * point_flops(t, point) / (seconds * waves_of(blocks, own_sms).fill);
    const double of_model =
        family == KernelFamily::foreign ? 0 : point_tiles_s(t, point, *hardware_, own_sms) / seconds;
    // Of two equal points the first counts.
    speeds_[pairs / static_cast<double>(point.sequence)].try_emplace(blocks,
                                                                     Speed{flops_s, of_model, origin});
  }
}

}  // namespace cplab
