// The rule by which a problem selects keys, in the kernels' terms.
#pragma once

#include "kernels/masked.hpp"
#include "plan/problem.hpp"

namespace cplab {

// A call without keys, bias and keep, which whoever has memory adds.
kernels::SelectKeys selection_call(const Problem&);

}  // namespace cplab
