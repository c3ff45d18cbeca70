// Random inputs that can see what a problem asks for: with standard normal ones a softcap of 50, a scale near
// the default or a window that hides one key change a result by less than its tolerance, and a kernel that
// forgets them would pass.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/verify/tensors.hpp"
#include "plan/problem.hpp"

namespace cplab {

struct VisibleInputs {
  Inputs inputs;
  std::vector<std::string> notes;  // that q was made larger, and what still cannot be seen in which tensors
};

// random_inputs of the seed, of softmax and dynamic mask attention with q times the least power of two up to
// 64 with which every feature of the problem (softcap, window, scale, bias, keep, block) changes every output
// by ten tolerances at least. What changes is computed on a small part of the problem: one key head, at most
// 128 tokens, with windows, counts of keys and slopes in proportion. Depends on the problem and the seed
// alone.
VisibleInputs visible_inputs(const Problem&, std::uint64_t seed);

}  // namespace cplab
