// Operands of wgmma: descriptors of tiles in shared memory, and accumulators as an operand in registers. PTX
// ISA, "Matrix descriptor".
#pragma once

#include <cstdint>

#include "kernels/families/parts/primitives.cuh"

namespace cplab::kernels::cuda::hopper {

// The descriptor of a tile in shared memory, at a multiple of 1024 bytes. Rows of 64 columns are 128 bytes,
// eight of them make a swizzle period of 1024; the next 64 columns begin `half_bytes` further.
//
// k_major: the summed index runs along a row. A step of 16 is 32 bytes, and after four steps the next half
// follows. mn_major: the summed index runs over the rows, as for V in P V. A step of 16 rows is 2048 bytes.
template <int half_bytes>
class TileDescriptor {
 public:
  __device__ __forceinline__ explicit TileDescriptor(std::uint32_t address)
      : low_((address & 0x3ffff) >> 4 | std::uint32_t{half_bytes >> 4} << 16) {}

  __device__ __forceinline__ std::uint64_t k_major(int step) const {
    return at(step / 4 * (half_bytes >> 4) + step % 4 * 2);
  }
  __device__ __forceinline__ std::uint64_t mn_major(int step) const { return at(step * 128); }

 private:
  // Addresses in shared memory are below 2^18, so that the sum does not overflow its field of 14 bits.
  __device__ __forceinline__ std::uint64_t at(int offset) const {
    constexpr std::uint32_t high = 1024 >> 4 | 1u << 30;  // eight rows apart; 128-byte swizzle
    return std::uint64_t{high} << 32 | (low_ + static_cast<std::uint32_t>(offset));
  }

  std::uint32_t low_;
};

// Loads operand A of a product into registers: 16 rows of a warp and 16 columns, those of
// k_major(step), from a tile in shared memory. `rows` is where the warp's first row is, at a multiple
// of 1024 bytes.
template <int half_bytes>
__device__ __forceinline__ void load_operand(std::uint32_t (&into)[4], const unsigned char* rows, int step) {
  const int lane = thread_index() % 32, row = lane / 4;
  // `low` is where the lane's two columns are; those eight further on are in the 16 bytes beside them.
  const int low = row * 128 + ((step % 4 * 32 + lane % 4 * 4) ^ row * 16), high = low ^ 16;
  const unsigned char* const half = rows + step / 4 * half_bytes;
  into[0] = *reinterpret_cast<const std::uint32_t*>(half + low);
  into[1] = *reinterpret_cast<const std::uint32_t*>(half + 1024 + low);
  into[2] = *reinterpret_cast<const std::uint32_t*>(half + high);
  into[3] = *reinterpret_cast<const std::uint32_t*>(half + 1024 + high);
}

// Rounds accumulators of 64 rows to T and packs them as operand A of a product whose summed index is their
// column.
template <class T, int n_tiles>
__device__ __forceinline__ void pack_operand(const float (&from)[n_tiles][4],
                                             std::uint32_t (&into)[n_tiles / 2][4]) {
#pragma unroll
  for (int step = 0; step < n_tiles / 2; ++step)
#pragma unroll
    for (int part = 0; part < 4; ++part)
      into[step][part] = Element<T>::pack(from[2 * step + part / 2][2 * (part % 2)],
                                          from[2 * step + part / 2][2 * (part % 2) + 1]);
}

}  // namespace cplab::kernels::cuda::hopper
