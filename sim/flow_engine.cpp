// Which links a flow takes; see flow_engine.hpp.
#include "sim/flow_engine.hpp"

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

}  // namespace cplab
