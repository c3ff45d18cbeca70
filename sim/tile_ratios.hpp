// How far the model of tiles is from the times of our own kernels, at the points of measured tables and
// between them.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "sim/attention_variant.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// The time of the model of tiles over the measured one.
struct TileRatio {
  double of_model = 1;
  Origin origin = Origin::measured;
};

// All tables of one kind, family, dtype, head size and mask: ratios by keys per query row, then by tiles.
// Kernels of all tile heights are in one, so that where another height is taken the ratio does not jump.
// `burst`: speed at the highest clock over that under load. What is passed must outlive it; one thread at a
// time.
class TileRatios {
 public:
  TileRatios(const KernelTable& first, const Hardware& hardware, double burst)
      : table(&first), family(family_of(first)), hardware_(&hardware), burst_(burst) {}

  const KernelTable* table;  // the first of them
  KernelFamily family;

  bool takes(const KernelTable&) const;
  void add(const KernelTable& t) { tables_.push_back(&t); }

  // Linear in log x between points, constant outside. The origin is the worst of the points in use, and
  // interpolated between two, extrapolated outside.
  TileRatio at(double keys_per_row, double tiles) const;

 private:
  void read(const KernelTable&) const;

  const Hardware* hardware_;
  double burst_;
  std::vector<const KernelTable*> tables_;
  mutable std::size_t read_ = 0;  // of them: cutting their points into tiles takes time
  mutable std::map<double, std::map<double, TileRatio>> ratios_;
};

}  // namespace cplab
