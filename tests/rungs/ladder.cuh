// All rungs in order, for those who launch them: the GPU (launch.cu) and the emulator.
#pragma once

#include <cstddef>

#include "tests/rungs/rung_5_persistent.cuh"

namespace cplab::kernels::cuda::hopper::rungs {

struct RungKernel {
  const char* name;
  int rows;  // of a tile
  int threads;
  std::size_t memory_bytes;
  bool persistent;  // with as many thread blocks as there are multiprocessors
  void (*kernel)(RungParams);
};

inline constexpr RungKernel ladder[] = {
    {"1 one warpgroup", 64, 256, sizeof(RungMemory<1>), false, one_warpgroup_kernel},
    {"2 two warpgroups", 128, 384, sizeof(RungMemory<2>), false, two_warpgroups_kernel},
    {"3 overlap", 128, 384, sizeof(RungMemory<2>), false, overlap_kernel},
    {"4 tma store", 128, 384, sizeof(RungMemory<2>), false, tma_store_kernel},
    {"5 persistent", 128, 384, sizeof(RungMemory<2, q_buffers>), true, persistent_kernel},
};

}  // namespace cplab::kernels::cuda::hopper::rungs
