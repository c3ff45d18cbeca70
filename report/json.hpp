// Results as JSON, with the keys of DESIGN.md section 6. Keys are in a fixed order and numbers round trip, so
// equal results are equal files. NaN and infinities are null; so are values that a result does not have (a
// rank of -1, an empty operation id).
#pragma once

#include <iosfwd>

#include "report/results.hpp"

namespace cplab {

void write_json(std::ostream&, const SimulateReport&);
void write_json(std::ostream&, const RunReport&);
void write_json(std::ostream&, const VerifyReport&);
void write_json(std::ostream&, const CheckReport&);
void write_json(std::ostream&, const CompareReport&);
void write_json(std::ostream&, const ReproduceReport&);
void write_json(std::ostream&, const ListReport&);

}  // namespace cplab
