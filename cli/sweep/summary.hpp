// What a person reads of a sweep: the fastest points, the front of time against memory, what was refused.
#pragma once

#include <iosfwd>

#include "report/sweep.hpp"
#include "report/table.hpp"

namespace cplab {

void write_summary(std::ostream&, const SweepReport&, const TextStyle&);

}  // namespace cplab
