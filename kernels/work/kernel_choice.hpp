// Which attention kernels a caller allows.
#pragma once

#include <cstdint>

namespace cplab::kernels {

// The fastest on the current device; the fastest that give the same bits in every run; the same with the
// fused backward that adds to dq in order (for measuring it); or those that any architecture has (for tests).
enum class KernelChoice : std::uint8_t { best, deterministic, ordered, portable };

constexpr bool wants_same_bits(KernelChoice choice) {
  return choice == KernelChoice::deterministic || choice == KernelChoice::ordered;
}

}  // namespace cplab::kernels
