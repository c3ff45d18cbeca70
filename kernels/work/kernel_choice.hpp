// Which attention kernels a caller allows.
#pragma once

#include <cstdint>

namespace cplab::kernels {

// The fastest on the current device; the fastest that give the same bits in every run; the same without the
// fused backward that adds to dq in order, dq by a kernel apart (for measuring it); or those that any
// architecture has (for tests).
enum class KernelChoice : std::uint8_t { best, deterministic, apart, portable };

constexpr bool wants_same_bits(KernelChoice choice) {
  return choice == KernelChoice::deterministic || choice == KernelChoice::apart;
}

}  // namespace cplab::kernels
