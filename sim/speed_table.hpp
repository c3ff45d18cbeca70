// Speeds of attention kernels from measured tables, and between their points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "sim/attention_variant.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// Thread blocks of a launch without a list of tiles.
double blocks_of(std::int64_t rows, std::int64_t heads, int tile_rows);
// Live pairs of the squares that tables are measured on.
double square_pairs(std::int64_t sequence, bool causal);

// Of a kernel with all multiprocessors busy; `of_model`: the time of the model of tiles over the measured one
// (0: not of ours).
struct Speed {
  double flops_s = 0, of_model = 0;
  Origin origin = Origin::measured;
};

// All tables of one kind, family, dtype, head size, mask and tile height: speeds by keys per query row (or
// its mean with queries per key, KernelTable::both_sides, the same of a square), then by thread blocks.
// `burst`: speed at the highest clock over that under load. What is passed must outlive it; one thread at a
// time.
class SpeedTable {
 public:
  SpeedTable(const KernelTable& first, const Hardware& hardware, double burst)
      : table(&first), family(family_of(first)), hardware_(&hardware), burst_(burst) {}

  const KernelTable* table;  // the first of them
  KernelFamily family;

  bool takes(const KernelTable&) const;
  void add(const KernelTable& t) { tables_.push_back(&t); }

  // Linear in log x between points, constant outside. The origin is the worst of the points in use, and
  // interpolated between two, extrapolated outside.
  Speed speed(double keys_per_row, double blocks) const;

 private:
  void read(const KernelTable&) const;

  const Hardware* hardware_;
  double burst_;
  std::vector<const KernelTable*> tables_;
  mutable std::size_t read_ = 0;  // of them: cutting their points into tiles takes time
  mutable std::map<double, std::map<double, Speed>> speeds_;
};

}  // namespace cplab
