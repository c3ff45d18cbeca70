// Ranks that are slower than the machine's others, and kernels that do not take the same time twice.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cplab {

// Factors on the speed of what one rank (of the world) has: its link within the node, both ways; its kernels;
// the NIC that it uses, both ways, with the other GPUs that share it. Above 0, at most 1.
struct SlowRank {
  int rank = 0;
  double link = 1, compute = 1, nic = 1;
};

// One of SlowRank's factors for every rank; empty where all are 1.
std::vector<double> factors_of(std::span<const SlowRank> slow, std::size_t ranks, double SlowRank::*factor);

// By what a kernel's time is multiplied: even in [1 - jitter, 1 + jitter], by seed, rank and operation alone,
// so in whatever order events come. jitter 0: 1.
double jitter_factor(double jitter, std::uint64_t seed, std::uint32_t rank, std::uint32_t operation);

}  // namespace cplab
