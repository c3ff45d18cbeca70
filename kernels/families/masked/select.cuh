// Which keys are kept by their biases (SelectKeys of masked.hpp): a thread block for each row. The k-th
// largest is found by digits of 8 bits, from the top: how many of those that are equal so far have which
// digit. Counts are integers, so the same keys are kept in every run.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/families/parts/element.cuh"
#include "kernels/families/parts/primitives.cuh"
#include "kernels/tiles/masked_params.hpp"

namespace cplab::kernels::cuda {

constexpr int select_threads = 256;
constexpr int select_warps = select_threads / 32;

// Unsigned numbers in the order of the biases: +0 and -0 are one, NaN is the largest.
__device__ inline std::uint32_t in_order(float bias) {
  const std::uint32_t bits = __float_as_uint(bias == 0 ? 0.0F : bias);
  return bias != bias ? ~0U : (bits >> 31) != 0 ? ~bits : bits | 1U << 31;
}
__device__ inline std::uint64_t in_order(double bias) {
  const auto bits = static_cast<std::uint64_t>(__double_as_longlong(bias == 0 ? 0.0 : bias));
  return bias != bias ? ~std::uint64_t{0} : (bits >> 63) != 0 ? ~bits : bits | std::uint64_t{1} << 63;
}

// One row: where its numbers lie, in elements behind the data of bias and keep.
struct SelectedRow {
  const SelectParams& params;
  int row, head;
  std::int64_t bias_begin, keep_begin;  // full

  __device__ SelectedRow(const SelectParams& p, int row_index, int head_index)
      : params(p),
        row(row_index),
        head(head_index),
        bias_begin(row_offset(p.bias, row, head)),
        keep_begin(row_offset(p.keep, row, head)) {}

  template <class T>
  __device__ T bias(int key) const {
    const std::int64_t at = params.full ? bias_begin + key : row_offset(params.bias, key, head);
    return load_element_as<T>(params.bias.data, params.bias.dtype, at);
  }
  __device__ std::int64_t keep_at(int key) const {
    return params.full ? keep_begin + key : row_offset(params.keep, key, head);
  }
  __device__ bool kept(int key) const {
    return load_element_as<float>(params.keep.data, params.keep.dtype, keep_at(key)) != 0;
  }
  __device__ void keep(int key, bool is) const {
    store_element_as<float>(is ? 1.0F : 0.0F, params.keep.data, params.keep.dtype, keep_at(key));
  }
};

// fp32 or fp64 as T holds every bias.
template <class T>
__global__ void __launch_bounds__(select_threads, 4)
    select_keys(const __grid_constant__ SelectParams params) {
  using Key = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  constexpr int bits = 8 * static_cast<int>(sizeof(T));
  __shared__ unsigned counts[256];
  __shared__ unsigned chosen, still_needed;
  const SelectedRow row(params, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y));
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int keys = params.keys;
  // A warp's keys are neighbours: its equal ones come in order.
  const int share = (keys + select_threads - 1) / select_threads * 32;
  const int begin = min(warp * share, keys), end = min(begin + share, keys);
  const bool all = !params.relu && params.top_k >= keys;

  Key threshold = 0;                                  // the digits found, the last one lowest
  int shift = bits;                                   // of a number that is to be compared with them
  auto needed = static_cast<unsigned>(params.top_k);  // of those that have these digits
  const int digits = all || params.relu || params.top_k == 0 ? 0 : params.digits;
  for (int digit = 0; digit < digits; ++digit) {
    counts[thread] = 0;
    __syncthreads();
    for (int first = begin; first < end; first += 32) {
      const int key = first + lane;
      const Key number = key < end ? in_order(row.bias<T>(key)) : 0;
      const bool equal = key < end && (digit == 0 || number >> shift == threshold);
      // Many lanes meet in one count: shared memory adds a warp's ones to it at once.
      if (equal) atomicAdd(&counts[static_cast<unsigned>(number >> (shift - 8)) & 255U], 1U);
    }
    __syncthreads();
    unsigned above = 0;
    for (int other = thread + 1; other < 256; ++other) above += counts[other];
    if (above < needed && needed <= above + counts[thread]) {
      chosen = static_cast<unsigned>(thread);
      still_needed = needed - above;
    }
    __syncthreads();
    threshold = threshold << 8 | chosen;
    needed = still_needed;
    shift -= 8;
  }
  // Of the equal ones the first: those of the warps before count too.
  if (thread < select_warps) counts[thread] = 0;
  __syncthreads();
  for (int first = begin; digits > 0 && first < end; first += 32) {
    const int key = first + lane;
    const unsigned equal =
        __ballot_sync(all_lanes, key < end && in_order(row.bias<T>(min(key, end - 1))) >> shift == threshold);
    if (lane == 0) counts[warp] += static_cast<unsigned>(__popc(equal));
  }
  __syncthreads();
  unsigned before = 0;
  for (int other = 0; other < warp; ++other) before += counts[other];
  for (int first = begin; first < end; first += 32) {
    const int key = first + lane;
    const T bias = key < end ? row.bias<T>(key) : T(0);
    bool keep = all || (params.relu && bias > 0);
    if (digits > 0) {
      const Key number = in_order(bias) >> shift;
      const unsigned equal = __ballot_sync(all_lanes, key < end && number == threshold);
      const unsigned rank = before + static_cast<unsigned>(__popc(equal & ((1U << lane) - 1)));
      keep = number > threshold || (number == threshold && rank < needed);
      keep = keep && in_order(bias) != in_order(minus_infinity<T>());
      before += static_cast<unsigned>(__popc(equal));
    }
    if (key < end) row.keep(key, keep);
  }
  for (int key = keys + thread; params.full && key < params.keep.width; key += select_threads)
    row.keep(key, false);
  if (params.block <= 1 || all) return;
  __syncthreads();  // all of the row is written
  const int groups = keys == 0 ? 0 : (keys - 1) / params.block + 1;
  for (int group = warp; group < groups; group += select_warps) {
    const int first = group * params.block;
    const int stop = min(first + params.block, keys);
    unsigned selected = 0;
    for (int key = first; key < stop; key += 32)
      selected += static_cast<unsigned>(
          __popc(__ballot_sync(all_lanes, key + lane < stop && row.kept(min(key + lane, stop - 1)))));
    for (int key = first + lane; key < stop; key += 32)
      row.keep(key, 2 * selected > static_cast<unsigned>(stop - first));
  }
}

}  // namespace cplab::kernels::cuda
