// See units.hpp.
#include "report/units.hpp"

#include <array>
#include <cmath>
#include <cstddef>

#include "report/table.hpp"

namespace cplab {
namespace {

template <std::size_t N>
Unit unit_for(double largest, double base, const std::array<const char*, N>& names) {
  Unit unit{names[0], 1};
  for (std::size_t i = 1; i < N && largest >= base * unit.size; ++i) unit = {names[i], unit.size * base};
  return unit;
}

std::string text_in(const Unit& unit, double value) {
  return unit.text(value) + " " + unit.name;
}

}  // namespace

std::string Unit::text(double value, int decimals) const {
  return format_fixed(value / size, size > 1 ? decimals : 0);
}

Unit byte_unit(double largest) {
  return unit_for(largest, 1024, std::array{"bytes", "KiB", "MiB", "GiB"});
}

Unit flop_unit(double largest) {
  return unit_for(largest, 1000, std::array{"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"});
}

std::string bytes_text(double bytes) {
  return text_in(byte_unit(std::abs(bytes)), bytes);
}

std::string flops_text(double flops) {
  return text_in(flop_unit(std::abs(flops)), flops);
}

}  // namespace cplab
