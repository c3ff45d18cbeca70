// Where operands of wgmma lie in shared memory, in the form that it takes. PTX ISA, "Matrix descriptor".
#pragma once

#include <cstdint>

namespace cplab::kernels::cuda::hopper {

// A tile in shared memory, at a multiple of 1024 bytes. Rows of 64 columns are 128 bytes apart, eight of them
// make a swizzle period of 1024; `half_bytes` leads to the next 64 columns.
//
// contiguous: the summed index runs along the rows' columns. Steps of 16 are 32 bytes, and after four of them
// the next half. strided: the summed index runs over the rows (B of P V). Steps of 16 rows are 2048 bytes.
template <int half_bytes>
class TileDescriptor {
 public:
  __device__ __forceinline__ explicit TileDescriptor(std::uint32_t address)
      : low_((address & 0x3ffff) >> 4 | std::uint32_t{half_bytes >> 4} << 16) {}

  __device__ __forceinline__ std::uint64_t contiguous(int step) const {
    return at(step / 4 * (half_bytes >> 4) + step % 4 * 2);
  }
  __device__ __forceinline__ std::uint64_t strided(int step) const { return at(step * 128); }

 private:
  // Addresses are below 2^18: the sum stays in its 14 bits.
  __device__ __forceinline__ std::uint64_t at(int offset) const {
    constexpr std::uint32_t high = 1024 >> 4 | 1u << 30;  // eight rows; the swizzle
    return std::uint64_t{high} << 32 | (low_ + static_cast<std::uint32_t>(offset));
  }

  std::uint32_t low_;
};

}  // namespace cplab::kernels::cuda::hopper
