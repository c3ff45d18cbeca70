// Which links a flow takes; see flow_engine.hpp.
#include "sim/flow_engine.hpp"

#include <algorithm>

namespace cplab {

int Fabric::level(int from, int to) const {
  if (from / ranks_per_node == to / ranks_per_node) return 0;
  int level = 1;
  for (const Switches& s : switches) {
    if (s.switch_of(from) == s.switch_of(to)) return level;
    ++level;
  }
  return level;
}

double Fabric::link_bytes_us_of(int rank) const {
  return link_bytes_us * (link_factor.empty() ? 1 : link_factor[static_cast<std::size_t>(rank)]);
}

double Fabric::nic_bytes_us_of(int nic) const {
  double factor = 1;
  if (!nic_factor.empty()) {
    const int nics = (ranks_per_node + ranks_per_nic - 1) / ranks_per_nic;  // of a node
    const int first = nic / nics * ranks_per_node + nic % nics * ranks_per_nic;
    for (int rank = first; rank < std::min(first + ranks_per_nic, ranks); ++rank)
      factor = std::min(factor, nic_factor[static_cast<std::size_t>(rank)]);
  }
  return nic_bytes_us * factor;
}

}  // namespace cplab
