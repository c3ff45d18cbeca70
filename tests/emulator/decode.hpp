// The attention kernels for few queries, run by the emulator on host memory.
#pragma once

#include <cstdint>

#include "kernels/tiles/params.hpp"
#include "kernels/tiles/split_tiles.hpp"

namespace cplab::emulator {

// Tables and scratch lie in host memory. rows: of a tile, 16 or 64. seed: of the order of threads. Throws
// std::runtime_error if a kernel hangs.
using EmulatedDecode = void (*)(const kernels::cuda::AttendParams&, int rows, std::uint64_t seed);

// Of a 16-bit dtype and head sizes that tests/emulator/CMakeLists.txt lists, each in a translation unit of
// its own (decode_kernels.cpp.in).
template <kernels::DType dtype, int key_size, int value_size>
EmulatedDecode emulated_decode();

}  // namespace cplab::emulator
