// Figures of a simulation or a run as text and tables.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/figures.hpp"
#include "report/table.hpp"
#include "report/units.hpp"
#include "report/variants.hpp"

namespace cplab {

// For people: ms, and the byte units that fit. For files: seconds and bytes, all digits.
enum class Audience { people, files };

// One row a rank: times, exposed communication, memory, bytes sent and received. For people.
TextTable rank_table(const Figures&);

// What is one number of the whole: stands in every row of a file, so that each row says all.
struct Totals {
  double time_s = 0;
  std::optional<std::pair<double, double>> band;  // low and high, of a prediction
  Fit fit;
};
TextTable rank_table_for_files(const Figures&, const Totals&);

// Whether it fits, and what is counted, in one line.
std::string fit_text(const Fit&);

// A line for every kernel: how many operations it carries out, and its shares.
void write_variants(std::ostream&, const std::vector<VariantFigures>&, const TextStyle&);

// Phases, exposed communication, messages, peak memory by buffer, then the rank table (of many ranks the
// worst, the best and the mean, unless all are wanted). The caller has written what was done, how long it
// took and whether it fits.
void write_figures(std::ostream&, const Figures&, const Fit&, const TextStyle&, bool all_ranks);

}  // namespace cplab
