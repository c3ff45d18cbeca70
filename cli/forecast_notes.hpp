// Where a forecast leaves what was measured, in sentences.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "report/timeline.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// Each kind of departure once, with how far it goes and where it is farthest: a machine of a data sheet; tables
// of another GPU's multiprocessors or of other links; a head size that no table has; keys or bytes beyond the
// last point of a table; attention far below what long attention reaches on this GPU, of work that is no
// launch. `timeline` has variants. `links_set`: links were set by hand, who knows. At most 64 ranks are looked
// at, evenly spread.
std::vector<std::string> forecast_notes(const Plan&, const Hardware&, const Timeline&, bool links_set);

}  // namespace cplab
