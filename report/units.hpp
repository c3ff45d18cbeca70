// Units of bytes and FLOPs in which numbers are legible.
#pragma once

#include <string>

namespace cplab {

// A unit in which the numbers of one column are legible.
struct Unit {
  std::string name;
  double size = 1;  // in bytes, or FLOP
  std::string text(double value, int decimals = 2) const;
};
Unit byte_unit(double largest);  // bytes, KiB, MiB, GiB
Unit flop_unit(double largest);  // FLOP, kFLOP, ... PFLOP

// "12.34 MiB", "1.20 TFLOP"
std::string bytes_text(double bytes);
std::string flops_text(double flops);

}  // namespace cplab
