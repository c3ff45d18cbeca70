// The networks between nodes: one row each, by the name that `network.fabric` gives. A new one is a row in
// fabrics.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/flow_engine.hpp"
#include "sim/hardware.hpp"

namespace cplab {

struct FabricType {
  std::string_view name;
  // False: one node only, and the rest of [network] does not count. All others take nics, nic_bytes_s and
  // max_nodes.
  bool joins_nodes = true;
  // What is wrong with the [[network.level]] tables, as a rule for the user; empty: nothing. That up_bytes_s
  // is in range is for validate (sim/hardware.hpp) to see.
  std::string (*levels_fault)(const NetworkSpec&) = nullptr;
  // The switches with limited uplinks, from the lowest level up. Of a machine that passed validate.
  std::vector<Fabric::Switches> (*switches)(const Hardware&) = nullptr;
};

// In the order in which a message names them.
std::span<const FabricType> fabric_types();

// The row of network.fabric; an empty name is "none". Throws HardwareError if there is no such row.
const FabricType& fabric_type(const NetworkSpec&);

// The links of the first `ranks` GPUs of a machine that passed validate. Bandwidths in bytes per microsecond.
Fabric make_fabric(const Hardware&, int ranks, int ports);

}  // namespace cplab
