// The list of algorithms and placements.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "algorithms/core/algorithm.hpp"

namespace cplab {

struct PlacementInfo {
  std::string_view name;
  std::vector<std::string_view> aliases;
  std::string_view help;
};

std::span<const Algorithm> algorithms();
std::span<const PlacementInfo> placements();
const Algorithm* find_algorithm(std::string_view name_or_alias);
const PlacementInfo* find_placement(std::string_view name_or_alias);

}  // namespace cplab
