// Products of any dtypes, multiplied and summed in T; and what goes beside them, the columns of K that all
// heads share. A thread block has 64 x 64 results, a thread 4 x 4, and 16 terms of both operands are in
// shared memory at a time.
#pragma once

#include <cstdint>

#include "kernels/families/products/params.cuh"

namespace cplab::kernels::cuda {

constexpr int plain_threads = 256, plain_tile = 64, plain_terms = 16;

// 64 results by 16 terms of an operand into shared memory; 0 beyond the ends.
template <class T, bool by_terms>
__device__ inline void load_plain(const Lines& from, std::int32_t head, std::int32_t result,
                                  std::int32_t end_result, std::int32_t term, std::int32_t end_term,
                                  T (&into)[plain_terms][plain_tile + 1]) {
  for (int n = static_cast<int>(threadIdx.x); n < plain_tile * plain_terms; n += plain_threads) {
    // Neighbouring threads read neighbouring columns.
    const int of_result = by_terms ? n % plain_tile : n / plain_terms,
              of_term = by_terms ? n / plain_tile : n % plain_terms;
    const std::int32_t i = result + of_result, t = term + of_term;
    T value = 0;
    if (i < end_result && t < end_term) {
      const std::int64_t at = by_terms ? from.at(t, head) + i : from.at(i, head) + t;
      value = load_element_as<T>(from.view.data, from.view.dtype, at);
    }
    into[of_term][of_result] = value;
  }
}

template <class T, bool a_by_terms, bool b_by_terms>
__global__ void __launch_bounds__(plain_threads) multiply_plainly(const __grid_constant__ Products p) {
  __shared__ T a[plain_terms][plain_tile + 1], b[plain_terms][plain_tile + 1];
  const std::int32_t row = static_cast<std::int32_t>(blockIdx.x) * plain_tile,
                     column = static_cast<std::int32_t>(blockIdx.y) * plain_tile;
  const Product& result = p.of[p.first_product()];
  if (column >= result.columns) return;
  const int own_row = static_cast<int>(threadIdx.x) / 16, own_column = static_cast<int>(threadIdx.x) % 16;
  T sums[4][4] = {};
  for (Walk walk(p); !walk.done(p); walk.advance(p, plain_terms)) {
    const Product& product = p.of[walk.product];
    load_plain<T, a_by_terms>(product.a, walk.head, row, p.rows, walk.first, product.depth, a);
    load_plain<T, b_by_terms>(product.b, walk.head, column, product.columns, walk.first, product.depth, b);
    __syncthreads();
#pragma unroll
    for (int term = 0; term < plain_terms; ++term)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] += a[term][own_row + 16 * i] * b[term][own_column + 16 * j];
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int32_t at_row = row + own_row + 16 * i, at_column = column + own_column + 16 * j;
      if (at_row < p.rows && at_column < result.columns)
        store_sum(p, result.into, at_row, at_column, sums[i][j]);
    }
}

// The last columns of every head's K.
struct SharedColumns {
  DeviceView keys, shared;
  std::int32_t first = 0;    // of K
  std::int64_t threads = 0;  // in all thread blocks
  Write write = Write::store;
};

// To K, from what all heads share.
template <class T>
__global__ void __launch_bounds__(plain_threads) share_columns(const __grid_constant__ SharedColumns p) {
  const std::int64_t of_row = static_cast<std::int64_t>(p.keys.heads) * p.shared.width,
                     all = of_row * p.keys.rows;
  for (std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * plain_threads + static_cast<int>(threadIdx.x);
       n < all; n += p.threads) {
    const auto row = static_cast<std::int32_t>(n / of_row);
    const auto head = static_cast<std::int32_t>(n % of_row / p.shared.width),
               column = static_cast<std::int32_t>(n % p.shared.width);
    const T value = load_element_as<T>(p.shared.data, p.shared.dtype, row_offset(p.shared, row, 0) + column);
    store_element_as<T>(value, p.keys.data, p.keys.dtype, row_offset(p.keys, row, head) + p.first + column);
  }
}

// From the gradients of K, summed over the heads.
template <class T>
__global__ void __launch_bounds__(plain_threads) sum_columns(const __grid_constant__ SharedColumns p) {
  const std::int64_t all = static_cast<std::int64_t>(p.keys.rows) * p.shared.width;
  for (std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * plain_threads + static_cast<int>(threadIdx.x);
       n < all; n += p.threads) {
    const auto row = static_cast<std::int32_t>(n / p.shared.width),
               column = static_cast<std::int32_t>(n % p.shared.width);
    const std::int64_t at = row_offset(p.shared, row, 0) + column;
    T sum = 0;
    for (std::int32_t head = 0; head < p.keys.heads; ++head)
      sum += load_element_as<T>(p.keys.data, p.keys.dtype, row_offset(p.keys, row, head) + p.first + column);
    if (p.write == Write::add) sum += load_element_as<T>(p.shared.data, p.shared.dtype, at);
    store_element_as<T>(sum, p.shared.data, p.shared.dtype, at);
  }
}

}  // namespace cplab::kernels::cuda
