// Messages between nodes: one GPU on each, a process each, over NCCL.
#pragma once

#include <string>

#include "calibrate/machine.hpp"

namespace cplab::measure {

// What the processes of the nodes find each other by. Throws Error.
std::string new_nccl_id();

// To be called in one process on every node with the id of the first. GPU 0 of each takes part. The tables
// are the same on all, of the slowest node. Throws Error; waits for nodes that do not come.
void measure_between_nodes(const std::string& id, int node, int nodes, std::uint64_t seed, Measurement& into);

}  // namespace cplab::measure
