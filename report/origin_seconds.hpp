// Seconds divided by where they come from.
#pragma once

#include <array>
#include <cstddef>

#include "report/timeline.hpp"

namespace cplab {

struct OriginSeconds {
  std::array<double, 4> seconds{};
  void add(Origin origin, double s) { seconds[static_cast<std::size_t>(origin)] += s; }
  double of(Origin origin) const { return seconds[static_cast<std::size_t>(origin)]; }
  double total() const { return seconds[0] + seconds[1] + seconds[2] + seconds[3]; }
  double share(Origin origin) const { return total() > 0 ? of(origin) / total() : 0; }
  void scale(double factor);
  void raise(Origin floor);  // what is better known than that counts as that
  Origin most() const;       // that of most seconds, of equal ones the worse
};

}  // namespace cplab
