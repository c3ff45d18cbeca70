// What of a window changes nothing, which is legal and may be a mistake.
#pragma once

#include <string>
#include <vector>

#include "plan/problem.hpp"

namespace cplab {

// A note for each side of the window that no sequence is long enough for, and for the right side under a
// causal mask.
void note_window(const Problem&, std::vector<std::string>& notes);

}  // namespace cplab
