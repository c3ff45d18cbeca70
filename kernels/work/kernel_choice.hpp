// Which attention kernels a caller allows.
#pragma once

#include <cstdint>

namespace cplab::kernels {

// The fastest on the current device, the fastest that give the same bits in every run, or those that any
// architecture has (for tests).
enum class KernelChoice : std::uint8_t { best, deterministic, portable };

}  // namespace cplab::kernels
