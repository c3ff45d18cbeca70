// Numbers that no machine has and that somebody meant in another unit: 450 where 450e9 bytes/s was meant. The
// ranges are wide enough for teaching machines and for those of the next decades; validate (sim/hardware.hpp)
// says what the simulator can compute with, this what can have been meant.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/hardware.hpp"

namespace cplab {

enum class NumberUnit : std::uint8_t { bytes_s, network_bytes_s, flops_s, bytes, seconds, count, factor };

// One number of a hardware file: what it may be, where it usually is (for "did you mean"), and why.
struct PlausibleRange {
  std::string_view key;  // "node.link_bytes_s"
  NumberUnit unit;
  double low, high;
  double usual_low, usual_high;
  std::string_view reason;  // of low and high
};
std::span<const PlausibleRange> plausible_ranges();

// A number in a message: 0.001, 4.5e+11.
std::string six_digits(double value);

// The numbers outside their ranges, but for those that validate refuses (0 and less), with the value in the
// unit that was probably meant.
std::vector<HardwareError> implausible_numbers(const Hardware&);

// Of a NIC's rate that the file gives as `text`: what to say of a letter without a unit ("400G" is 400 GB/s)
// that makes it faster than any NIC of 2026, whose rates are quoted in bits. Empty: nothing.
std::string bits_meant(const std::string& text, double bytes_s);

// Rows of [[kernel]] and [[message]] that the machine's own peaks and links contradict: faster than they
// allow, or so slow that seconds or bytes must have been given in another unit; of each entry the first. Of a
// machine that passed validate, but for the entries in `known`.
std::vector<HardwareError> implausible_rows(const Hardware&, std::span<const HardwareError> known);

}  // namespace cplab
