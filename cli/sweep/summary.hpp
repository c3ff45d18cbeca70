// What a person reads of a sweep: the fastest points, the front of time against memory, what was refused.
#pragma once

#include <iosfwd>

#include "cli/picture.hpp"
#include "report/sweep.hpp"
#include "report/table.hpp"

namespace cplab {

void write_summary(std::ostream&, const SweepReport&, const TextStyle&);
// Bars and the front as pictures, for a terminal; nothing elsewhere.
void write_pictures(std::ostream&, const SweepReport&, const PictureStyle&);

}  // namespace cplab
