// Sums over ranks whose memory this GPU can reach, for the link copy: one kernel reads what every member
// gives and writes the result where it belongs, so nothing is staged, and members may give and take in place.
#pragma once

#include <cstdint>

#include "kernels/cuda.hpp"
#include "plan/islands.hpp"

namespace cplab {

inline constexpr int most_summed =
    most_summed_by_copy;  // members; their addresses are arguments of the kernel

struct PeerSum {
  kernels::DType dtype = kernels::DType::fp32;
  bool maximum = false;  // instead of the sum; a NaN wins
  std::int64_t elements = 0;
  int sources = 0, results = 0;
  const void* from[most_summed] = {};
  void* into[most_summed] = {};
};

// Loads the kernels, which would otherwise take memory at their first launch. Returns the cudaError_t.
int load_peer_sums();

// Queues into[each] = from[0] + from[1] + ..., in this order, rounded to the dtype after every addend (fp64
// in fp64, all others in fp32): bit for bit what the CPU's executor computes. Element i of a source is read
// before element i of a result is written, and by the same thread. Returns the cudaError_t of the launch.
int queue_peer_sum(kernels::CudaStream stream, const PeerSum& sum);

}  // namespace cplab
