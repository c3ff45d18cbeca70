// See wave_times.hpp.
#include "sim/wave_times.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "sim/waves.hpp"

namespace cplab {

WaveTimes::WaveTimes(const KernelTable& first, const Hardware& hardware, double burst)
    : table(&first),
      family(family_of(first)),
      hardware_(&hardware),
      burst_(burst),
      shortest_s_(std::numeric_limits<double>::infinity()) {}

bool WaveTimes::takes(const KernelTable& t) const {
  return t.kind == table->kind && t.dtype == table->dtype && t.head_size == table->head_size &&
         t.value_size == table->value_size && t.causal == table->causal && t.tile_rows == table->tile_rows &&
         t.both_sides == table->both_sides && family_of(t) == family;
}

// A table of another GPU's multiprocessors: a wave of theirs takes as long as one of the file's.
void WaveTimes::add(const KernelTable& t) {
  const int own_sms = t.sms > 0 ? t.sms : hardware_->gpu.sms;
  const Origin origin =
      worst(t.provenance.origin, own_sms == hardware_->gpu.sms ? Origin::measured : Origin::extrapolated);
  for (const KernelPoint& point : t.points) {
    const double met = square_pairs(point.sequence, t.causal) / static_cast<double>(point.sequence);
    const double tiles = blocks_of(point.sequence, point.batch * point.heads, t.tile_rows);
    const double seconds = t.sustained ? point.seconds : point.seconds * burst_;
    shortest_s_ = std::min(shortest_s_, seconds);
    tiles_[met].push_back(tiles);
    // Of two equal points the first counts.
    points_[met].try_emplace(waves_of(tiles, own_sms).count, Estimate{seconds, origin});
  }
}

bool WaveTimes::is_point(double met, double tiles) const {
  const auto at = point_at_or_above(tiles_, met);
  return lies_at(tiles_, at, met) &&
         std::find(at->second.begin(), at->second.end(), tiles) != at->second.end();
}

double WaveTimes::launch_s() const {
  const double least_s = hardware_->gpu.least_kernel_s;
  if (points_.size() < 2) return least_s;
  const auto& low = *points_.begin();
  const auto& high = *std::next(points_.begin());
  if (low.second.begin()->first > 1 || high.second.begin()->first > 1) return least_s;
  const double at_low = low.second.begin()->second.seconds, at_high = high.second.begin()->second.seconds;
  return std::max(least_s, at_low - (at_high - at_low) * low.first / (high.first - low.first));
}

Estimate WaveTimes::waves_at(const ByWaves& points, double waves, double launch_s) const {
  const auto above = point_at_or_above(points, waves);
  const auto own = [&](const ByWaves::value_type& point) { return point.second.seconds - launch_s; };
  if (lies_at(points, above, waves)) return {own(*above), above->second.origin};
  if (above == points.begin() || above == points.end()) {
    const auto& nearest = above == points.end() ? *points.rbegin() : *above;
    return {own(nearest) * waves / nearest.first, worst(nearest.second.origin, Origin::interpolated)};
  }
  const auto& low = *std::prev(above);
  return {own(low) + (own(*above) - own(low)) * (waves - low.first) / (above->first - low.first),
          worst(worst(low.second.origin, above->second.origin), Origin::interpolated)};
}

WaveTimes::Ends WaveTimes::ends(double waves, double launch_s) const {
  const auto& low = *points_.begin();
  const auto& last = *points_.rbegin();
  const double at_low = waves_at(low.second, waves, launch_s).seconds,
               at_last = waves_at(last.second, waves, launch_s).seconds;
  Ends ends{launch_s, 0, at_last / last.first};
  if (points_.size() < 2) return ends;
  const auto& high = *std::next(points_.begin());
  const double at_high = waves_at(high.second, waves, launch_s).seconds;
  ends.unwalked_s = std::max(0.0, at_low - (at_high - at_low) * low.first / (high.first - low.first));
  return ends;
}

Estimate WaveTimes::waves_s(double met, double waves, const Ends& ends) const {
  const auto above = point_at_or_above(points_, met);
  if (lies_at(points_, above, met)) return waves_at(above->second, waves, ends.launch_s);
  const auto end = above == points_.end() ? std::prev(above) : above;
  const Estimate high = waves_at(end->second, waves, ends.launch_s);
  if (above == points_.end())
    return {high.seconds + (met - end->first) * ends.row_s, worst(high.origin, Origin::extrapolated)};
  if (above == points_.begin()) {
    const double first_s = std::min(ends.unwalked_s, high.seconds);
    return {first_s + (high.seconds - first_s) * met / end->first, worst(high.origin, Origin::extrapolated)};
  }
  const auto below = std::prev(above);
  const Estimate low = waves_at(below->second, waves, ends.launch_s);
  const double fraction = (met - below->first) / (end->first - below->first);
  return {low.seconds + fraction * (high.seconds - low.seconds),
          worst(worst(low.origin, high.origin), Origin::interpolated)};
}

double SegmentTiles::launch_s() const {
  return std::min({full->launch_s(), full->shortest_s(), causal->shortest_s()});
}

double SegmentTiles::waves_s(double waves, OriginSeconds* parts) const {
  const WaveTimes::Ends of_full = full->ends(waves, launch_s());
  double sum = 0;
  const auto with = [&](const WaveTimes* table, double scale, Origin floor) {
    const double to_own = full_scale / scale;
    const WaveTimes::Ends ends{of_full.launch_s, of_full.unwalked_s * to_own, of_full.row_s * to_own};
    return [=](double met) {
      const Estimate at = table->waves_s(met, waves, ends);
      return Estimate{scale * at.seconds, worst(floor, at.origin)};
    };
  };
  walk.read(with(causal, causal_scale, causal_floor), with(full, full_scale, full_floor),
            [&](const Estimate& at, double weight) {
              sum += weight * at.seconds;
              if (parts) parts->add(at.origin, weight * at.seconds);
            });
  return sum;
}

double launch_s(std::vector<SegmentTiles> segments, int sms, OriginSeconds& parts) {
  double tiles = 0, launch = 0;
  for (const SegmentTiles& segment : segments) {
    tiles += segment.tiles;
    launch = std::max(launch, segment.launch_s());
  }
  const double waves = waves_of(tiles, sms).count;
  // Equal ones are one kind, so that a batch is met at its own point of a table.
  struct Kind {
    double wave_s;
    const SegmentTiles* like;
    double tiles;
  };
  std::stable_sort(segments.begin(), segments.end(), [](const SegmentTiles& a, const SegmentTiles& b) {
    return std::pair(a.walk.met, a.walk.reach) < std::pair(b.walk.met, b.walk.reach);
  });
  std::vector<Kind> kinds;
  for (const SegmentTiles& segment : segments) {
    const TableWalk* last = kinds.empty() ? nullptr : &kinds.back().like->walk;
    if (last && last->met == segment.walk.met && last->reach == segment.walk.reach)
      kinds.back().tiles += segment.tiles;
    else
      kinds.push_back({segment.waves_s(waves), &segment, segment.tiles});
  }
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const Kind& a, const Kind& b) { return a.wave_s > b.wave_s; });
  double sum = launch, before = 0;
  tiles = 0;
  for (const Kind& kind : kinds) {
    tiles += kind.tiles;
    const double now = std::ceil(tiles / sms);
    if (now <= before) continue;
    OriginSeconds own;
    const double its_s = kind.like->waves_s(now, &own) - (before > 0 ? kind.like->waves_s(before) : 0);
    for (std::size_t n = 0; n < own.seconds.size(); ++n)
      parts.seconds[n] += own.total() > 0 ? its_s * own.seconds[n] / own.total() : 0;
    sum += its_s;
    before = now;
  }
  return sum;
}

}  // namespace cplab
