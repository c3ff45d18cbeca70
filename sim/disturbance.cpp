// See disturbance.hpp.
#include "sim/disturbance.hpp"

#include <algorithm>

namespace cplab {
namespace {

// The next number of a counter that is mixed well (SplitMix64).
std::uint64_t mixed(std::uint64_t counter) {
  counter += 0x9e3779b97f4a7c15;
  counter = (counter ^ counter >> 30) * 0xbf58476d1ce4e5b9;
  counter = (counter ^ counter >> 27) * 0x94d049bb133111eb;
  return counter ^ counter >> 31;
}

}  // namespace

std::vector<double> factors_of(std::span<const SlowRank> slow, std::size_t ranks, double SlowRank::*factor) {
  const bool all_one = std::ranges::all_of(slow, [&](const SlowRank& each) { return each.*factor == 1; });
  if (all_one) return {};
  std::vector<double> factors(ranks, 1);
  for (const SlowRank& each : slow) factors.at(static_cast<std::size_t>(each.rank)) *= each.*factor;
  return factors;
}

double jitter_factor(double jitter, std::uint64_t seed, std::uint32_t rank, std::uint32_t operation) {
  if (jitter <= 0) return 1;
  const std::uint64_t bits = mixed(mixed(seed) ^ (static_cast<std::uint64_t>(rank) << 32 | operation));
  constexpr double one_bit = 1.0 / (std::uint64_t{1} << 53);
  return 1 + jitter * (2 * static_cast<double>(bits >> 11) * one_bit - 1);
}

}  // namespace cplab
