// The table of networks; see fabrics.hpp.
#include "sim/fabrics.hpp"

#include <algorithm>
#include <array>

namespace cplab {
namespace {

std::string no_levels(const NetworkSpec& network) {
  return network.levels.empty() ? "" : "this fabric has no levels of switches with limited uplinks";
}

std::vector<Fabric::Switches> no_switches(const Hardware&) {
  return {};
}

std::string growing_levels(const NetworkSpec& network) {
  if (network.levels.empty()) return "a fat tree has at least one level of switches with limited uplinks";
  int nodes = 1;
  for (const SwitchLevel& level : network.levels) {
    if (level.nodes < nodes || level.nodes % nodes != 0) return "nodes per switch must grow by whole factors";
    nodes = level.nodes;
  }
  return "";
}

// A switch joins all GPUs of neighbouring nodes.
std::vector<Fabric::Switches> tree_switches(const Hardware& hardware) {
  std::vector<Fabric::Switches> switches;
  for (const SwitchLevel& level : hardware.network.levels) {
    const int ranks = level.nodes * hardware.node.gpus;
    switches.push_back({[ranks](int rank) { return rank / ranks; }, level.up_bytes_s / us_per_s});
  }
  return switches;
}

std::string one_level(const NetworkSpec& network) {
  if (network.levels.size() != 1) return "rails have exactly one level of switches with limited uplinks";
  return network.levels[0].nodes > 0 ? "" : "nodes per switch must be positive";
}

// NIC n of every one of `nodes` neighbouring nodes hangs on one switch, rail n of these nodes; what leaves a
// rail passes the spine, which does not block. The rails that a GPU spreads its flows over are one.
std::vector<Fabric::Switches> rail_switches(const Hardware& hardware) {
  const int gpus = hardware.node.gpus, rails = std::min(gpus, hardware.network.nics);
  const SwitchLevel& level = hardware.network.levels[0];
  const auto rail_of = [gpus, rails, nodes = level.nodes](int rank) {
    return rank / gpus / nodes * rails + rank % gpus * rails / gpus;
  };
  return {{rail_of, level.up_bytes_s * hardware.nics_per_gpu() / us_per_s}};
}

constexpr std::array types{
    FabricType{"none", false, no_levels, no_switches},
    FabricType{"non_blocking", true, no_levels, no_switches},
    FabricType{"fat_tree", true, growing_levels, tree_switches},
    FabricType{"rails", true, one_level, rail_switches},
};

}  // namespace

std::span<const FabricType> fabric_types() {
  return types;
}

const FabricType& fabric_type(const NetworkSpec& network) {
  if (network.fabric.empty()) return types[0];
  for (const FabricType& type : types)
    if (type.name == network.fabric) return type;
  throw HardwareError("network", "fabric", "there is no fabric \"" + network.fabric + "\"");
}

Fabric make_fabric(const Hardware& hardware, int ranks, int ports) {
  Fabric fabric;
  fabric.ranks = ranks;
  fabric.ranks_per_node = hardware.node.gpus;
  fabric.link_bytes_us = hardware.node.link_bytes_s / us_per_s;
  fabric.ports = ports;
  const NetworkSpec& network = hardware.network;
  const FabricType& type = fabric_type(network);
  if (!type.joins_nodes) return fabric;
  fabric.ranks_per_nic = std::max(1, hardware.node.gpus / network.nics);
  fabric.nic_bytes_us = hardware.link_bytes_s(Path::inter) / us_per_s;
  fabric.switches = type.switches(hardware);
  return fabric;
}

}  // namespace cplab
