// Resolves what a user asked for: canonical names, and a value for every option.
#pragma once

#include "plan/problem.hpp"

namespace cplab {

// The scenario with canonical names and every default filled in. Throws ScenarioError (key, message with
// the legal values) for anything that cannot be: unknown names, illegal option values, sizes that overflow.
Scenario resolve(Scenario);

}  // namespace cplab
