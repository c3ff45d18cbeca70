// The mma.sync attention kernels, run by the emulator on host memory.
#pragma once

#include <cstdint>

#include "kernels/tiles/params.hpp"

namespace cplab::emulator {

// Tables point into host memory. seed: of the order of threads. Throw std::runtime_error if a kernel hangs.
struct EmulatedMma {
  void (*attend)(const kernels::cuda::AttendParams&, std::uint64_t seed);
  void (*attend_backward)(const kernels::cuda::AttendBackwardParams&, bool small_tiles, std::uint64_t seed);
};

// Of a 16-bit dtype and head sizes that tests/emulator/CMakeLists.txt lists, each in a translation unit of
// its own (mma_kernels.cpp.in).
template <kernels::DType dtype, int key_size, int value_size>
EmulatedMma emulated_mma();

}  // namespace cplab::emulator
