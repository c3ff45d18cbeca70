// What a plan written in Python stands on: the tokens of every rank and the tiles between any of them, from
// the code that the algorithms use.
#pragma once

#include <nanobind/nanobind.h>

namespace cplab {

// Adds the class PlanFrame to the module.
void add_plan_frame(nanobind::module_&);

}  // namespace cplab
