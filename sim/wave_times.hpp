// Times of attention kernels of which no more is known than a table: a library's, or a family's whose tiles
// are not those of the call.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "sim/attention_variant.hpp"
#include "sim/hardware.hpp"
#include "sim/kernel_cost.hpp"
#include "sim/table_walk.hpp"

namespace cplab {

// All tables of one kind, family, dtype, head size, mask and tile height, as times of whole waves of tiles:
// a tile of few rows takes as long as one of all, and a wave that is not full as long as a full one. A call
// is a launch and its waves. What is passed must outlive it; one thread at a time.
class WaveTimes {
 public:
  WaveTimes(const KernelTable& first, const Hardware& hardware, double burst);

  const KernelTable* table;  // the first of them
  KernelFamily family;

  bool takes(const KernelTable&) const;
  void add(const KernelTable& t);

  // What a call takes beside its waves. Where the first two points are of one wave, what the line through
  // them leaves where tiles walk over nothing: a call may be several launches. Else, and at least, the least
  // kernel.
  double launch_s() const;
  double shortest_s() const { return shortest_s_; }  // of all points
  // Of so many waves, beside that launch: of tiles that walk over nothing, where the line through the first
  // two points is, if that is above 0; and for each row more than at the last point.
  struct Ends {
    double launch_s = 0, unwalked_s = 0, row_s = 0;
  };
  Ends ends(double waves, double launch_s) const;
  // Seconds of so many waves, beside the launch, of tiles whose rows walk over so many of the other side. At
  // equal waves linear in `met` between points and beyond them, to what the ends say. At equal `met` linear
  // in waves between points, in proportion outside. So it grows with both where points do.
  Estimate waves_s(double met, double waves, const Ends& ends) const;
  // Whether that many tiles are what a point was measured on.
  bool is_point(double met, double tiles) const;

 private:
  using ByWaves = std::map<double, Estimate>;  // with the launch

  Estimate waves_at(const ByWaves&, double waves, double launch_s) const;

  const Hardware* hardware_;
  double burst_, shortest_s_;
  std::map<double, ByWaves> points_;
  std::map<double, std::vector<double>> tiles_;  // of points, by `met`
};

// The tiles of a segment, all heads together.
struct SegmentTiles {
  double tiles = 0;
  TableWalk walk;
  const WaveTimes* causal = nullptr;  // the tables of either mask
  const WaveTimes* full = nullptr;
  Origin causal_floor = Origin::measured, full_floor = Origin::measured;  // of another mask or head size
  double causal_scale = 1, full_scale = 1;  // FLOPs of a pair over those of the table's

  // Both masks have the launch of the full one's table, and of short walks what that says of a tile that
  // walks over nothing, since neither depends on a mask.
  double launch_s() const;
  // Beside the launch. Adds to `parts`, if there are any, by the origins of
  // what it is made of.
  double waves_s(double waves, OriginSeconds* parts = nullptr) const;
};

// The time of a launch on `sms` multiprocessors, the tiles that take longest first: as many waves are of the
// longest as these fill, the rest of a wave is of the next, and takes as long. So the order of segments does
// not count, and a launch takes no longer than two that have its tiles. Origins are left to the caller.
double launch_s(std::vector<SegmentTiles> segments, int sms, OriginSeconds& parts);

}  // namespace cplab
