// Whether the plan of a candidate was proved right: checked as it would run, or not at all.
#pragma once

#include <string>

#include "decide/step.hpp"

namespace cplab {

// "yes"; "NO: kind, rank, operation: message"; "not checked" where that takes longer than `most_s`; "not in
// the vocabulary" where an attention was priced by a formula. The check runs in a child process, which ends
// with its time.
std::string proof_of(StepModel&, const ModelLayout&, double most_s);

}  // namespace cplab
