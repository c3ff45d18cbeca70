// See tile_ratios.hpp.
#include "sim/tile_ratios.hpp"

#include <cmath>
#include <iterator>

#include "sim/table_walk.hpp"

namespace cplab {
namespace {

// `ratio_at` makes a TileRatio of a map's value.
template <class Value, class RatioAt>
TileRatio interpolate(const std::map<double, Value>& points, double x, Origin outside, RatioAt ratio_at) {
  const auto above = point_at_or_above(points, x);
  if (lies_at(points, above, x)) return ratio_at(above->second);
  if (above == points.end() || above == points.begin()) {
    const TileRatio nearest = ratio_at(above == points.end() ? points.rbegin()->second : above->second);
    return {nearest.of_model, worst(nearest.origin, outside)};
  }
  const auto below = std::prev(above);
  const TileRatio low = ratio_at(below->second), high = ratio_at(above->second);
  const double fraction = std::log(x / below->first) / std::log(above->first / below->first);
  return {low.of_model + fraction * (high.of_model - low.of_model),
          worst(worst(low.origin, high.origin), Origin::interpolated)};
}

}  // namespace

bool TileRatios::takes(const KernelTable& t) const {
  return t.kind == table->kind && t.dtype == table->dtype && t.head_size == table->head_size &&
         t.value_size == table->value_size && t.causal == table->causal && family_of(t) == family;
}

TileRatio TileRatios::at(double keys_per_row, double tiles) const {
  for (; read_ < tables_.size(); ++read_) read(*tables_[read_]);
  return interpolate(ratios_, keys_per_row, Origin::extrapolated,
                     [&](const std::map<double, TileRatio>& by_tiles) {
                       // Any other number of tiles is what the model of tiles is for.
                       return interpolate(by_tiles, tiles, Origin::interpolated,
                                          [](const TileRatio& ratio) { return ratio; });
                     });
}

// A table of another GPU's multiprocessors is compared with the model of that many.
void TileRatios::read(const KernelTable& t) const {
  const int own_sms = t.sms > 0 ? t.sms : hardware_->gpu.sms;
  const Origin origin =
      worst(t.provenance.origin, own_sms == hardware_->gpu.sms ? Origin::measured : Origin::extrapolated);
  for (const KernelPoint& point : t.points) {
    const double met = square_pairs(point.sequence, t.causal) / static_cast<double>(point.sequence);
    const double seconds = t.sustained ? point.seconds : point.seconds * burst_;
    // Of two equal points the first counts.
    const PointTiles tiles = point_tiles(t, point, *hardware_, own_sms);
    ratios_[met].try_emplace(tiles.tiles, TileRatio{tiles.tiles_s / seconds, origin});
  }
}

}  // namespace cplab
