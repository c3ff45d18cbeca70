// Warp-level matrix products by ldmatrix and mma.sync. SM 8.0 and up.
//
// Two accumulators side by side (accumulators.cuh), rounded and packed, are exactly the A operand of a second
// product: P and dS never leave the registers.
#pragma once

#include <cstdint>

#include "kernels/families/mma/parts/instructions.cuh"
#include "kernels/families/mma/parts/shared_tiles.cuh"
#include "kernels/families/parts/accumulators.cuh"

namespace cplab::kernels::cuda {

// acc[16 m_tiles x 8 n_tiles] += A B^T, both operands from shared memory: rows of D elements.
template <class T, int D, int m_tiles, int n_tiles>
__device__ __forceinline__ void gemm_ss(Accumulators<m_tiles, n_tiles>& acc, const LaneAddress<D>& a,
                                        const LaneAddress<D>& b) {
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    std::uint32_t a_part[m_tiles][4];
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) ldmatrix(a_part[m], a.down(16 * m).along(k));
#pragma unroll
    for (int n = 0; n < n_tiles; n += 2) {
      std::uint32_t b_part[4];
      ldmatrix(b_part, b.down(8 * n).along(k));
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
        Mma<T>::multiply(acc[m][n], a_part[m], b_part[0], b_part[1]);
        Mma<T>::multiply(acc[m][n + 1], a_part[m], b_part[2], b_part[3]);
      }
    }
  }
}

// acc[16 m_tiles x D] += P B: P, rounded to T, from registers; B, 8 n_tiles rows of D elements, from shared
// memory.
template <class T, int D, int m_tiles, int n_tiles>
__device__ __forceinline__ void gemm_rs(Accumulators<m_tiles, D / 8>& acc,
                                        const Accumulators<m_tiles, n_tiles>& p, const LaneAddress<D>& b) {
#pragma unroll
  for (int k = 0; k < n_tiles / 2; ++k) {
    std::uint32_t a_part[m_tiles][4];
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
      const float(&left)[4] = p[m][2 * k];
      const float(&right)[4] = p[m][2 * k + 1];
      a_part[m][0] = Element<T>::pack(left[0], left[1]);
      a_part[m][1] = Element<T>::pack(left[2], left[3]);
      a_part[m][2] = Element<T>::pack(right[0], right[1]);
      a_part[m][3] = Element<T>::pack(right[2], right[3]);
    }
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      std::uint32_t b_part[4];
      ldmatrix_trans(b_part, b.down(16 * k).along(d));
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
        Mma<T>::multiply(acc[m][2 * d], a_part[m], b_part[0], b_part[1]);
        Mma<T>::multiply(acc[m][2 * d + 1], a_part[m], b_part[2], b_part[3]);
      }
    }
  }
}

}  // namespace cplab::kernels::cuda
