// Figures of a simulation or a run as text and tables.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "report/figures.hpp"
#include "report/table.hpp"
#include "report/variants.hpp"

namespace cplab {

// A unit in which the numbers of one column are legible.
struct Unit {
  std::string name;
  double size = 1;  // in bytes, or FLOP
  std::string text(double value, int decimals = 2) const;
};
Unit byte_unit(double largest);  // bytes, KiB, MiB, GiB
Unit flop_unit(double largest);  // FLOP, kFLOP, ... PFLOP

// "12.34 MiB"
std::string bytes_text(double bytes);

// For people: ms, and the byte units that fit. For files: seconds and bytes, all digits.
enum class Audience { people, files };

// One row a rank: times, exposed communication, memory, bytes sent and received.
TextTable rank_table(const Figures&, Audience);

// A line for every kernel: how many operations it carries out, and its shares.
void write_variants(std::ostream&, const std::vector<VariantFigures>&);

// Phases, exposed communication, peak memory by buffer, whether it fits, then the rank table (of up to 64
// ranks). The caller has written what was done and how long it took.
void write_figures(std::ostream&, const Figures&, const std::optional<Fit>&, bool color);

}  // namespace cplab
