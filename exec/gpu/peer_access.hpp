// Whether the GPUs that a plan's copies go between can write into each other's memory.
#pragma once

#include <functional>

#include "plan/plan.hpp"

namespace cplab {

// Calls can_access(from, into), numbers of devices, once for every two GPUs that a message of the link copy
// goes between; `device_of` gives the GPU of a rank, -1 if it is out of this machine's reach. Throws GpuError
// that names the first operation whose message cannot go, its ranks and GPUs, and what would do.
void require_peer_access(const Plan& plan, const std::function<int(int)>& device_of,
                         const std::function<bool(int, int)>& can_access);

}  // namespace cplab
