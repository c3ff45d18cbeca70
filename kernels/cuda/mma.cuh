// Warp-level building blocks of the tensor-core attention kernels: 16-bit tiles in shared memory (swizzled,
// filled by cp.async), ldmatrix, and mma.sync m16n8k16 with fp32 sums. SM 8.0 and up.
//
// Fragment layout of m16n8k16 (PTX ISA, "Matrix Fragments"), with g = lane / 4 and t = lane % 4: a sum c[4]
// holds rows g (c0, c1) and g + 8 (c2, c3), columns 2t and 2t + 1. Two sums side by side, packed, are
// therefore exactly the A operand of a second product: probabilities never leave the registers.
#pragma once

#include <cstdint>

#include "kernels/cuda/primitives.cuh"

namespace cplab::kernels::cuda {

// --- the product of a warp -----------------------------------------------------------------------------

// c (16 x 8) += a (16 x 16) b (16 x 8).
template <class T>
struct Mma;

template <>
struct Mma<__nv_bfloat16> {
  static __device__ __forceinline__ void multiply(float (&c)[4], const std::uint32_t (&a)[4],
                                                  std::uint32_t b0, std::uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

template <>
struct Mma<__half> {
  static __device__ __forceinline__ void multiply(float (&c)[4], const std::uint32_t (&a)[4],
                                                  std::uint32_t b0, std::uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

// --- cp.async ------------------------------------------------------------------------------------------

// 16 bytes, of which the first `bytes` come from memory and the rest are zero. With bytes 0 nothing is read.
__device__ __forceinline__ void copy_16(std::uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

__device__ __forceinline__ void copy_4(std::uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits for all copies of this thread; a barrier makes them visible to the others.
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group 0;" ::: "memory");
}

// __syncthreads() that warps may reach at different places of the program.
__device__ __forceinline__ void wait_for_block() {
  asm volatile("barrier.sync 0;" ::: "memory");
}

// --- tiles in shared memory ------------------------------------------------------------------------------

// A tile has rows of D elements, in chunks of 16 bytes. Chunk c of row r lies where chunk c ^ swizzle(r)
// would: the eight rows of an ldmatrix matrix, and the 16-byte stores of a quarter warp, then hit all
// 32 banks once. Tiles begin at multiples of 256 bytes.
template <int D>
struct Tile {
  static_assert(D == 32 || D == 64 || D == 96 || D == 128);
  static constexpr int row_bytes = 2 * D;
  static constexpr int chunks = D / 8;
  static constexpr bool wide_rows = D % 64 == 0;  // a row covers all banks
  static constexpr bool aligned_rows = (D & (D - 1)) == 0;

  static __device__ __forceinline__ std::uint32_t offset(int row, int chunk) {
    const int swizzle = wide_rows ? row & 7 : (row >> 1) & 3;
    return static_cast<std::uint32_t>(row * row_bytes + ((chunk ^ swizzle) << 4));
  }
};

// The row and chunk a lane points ldmatrix at. Rows may be added in multiples of 16 (the swizzle repeats).
template <int D>
class LaneAddress {
 public:
  __device__ __forceinline__ LaneAddress(std::uint32_t tile, int row, int chunk) {
    if constexpr (Tile<D>::aligned_rows) {
      at_ = tile + Tile<D>::offset(row, chunk);
    } else {
      at_ = tile + static_cast<std::uint32_t>(row * Tile<D>::row_bytes);
      in_row_ = Tile<D>::offset(row, chunk) - static_cast<std::uint32_t>(row * Tile<D>::row_bytes);
    }
  }

  // `pairs` pairs of chunks (16 elements each) further in the row. XOR commutes with the swizzle because
  // the lane's own chunk is 0 or 1.
  __device__ __forceinline__ std::uint32_t along(int pairs) const {
    const auto step = static_cast<std::uint32_t>(pairs * 32);
    if constexpr (Tile<D>::aligned_rows) return at_ ^ step;
    return at_ + (in_row_ ^ step);
  }

  __device__ __forceinline__ LaneAddress down(int rows) const {
    LaneAddress result = *this;
    result.at_ += static_cast<std::uint32_t>(rows * Tile<D>::row_bytes);
    return result;
  }

 private:
  std::uint32_t at_ = 0;
  std::uint32_t in_row_ = 0;
};

// These are made where they are used: they cost a few instructions, and no registers around a loop.
//
// For the A operand (rows x D), and for the B operand of multiply_weights (whose rows are the summed index).
template <int D>
__device__ __forceinline__ LaneAddress<D> address_rows(std::uint32_t tile) {
  const int lane = thread_index() % 32;
  return LaneAddress<D>(tile, lane & 15, lane >> 4);
}

// For an A operand of which each warp has its own `rows` rows.
template <int D, int rows>
__device__ __forceinline__ LaneAddress<D> address_own_rows(std::uint32_t tile) {
  return address_rows<D>(tile).down(thread_index() / 32 * rows);
}

// For the B operand of multiply_transposed.
template <int D>
__device__ __forceinline__ LaneAddress<D> address_columns(std::uint32_t tile) {
  const int lane = thread_index() % 32;
  return LaneAddress<D>(tile, (lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1);
}

__device__ __forceinline__ void load_matrices(std::uint32_t (&into)[4], std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(into[0]), "=r"(into[1]), "=r"(into[2]), "=r"(into[3])
               : "r"(from));
}

__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&into)[4], std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(into[0]), "=r"(into[1]), "=r"(into[2]), "=r"(into[3])
               : "r"(from));
}

// --- products of one warp --------------------------------------------------------------------------------

template <int m_tiles, int n_tiles>
using Sums = float[m_tiles][n_tiles][4];

template <int m_tiles, int n_tiles>
__device__ __forceinline__ void clear(Sums<m_tiles, n_tiles>& sums) {
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[m][n][e] = 0;
}

// sums[16 m_tiles x 8 n_tiles] += A B^T; A and B are rows of D elements.
template <class T, int D, int m_tiles, int n_tiles>
__device__ __forceinline__ void multiply_transposed(Sums<m_tiles, n_tiles>& sums, const LaneAddress<D>& a,
                                                    const LaneAddress<D>& b) {
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    std::uint32_t a_part[m_tiles][4];
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) load_matrices(a_part[m], a.down(16 * m).along(k));
#pragma unroll
    for (int n = 0; n < n_tiles; n += 2) {
      std::uint32_t b_part[4];
      load_matrices(b_part, b.down(8 * n).along(k));
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
        Mma<T>::multiply(sums[m][n], a_part[m], b_part[0], b_part[1]);
        Mma<T>::multiply(sums[m][n + 1], a_part[m], b_part[2], b_part[3]);
      }
    }
  }
}

// sums[16 m_tiles x D] += W B; W is `weights` rounded to T, B has 8 n_tiles rows of D elements.
template <class T, int D, int m_tiles, int n_tiles>
__device__ __forceinline__ void multiply_weights(Sums<m_tiles, D / 8>& sums,
                                                 const Sums<m_tiles, n_tiles>& weights,
                                                 const LaneAddress<D>& b) {
#pragma unroll
  for (int k = 0; k < n_tiles / 2; ++k) {
    std::uint32_t a_part[m_tiles][4];
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
      const float(&left)[4] = weights[m][2 * k];
      const float(&right)[4] = weights[m][2 * k + 1];
      a_part[m][0] = Element<T>::pack(left[0], left[1]);
      a_part[m][1] = Element<T>::pack(left[2], left[3]);
      a_part[m][2] = Element<T>::pack(right[0], right[1]);
      a_part[m][3] = Element<T>::pack(right[2], right[3]);
    }
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      std::uint32_t b_part[4];
      load_matrices_transposed(b_part, b.down(16 * k).along(d));
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
        Mma<T>::multiply(sums[m][2 * d], a_part[m], b_part[0], b_part[1]);
        Mma<T>::multiply(sums[m][2 * d + 1], a_part[m], b_part[2], b_part[3]);
      }
    }
  }
}

// Replaces what row `half` (g or g + 8) of a 16-row sum holds outside columns [begin, end) by `value`. What
// was there does not matter, not even a NaN.
template <int n_tiles>
__device__ __forceinline__ void mask_row(float (&sums)[n_tiles][4], int half, int begin, int end, int lane,
                                         float value) {
  const int first = begin - 2 * (lane & 3);
  const auto count = static_cast<unsigned>(max(end - begin, 0));
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e)
      if (static_cast<unsigned>(8 * n + e - first) >= count) sums[n][2 * half + e] = value;
}

// Over the four lanes that share a row.
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(all_lanes, x, 1);
  return x + __shfl_xor_sync(all_lanes, x, 2);
}

__device__ __forceinline__ float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(all_lanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(all_lanes, x, 2));
}

}  // namespace cplab::kernels::cuda
