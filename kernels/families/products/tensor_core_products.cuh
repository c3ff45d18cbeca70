// Products on tensor cores: mma.sync m16n8k16 with fp32 sums, SM 8.0 and up. A thread block has 128 x 128
// results. Both operands go through registers into shared memory, 32 terms at a time, while those before them
// are multiplied; whichever of lines and columns of an operand are the terms, its tile lies in shared memory
// as it does in device memory, and ldmatrix transposes where that is the other way round.
//
// An fp32 operand is taken apart into numbers of 16 bits, the nearest, that of what is left, and so on: three
// of bf16 have all its digits, two of fp16 22 of 24. The other operand is multiplied with each.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/families/mma/parts/instructions.cuh"
#include "kernels/families/parts/primitives.cuh"
#include "kernels/families/products/params.cuh"

namespace cplab::kernels::cuda {

constexpr int product_threads = 256, product_tile = 128, product_terms = 32;

template <class T>
inline constexpr int parts_of_fp32 = std::is_same_v<T, __nv_bfloat16> ? 3 : 2;

// The nearest number of 16 bits, and a float that is equal to one.
template <class T>
__device__ __forceinline__ T nearest(float value) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return to_bfloat16(value);
  else
    return to_half(value);
}
__device__ __forceinline__ float widened(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ __forceinline__ float widened(__half value) {
  return __half2float(value);
}

// A tile of an operand: product_tile results x product_terms terms. by_terms: its lines are the terms.
template <class T, int parts, bool by_terms>
class OperandTile {
 public:
  static constexpr int lines = by_terms ? product_terms : product_tile;
  static constexpr int columns = by_terms ? product_tile : product_terms;
  static constexpr int pitch = columns + 8;  // 16 bytes more: eight lines lie in different banks
  static constexpr int groups = lines * columns / 8 / product_threads;  // of 8 columns, of each thread
  static constexpr int shared_bytes = parts * lines * pitch * 2;

  explicit __device__ OperandTile(unsigned char* shared) : numbers_(reinterpret_cast<T*>(shared)) {}

  // Fetches the tile whose first result is `result` and whose first term is `term`; 0 beyond the ends.
  __device__ __forceinline__ void load(const Lines& from, std::int32_t head, std::int32_t result,
                                       std::int32_t end_result, std::int32_t term, std::int32_t end_term) {
    const std::int32_t first_line = by_terms ? term : result, end_line = by_terms ? end_term : end_result,
                       first_column = by_terms ? result : term, end_column = by_terms ? end_result : end_term;
#pragma unroll
    for (int i = 0; i < groups; ++i) {
      const std::int32_t line = first_line + line_of(i), column = first_column + column_of(i);
#pragma unroll
      for (int x = 0; x < 8; ++x) held_[i].number[x] = 0;
      if (line >= end_line || column >= end_column) continue;
      const Source* const at = static_cast<const Source*>(from.view.data) + from.at(line, head) + column;
      if (column + 8 <= end_column && reinterpret_cast<std::uintptr_t>(at) % 16 == 0) {
        held_[i] = *reinterpret_cast<const Group*>(at);
      } else {
        for (int x = 0; column + x < end_column && x < 8; ++x) held_[i].number[x] = at[x];
      }
    }
  }

  __device__ __forceinline__ void store() const {
#pragma unroll
    for (int i = 0; i < groups; ++i) {
      if constexpr (parts == 1) {
        *reinterpret_cast<Group*>(number(0, line_of(i), column_of(i))) = held_[i];
      } else {
        float rest[8];
#pragma unroll
        for (int x = 0; x < 8; ++x) rest[x] = held_[i].number[x];
#pragma unroll
        for (int part = 0; part < parts; ++part)
#pragma unroll
          for (int x = 0; x < 8; ++x) {
            const T rounded = nearest<T>(rest[x]);
            *number(part, line_of(i), column_of(i) + x) = rounded;
            rest[x] -= widened(rounded);
          }
      }
    }
  }

  // 16 results from `result` on by 16 terms: as a, the four matrices of 8 x 8 go first over the results; as
  // b, first over the terms.
  template <bool as_a>
  __device__ __forceinline__ void fragment(int part, int result, int term, std::uint32_t (&into)[4]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8;
    const int of_result = 8 * (as_a ? matrix % 2 : matrix / 2),
              of_term = 8 * (as_a ? matrix / 2 : matrix % 2);
    const int line = (by_terms ? term + of_term : result + of_result) + lane % 8,
              column = by_terms ? result + of_result : term + of_term;
    const std::uint32_t address = shared_address(number(part, line, column));
    if constexpr (by_terms)
      ldmatrix_trans(into, address);
    else
      ldmatrix(into, address);
  }

 private:
  using Source = std::conditional_t<parts == 1, std::uint16_t, float>;  // one part: bits are moved
  struct alignas(16) Group {
    Source number[8];
  };

  static __device__ __forceinline__ int group(int i) {
    return static_cast<int>(threadIdx.x) + product_threads * i;
  }
  static __device__ __forceinline__ int line_of(int i) {
    return group(i) / (columns / 8);
  }
  static __device__ __forceinline__ int column_of(int i) {
    return group(i) % (columns / 8) * 8;
  }
  __device__ __forceinline__ T* number(int part, int line, int column) const {
    return numbers_ + (part * lines + line) * pitch + column;
  }

  T* const numbers_;
  Group held_[groups];
};

template <class T, int a_parts, int b_parts, bool a_by_terms, bool b_by_terms>
inline constexpr int product_shared_bytes =
    OperandTile<T, a_parts, a_by_terms>::shared_bytes + OperandTile<T, b_parts, b_by_terms>::shared_bytes;

// Eight warps, of 64 x 32 results each.
template <class T, int a_parts, int b_parts, bool a_by_terms, bool b_by_terms>
__global__ void __launch_bounds__(product_threads)
    multiply_on_tensor_cores(const __grid_constant__ Products p) {
  alignas(16) extern __shared__ unsigned char products_shared[];
  OperandTile<T, a_parts, a_by_terms> a(products_shared);
  OperandTile<T, b_parts, b_by_terms> b(products_shared + a.shared_bytes);
  const std::int32_t row = static_cast<std::int32_t>(blockIdx.x) * product_tile,
                     column = static_cast<std::int32_t>(blockIdx.y) * product_tile;
  const Product& result = p.of[p.first_product()];
  if (column >= result.columns) return;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = warp / 4 * 64, warp_column = warp % 4 * 32;
  float sums[4][4][4] = {};
  const auto load = [&](const Walk& at) {
    const Product& product = p.of[at.product];
    a.load(product.a, at.head, row, p.rows, at.first, product.depth);
    b.load(product.b, at.head, column, product.columns, at.first, product.depth);
  };
  Walk walk(p);
  if (!walk.done(p)) load(walk);
  while (!walk.done(p)) {
    a.store();
    b.store();
    __syncthreads();
    walk.advance(p, product_terms);
    if (!walk.done(p)) load(walk);
#pragma unroll
    for (int term = 0; term < product_terms; term += 16)
#pragma unroll
      for (int part = 0; part < a_parts * b_parts; ++part) {
        std::uint32_t of_a[4][4], of_b[2][4];
#pragma unroll
        for (int m = 0; m < 4; ++m)
          a.template fragment<true>(part % a_parts, warp_row + 16 * m, term, of_a[m]);
#pragma unroll
        for (int n = 0; n < 2; ++n)
          b.template fragment<false>(part / a_parts, warp_column + 16 * n, term, of_b[n]);
#pragma unroll
        for (int m = 0; m < 4; ++m)
#pragma unroll
          for (int n = 0; n < 4; ++n)
            Mma<T>::multiply(sums[m][n], of_a[m], of_b[n / 2][n % 2 * 2], of_b[n / 2][n % 2 * 2 + 1]);
      }
    __syncthreads();
  }
#pragma unroll
  for (int m = 0; m < 4; ++m)
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const std::int32_t i = row + warp_row + 16 * m + lane / 4 + 8 * (e / 2),
                           j = column + warp_column + 8 * n + lane % 4 * 2 + e % 2;
        if (i < p.rows && j < result.columns) store_sum(p, result.into, i, j, sums[m][n][e]);
      }
}

}  // namespace cplab::kernels::cuda
