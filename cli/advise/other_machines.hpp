// The machine that people ask about beside theirs: H200 for H100, and so on.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/hardware.hpp"

namespace cplab {

// Shipped machines of the next GPU, with the same GPUs a node and NICs as that one where they have a network,
// by what an answer calls them ("H200 for H100"). Empty for a GPU that has none, or without the shipped
// files.
std::vector<std::pair<std::string, Hardware>> next_machines(const Hardware&, std::int64_t gpus);

}  // namespace cplab
