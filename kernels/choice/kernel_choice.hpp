// Which attention kernels a caller allows, and how one of them is chosen.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace cplab::kernels {

// The fastest on the current device; the fastest that give the same bits in every run; the same without the
// fused backward that adds to dq in order, dq by a kernel apart (for measuring it); or those that any
// architecture has (for tests).
enum class KernelChoice : std::uint8_t { best, deterministic, apart, portable };

constexpr bool wants_same_bits(KernelChoice choice) {
  return choice == KernelChoice::deterministic || choice == KernelChoice::apart;
}

// How the kernel for a call is chosen among those that are allowed and fit (candidates.hpp).
//  table      of those made for the device's architecture, else of those for every one, the one that its
//             family's model of tiles, waves and memory calls fastest (choose.hpp).
//
//  heuristic  the same among all that fit, those for every architecture and the general ones included.
//
//  autotune   the one that was measured fastest.
//
//  hybrid     the same, among the few that the model calls fastest.
//
// The last two take what is in a MeasuredChoices; what is not there is chosen by the table.
enum class ChoiceWay : std::uint8_t { table, heuristic, autotune, hybrid };

// As users say them, in the order of the enumeration.
constexpr std::array<std::string_view, 4> choice_way_names = {"static", "heuristic", "autotune", "hybrid"};
constexpr std::string_view name_of(ChoiceWay way) {
  return choice_way_names[static_cast<std::size_t>(way)];
}
constexpr bool wants_measurements(ChoiceWay way) {
  return way == ChoiceWay::autotune || way == ChoiceWay::hybrid;
}

}  // namespace cplab::kernels
