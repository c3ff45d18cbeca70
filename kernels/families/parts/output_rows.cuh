// Epilogue of the tensor-core kernels: rows of accumulators to device memory, in any of the three output
// dtypes, stored, added or merged.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/families/parts/accumulators.cuh"
#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda {

template <class T>
__device__ __forceinline__ T* head_of(const DeviceView& view, int head) {
  return static_cast<T*>(view.data) + head * view.head_stride;
}

template <class T>
__device__ __forceinline__ T* row_of(const DeviceView& view, int head, int row) {
  const std::int64_t physical = view.map != nullptr ? view.map[row] : row;
  return head_of<T>(view, head) + physical * view.row_stride;
}

// Two neighbouring elements in memory, as floats.
template <class T>
struct Pair;

template <>
struct Pair<float> {
  using type = float2;
  static __device__ __forceinline__ float2 widen(float2 x) { return x; }
  static __device__ __forceinline__ float2 narrow(float2 x) { return x; }
};

template <>
struct Pair<__nv_bfloat16> {
  using type = __nv_bfloat162;
  static __device__ __forceinline__ float2 widen(__nv_bfloat162 x) { return __bfloat1622float2(x); }
  static __device__ __forceinline__ __nv_bfloat162 narrow(float2 x) {
    return __floats2bfloat162_rn(x.x, x.y);
  }
};

template <>
struct Pair<__half> {
  using type = __half2;
  static __device__ __forceinline__ float2 widen(__half2 x) { return __half22float2(x); }
  static __device__ __forceinline__ __half2 narrow(float2 x) { return __floats2half2_rn(x.x, x.y); }
};

// Whether two neighbouring elements, the first at an even column, may be accessed as one.
template <class T>
__device__ __forceinline__ bool pairs_aligned(const DeviceView& view) {
  const auto bits = reinterpret_cast<std::uintptr_t>(view.data) / sizeof(T) |
                    static_cast<std::uintptr_t>(view.row_stride | view.head_stride);
  return (bits & 1) == 0;
}

// Two neighbouring elements, widened, or what else `convert` makes of them. It is called in both branches: to
// call it once, behind them, compiles to other instructions.
template <class T, class Convert = decltype(&Pair<T>::widen)>
__device__ __forceinline__ auto load_pair(const T* from, bool aligned, Convert convert = Pair<T>::widen) {
  using Two = typename Pair<T>::type;
  if (aligned) return convert(*reinterpret_cast<const Two*>(from));
  Two two;
  two.x = from[0];
  two.y = from[1];
  return convert(two);
}

template <class T>
__device__ __forceinline__ void store_pair(T* into, float2 x, bool aligned) {
  using Two = typename Pair<T>::type;
  const Two two = Pair<T>::narrow(x);
  if (aligned) {
    *reinterpret_cast<Two*>(into) = two;
  } else {
    into[0] = two.x;
    into[1] = two.y;
  }
}

// What is written to one row: nothing, or accumulators * factor + (row as it was) * old_factor. A term whose
// factor is 0 is not read: 0 times NaN must not happen.
struct RowUpdate {
  bool write = false;
  float factor = 0;
  float old_factor = 0;
};

// Row g or g + 8 of a 16-row accumulator to `row`, the row's first element in memory; columns from `width`, a
// multiple of 8, on are left out.
template <class T, int n_tiles>
__device__ __forceinline__ void write_row(const float (&acc)[n_tiles][4], int half, T* row,
                                          const RowUpdate& update, bool aligned, int lane,
                                          int width = 8 * n_tiles) {
  T* const mine = row + 2 * (lane & 3);
#pragma unroll
  for (int n = 0; n < n_tiles; ++n) {
    if (8 * n >= width) break;
    float2 x = {0, 0};
    if (update.factor != 0) x = {acc[n][2 * half] * update.factor, acc[n][2 * half + 1] * update.factor};
    if (update.old_factor != 0) {
      const float2 old = load_pair(mine + 8 * n, aligned);
      x.x = fmaf(old.x, update.old_factor, x.x);
      x.y = fmaf(old.y, update.old_factor, x.y);
    }
    store_pair(mine + 8 * n, x, aligned);
  }
}

template <class T, int m_tiles, int n_tiles>
__device__ __forceinline__ void write_rows_as(const Accumulators<m_tiles, n_tiles>& acc,
                                              const DeviceView& into, int head, int first,
                                              const RowUpdate (&updates)[m_tiles][2], int lane, int width) {
  const bool aligned = pairs_aligned<T>(into);
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (updates[m][half].write) {
        T* const row = row_of<T>(into, head, first + 16 * m + 8 * half + lane / 4);
        write_row(acc[m], half, row, updates[m][half], aligned, lane, width);
      }
}

// The accumulators of a warp whose first row is compact row `first` of the view, without columns from `width`
// on.
template <int m_tiles, int n_tiles>
__device__ __forceinline__ void write_rows(const Accumulators<m_tiles, n_tiles>& acc, const DeviceView& into,
                                           int head, int first, const RowUpdate (&updates)[m_tiles][2],
                                           int lane, int width = 8 * n_tiles) {
  switch (into.dtype) {
    case DType::fp32: write_rows_as<float>(acc, into, head, first, updates, lane, width); break;
    case DType::bf16: write_rows_as<__nv_bfloat16>(acc, into, head, first, updates, lane, width); break;
    case DType::fp16: write_rows_as<__half>(acc, into, head, first, updates, lane, width); break;
    case DType::fp64: break;  // fits.cpp lets no such call come here
  }
}

}  // namespace cplab::kernels::cuda
