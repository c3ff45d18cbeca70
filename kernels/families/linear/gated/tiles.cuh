// Tiles of rows in shared memory and products of them, for the kernels of linear attention whose transitions
// differ from token to token. 8 warps multiply tiles of 16 bits on tensor cores (mma.sync), of fp32 one
// product after the other; sums lie in registers as mma.sync spreads them (accumulators.cuh).
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/families/mma/parts/instructions.cuh"
#include "kernels/families/parts/element.cuh"
#include "kernels/families/parts/output_rows.cuh"
#include "kernels/tiles/gated_cuts.hpp"

namespace cplab::kernels::cuda::gated {

template <class T>
constexpr int tokens_of = gated_tokens(sizeof(T) == 4);

template <class T>
__device__ constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>)
    return DType::fp32;
  else
    return Element<T>::dtype;
}

// Held in a register: thread_index() reads a special register at every call, which takes longer than the
// products of a step.
__device__ inline int thread() {
  return static_cast<int>(threadIdx.x);
}
__device__ inline int lane() {
  return thread() % 32;
}
__device__ inline int warp() {
  return thread() / 32;
}

// exp(x) of x <= 0.
template <class T>
__device__ inline float power(float x) {
  if constexpr (std::is_same_v<T, float>)
    return expf(x);
  else
    return exp2_approx(x * log2_e);
}

// Two neighbouring elements, the first at an even column.
template <class T>
__device__ inline void put_two(T* at, float x, float y) {
  *reinterpret_cast<typename Pair<T>::type*>(at) = Pair<T>::narrow({x, y});
}
template <class T>
__device__ inline float2 get_two(const T* at) {
  return Pair<T>::widen(*reinterpret_cast<const typename Pair<T>::type*>(at));
}

// Rows lie 16 bytes further apart than they are long: the eight rows that ldmatrix reads then begin in
// different banks.
template <class T, int columns>
struct Tile {
  static constexpr int pitch = columns + 16 / static_cast<int>(sizeof(T));
  T* data;

  __device__ T* at(int row, int column) const { return data + row * pitch + column; }
  __device__ std::uint32_t address(int row, int column) const { return shared_address(at(row, column)); }
};

// Hands out the shared memory of a thread block; kernels/tiles/gated_cuts.hpp counts the same pieces.
class Arena {
 public:
  __device__ explicit Arena(unsigned char* memory) : at_(memory) {}
  template <class T, int columns>
  __device__ Tile<T, columns> tile(int rows, bool given = true) {
    return {take<T>(given ? rows * Tile<T, columns>::pitch : 0)};
  }
  __device__ Arena& skip(int bytes) {
    at_ += bytes;
    return *this;
  }
  template <class T>
  __device__ T* take(int count) {
    T* const piece = reinterpret_cast<T*>(at_);
    at_ += (static_cast<std::size_t>(count) * sizeof(T) + 15) / 16 * 16;
    return piece;
  }

 private:
  unsigned char* at_;
};

// M x N sums: a warp has m_tiles x n_tiles parts of 16 x 8 of them.
template <class T, int M, int N>
struct Sums {
  static constexpr int warps_m = M == 32 ? 2 : 4, warps_n = gated_threads / 32 / warps_m;
  static constexpr int m_tiles = M / 16 / warps_m, n_tiles = N / 8 / warps_n;
  static_assert(m_tiles >= 1 && n_tiles >= 1);
  float value[m_tiles][n_tiles][4];

  static __device__ int first_row(int m) { return (warp() % warps_m * m_tiles + m) * 16; }
  static __device__ int first_column(int n) { return (warp() / warps_m * n_tiles + n) * 8; }

  __device__ void clear() {
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
#pragma unroll
      for (int n = 0; n < n_tiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) value[m][n][e] = 0;
  }
  // f(row, column, x, y) for two neighbouring sums at a time.
  template <class F>
  __device__ __forceinline__ void each(F f) {
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int n = 0; n < n_tiles; ++n)
          f(first_row(m) + lane() / 4 + 8 * half, first_column(n) + lane() % 4 * 2, value[m][n][2 * half],
            value[m][n][2 * half + 1]);
  }
};

// Which parts of a product are not 0, in steps of 16.
struct All {
  __device__ bool sums(int, int) const { return true; }
  __device__ bool terms(int, int) const { return true; }
};

enum class Stored : std::uint8_t { straight, turned };

// The 16 x 16 part of A from row `row` and column `column` of the product on; `turned`: the tile is A^T.
template <Stored stored, class T, int columns>
__device__ __forceinline__ void load_a(std::uint32_t (&into)[4], const Tile<T, columns>& tile, int row,
                                       int k) {
  if constexpr (stored == Stored::straight)
    ldmatrix(into, tile.address(row + (lane() & 15), k + (lane() >> 4) * 8));
  else
    ldmatrix_trans(into,
                   tile.address(k + (lane() & 7) + ((lane() >> 4) << 3), row + ((lane() >> 3) & 1) * 8));
}
// Likewise of B, rows k and columns of the product; two parts of 8 columns.
template <Stored stored, class T, int columns>
__device__ __forceinline__ void load_b(std::uint32_t (&into)[4], const Tile<T, columns>& tile, int k,
                                       int column) {
  if constexpr (stored == Stored::straight)
    ldmatrix_trans(into, tile.address(k + (lane() & 15), column + (lane() >> 4) * 8));
  else
    ldmatrix(into, tile.address(column + (lane() & 7) + ((lane() >> 4) << 3), k + ((lane() >> 3) & 1) * 8));
}

// sums += A B over K terms.
template <int K, Stored of_a, Stored of_b, class T, int M, int N, int columns_a, int columns_b,
          class Wanted = All>
__device__ __forceinline__ void multiply(Sums<T, M, N>& sums, const Tile<T, columns_a>& a,
                                         const Tile<T, columns_b>& b, Wanted wanted = {}) {
  using S = Sums<T, M, N>;
  if constexpr (std::is_same_v<T, float>) {
    sums.each([&](int row, int column, float& x, float& y) {
      if (!wanted.sums(row & ~15, column & ~15)) return;
#pragma unroll 2
      for (int k = 0; k < K; ++k) {
        const float left = of_a == Stored::straight ? *a.at(row, k) : *a.at(k, row);
        x += left * (of_b == Stored::straight ? *b.at(k, column) : *b.at(column, k));
        y += left * (of_b == Stored::straight ? *b.at(k, column + 1) : *b.at(column + 1, k));
      }
    });
  } else {
#pragma unroll
    for (int k = 0; k < K; k += 16) {
      std::uint32_t left[S::m_tiles][4], right[4];
      bool any = false;
#pragma unroll
      for (int m = 0; m < S::m_tiles; ++m)
        if (wanted.terms(S::first_row(m), k)) {
          load_a<of_a>(left[m], a, S::first_row(m), k);
          any = true;
        }
      if (!any) continue;
#pragma unroll
      for (int n = 0; n < S::n_tiles; n += 2) {
        bool asked = false;
#pragma unroll
        for (int m = 0; m < S::m_tiles; ++m)
          asked =
              asked || (wanted.terms(S::first_row(m), k) && wanted.sums(S::first_row(m), S::first_column(n)));
        if (!asked) continue;
        load_b<of_b>(right, b, k, S::first_column(n));
#pragma unroll
        for (int m = 0; m < S::m_tiles; ++m) {
          if (!wanted.terms(S::first_row(m), k) || !wanted.sums(S::first_row(m), S::first_column(n)))
            continue;
          Mma<T>::multiply(sums.value[m][n], left[m], right[0], right[1]);
          Mma<T>::multiply(sums.value[m][n + 1], left[m], right[2], right[3]);
        }
      }
    }
  }
}

// Whether rows of a view may be copied in whole 16 bytes.
template <class T>
__device__ inline bool in_pieces(const DeviceView& view) {
  constexpr int piece = 16 / sizeof(T);
  return view.dtype == dtype_of<T>() && reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 &&
         (view.row_stride | view.head_stride | view.width) % piece == 0;
}

// `size` rows of a view from compact row `row` on, columns from `first` on, into the tile; all else of its
// `rows` rows becomes 0. Copies of 16 bytes are on their way afterwards.
template <int rows, class T, int columns>
__device__ inline void load_rows(const Tile<T, columns>& tile, const DeviceView& view, int head, int row,
                                 int size, int first) {
  constexpr int piece = 16 / sizeof(T), pieces = columns / piece;
  if (in_pieces<T>(view)) {
    for (int at = thread(); at < rows * pieces; at += gated_threads) {
      const int token = at / pieces, column = at % pieces * piece;
      const bool inside = token < size && first + column < view.width;
      const T* const from =
          row_of<const T>(view, head, row + (inside ? token : 0)) + (inside ? first + column : 0);
      cp_async_16(tile.address(token, column), from, inside ? 16 : 0);
    }
    return;
  }
  for (int at = thread(); at < rows * columns / 2; at += gated_threads) {
    const int token = at / (columns / 2), column = at % (columns / 2) * 2;
    const auto element = [&](int x) {
      return token < size && x < view.width
                 ? load_element_as<float>(view.data, view.dtype, row_offset(view, row + token, head) + x)
                 : 0.0F;
    };
    put_two(tile.at(token, column), element(first + column), element(first + column + 1));
  }
}

// The same of rows in scratch memory, `pitch` elements apart.
template <int rows, class T, int columns>
__device__ inline void load_scratch(const Tile<T, columns>& tile, const T* from, int pitch) {
  constexpr int piece = 16 / sizeof(T), pieces = columns / piece;
  for (int at = thread(); at < rows * pieces; at += gated_threads) {
    const int token = at / pieces, column = at % pieces * piece;
    cp_async_16(tile.address(token, column), from + token * pitch + column, 16);
  }
}

// The same the other way.
template <int rows, class T, int columns>
__device__ inline void copy_to_scratch(const Tile<T, columns>& tile, T* into, int pitch) {
  constexpr int piece = 16 / sizeof(T), pieces = columns / piece;
#pragma unroll
  for (int at = thread(); at < rows * pieces; at += gated_threads) {
    const int token = at / pieces, column = at % pieces * piece;
    *reinterpret_cast<uint4*>(into + token * pitch + column) =
        *reinterpret_cast<const uint4*>(tile.at(token, column));
  }
}

// And of sums rounded to T.
template <class T, int M, int N>
__device__ inline void store_scratch(Sums<T, M, N>& sums, T* into, int pitch) {
  sums.each([&](int row, int column, float& x, float& y) { put_two(into + row * pitch + column, x, y); });
}

// Two neighbouring results of a row to a view; what lies behind its last column is left out. Not inlined:
// kernels have so many results that all ways to write them would not fit into the instruction cache.
static __device__ __noinline__ void write_two(const DeviceView& view, std::int64_t at, int column, float x,
                                              float y, Write write) {
  if (column >= view.width) return;
  at += column;
  const bool both = column + 1 < view.width;
  if (write == Write::add) {
    x += load_element_as<float>(view.data, view.dtype, at);
    if (both) y += load_element_as<float>(view.data, view.dtype, at + 1);
  }
  store_element_as<float>(x, view.data, view.dtype, at);
  if (both) store_element_as<float>(y, view.data, view.dtype, at + 1);
}

// The same of a view whose pairs are aligned and whose results are stored.
template <class Out, class T, int M, int N>
__device__ __forceinline__ void store_rows(Sums<T, M, N>& sums, const DeviceView& view, int head, int row,
                                           int size, int first) {
#pragma unroll
  for (int m = 0; m < Sums<T, M, N>::m_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = sums.first_row(m) + lane() / 4 + 8 * half;
      if (token >= size) continue;
      Out* const into = row_of<Out>(view, head, row + token) + first;
#pragma unroll
      for (int n = 0; n < Sums<T, M, N>::n_tiles; ++n) {
        const int column = sums.first_column(n) + lane() % 4 * 2;
        if (first + column < view.width)
          put_two(into + column, sums.value[m][n][2 * half], sums.value[m][n][2 * half + 1]);
      }
    }
}

// Columns from `first` on of `size` rows from compact row `row` on.
template <class T, int M, int N>
__device__ inline void write_rows(Sums<T, M, N>& sums, const DeviceView& view, int head, int row, int size,
                                  int first, Write write) {
  const bool simple = write == Write::store && view.width % 2 == 0;
  if (simple && view.dtype == dtype_of<T>() && pairs_aligned<T>(view))
    return store_rows<T>(sums, view, head, row, size, first);
  if (simple && view.dtype == DType::fp32 && pairs_aligned<float>(view))
    return store_rows<float>(sums, view, head, row, size, first);
  sums.each([&](int token, int column, float& x, float& y) {
    if (token < size) write_two(view, row_offset(view, row + token, head), first + column, x, y, write);
  });
}

// Of all copies on their way.
__device__ inline void wait_for_tiles() {
  cp_async_commit_group();
  cp_async_wait_all();
  __syncthreads();
}

// An array of the scratch memory, of one block and head.
template <class T>
__device__ inline T* scratch_of(const GatedParams& p, std::int64_t offset, int head, int block,
                                std::int64_t elements) {
  return reinterpret_cast<T*>(p.scratch + offset) +
         (static_cast<std::int64_t>(head) * p.cut.blocks + block) * elements;
}

}  // namespace cplab::kernels::cuda::gated
