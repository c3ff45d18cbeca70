// The epilogue of the forward kernel: lse, and out through the shared memory where Q was. Written to be short
// rather than fast: for small problems fetching the instructions is what takes time.
#pragma once

#include <cstdint>

#include "kernels/families/parts/hopper/instructions.cuh"
#include "kernels/families/parts/max_logit.cuh"
#include "kernels/families/parts/output_rows.cuh"
#include "kernels/families/parts/softmax.cuh"

namespace cplab::kernels::cuda::hopper {

// Writes lse of a warp's 16 rows from `first` on. Of the four lanes that share two rows, lanes 0 and 1 finish
// one each: row lane / 4 + 8 * (lane % 2), to which the returned update belongs. Rows from tile_end on belong
// to no tile and are left alone.
__device__ __forceinline__ RowUpdate finish_row(const AttendParams& call, const SoftmaxState& softmax,
                                                float scale_log2, int head, int first, int tile_end) {
  const int lane = thread_index() % 32;
  const float sums[] = {row_sum(softmax.sum[0]), row_sum(softmax.sum[1])};
  const bool second = lane % 2 != 0;
  const float sum = second ? sums[1] : sums[0];
  const float maximum = second ? softmax.maximum[1] : softmax.maximum[0];
  const int row = first + lane / 4 + (second ? 8 : 0);
  const bool merge = call.write == Write::merge;
  const bool empty = sum == 0;
  RowUpdate update;
  update.write = lane % 4 < 2 && row < tile_end && !(merge && empty);
  if (!update.write) return update;
  FinishedSum finished = sum_without_keys(call, head);
  if (!empty) finished = finish_sum(call, head, sum, scaled_maximum(maximum, scale_log2));
  update.factor = finished.factor;
  float lse = finished.lse;
  float* const to = row_of<float>(call.lse, head, row);
  const float held = merge ? *to : -infinity();
  if (held != -infinity()) {
    const float merged = merged_lse(held, lse);
    update.old_factor = expf(held - merged);
    update.factor *= expf(lse - merged);
    lse = merged;
  }
  *to = lse;
  return update;
}

// The lane that has finished row `row` of the warp's 16, and holds its update.
__device__ __forceinline__ int finishing_lane(int row) {
  return row % 8 * 4 + row / 8;
}

// Accumulators of 64 rows, times their factors, as a swizzled tile of 16 bits for tma_store. The swizzle also
// keeps the stores of a warp, eight rows of 16 bytes, in different banks.
template <class T, int d_tiles>
__device__ __forceinline__ void stage_out_tile(unsigned char* tile, const float (&sums)[d_tiles][4],
                                               const RowUpdate& update) {
  const int lane = thread_index() % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = 16 * (thread_index() / 32 % 4) + 8 * half + lane / 4;
    const float factor = __shfl_sync(all_lanes, update.factor, finishing_lane(8 * half + lane / 4));
#pragma unroll
    for (int d = 0; d < d_tiles; ++d) {
      const int byte = d / 8 * 64 * 128 + row * 128 + d % 8 * 16 + lane % 4 * 4;
      std::uint32_t pair = 0;  // a factor of 0: the row has no live pair, its accumulators are not read
      if (factor != 0) pair = Element<T>::pack(sums[d][2 * half] * factor, sums[d][2 * half + 1] * factor);
      *reinterpret_cast<std::uint32_t*>(tile + (byte ^ (row & 7) << 4)) = pair;
    }
  }
}

// Accumulators of 64 rows, times their factors, merged into such a tile, which holds what the rows were.
template <class T, int d_tiles>
__device__ __forceinline__ void merge_out_tile(unsigned char* tile, const float (&sums)[d_tiles][4],
                                               const RowUpdate& update) {
  const int lane = thread_index() % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = 16 * (thread_index() / 32 % 4) + 8 * half + lane / 4;
    const int from = finishing_lane(8 * half + lane / 4);
    const float factor = __shfl_sync(all_lanes, update.factor, from);
    const float old_factor = __shfl_sync(all_lanes, update.old_factor, from);
    if (__shfl_sync(all_lanes, static_cast<int>(update.write), from) == 0) continue;  // stays as it was
#pragma unroll
    for (int d = 0; d < d_tiles; ++d) {
      const int byte = d / 8 * 64 * 128 + row * 128 + d % 8 * 16 + lane % 4 * 4;
      auto* const pair = reinterpret_cast<T*>(tile + (byte ^ (row & 7) << 4));
      float2 x = {sums[d][2 * half] * factor, sums[d][2 * half + 1] * factor};
      if (old_factor != 0) {
        const float2 old = load_pair(pair, true);
        x = {fmaf(old.x, old_factor, x.x), fmaf(old.y, old_factor, x.y)};
      }
      *reinterpret_cast<std::uint32_t*>(pair) = Element<T>::pack(x.x, x.y);
    }
  }
}

// A warp writes eight rows of out, each from D staged floats, whose 8-byte chunk n lies at n ^
// swizzle. When rows are merged, what they were is read before the first of some rows is written, so
// that memory is waited for once for all of them. Columns beyond those of `into` are left out.
template <class T, int D>
__device__ __forceinline__ void write_staged_rows(const float2* staged, const DeviceView& into, int head,
                                                  int first, const RowUpdate& update, int half) {
  constexpr int chunks = D / 64;                         // of a row for each lane
  constexpr int together = chunks > 2 ? 2 : 2 * chunks;  // rows, as there are registers
  const int lane = thread_index() % 32;
  const bool aligned = pairs_aligned<T>(into);
  const auto as_it_is = [](typename Pair<T>::type two) { return two; };
#pragma unroll 1
  for (int begin = 0; begin < 8; begin += together) {
    T* rows[together];
    // Widened when they are used: that waits for them. Initialized, because to ptxas what is not always
    // assigned is in use from the kernel's beginning, and takes a register in the mainloop.
    typename Pair<T>::type old[together][chunks] = {};
    float old_factor[together];
#pragma unroll
    for (int n = 0; n < together; ++n) {
      const int from = finishing_lane(8 * half + begin + n);
      old_factor[n] = __shfl_sync(all_lanes, update.old_factor, from);
      rows[n] = nullptr;
      if (__shfl_sync(all_lanes, static_cast<int>(update.write), from) == 0) continue;
      rows[n] = row_of<T>(into, head, first + 8 * half + begin + n) + 2 * lane;
#pragma unroll
      for (int chunk = 0; chunk < chunks; ++chunk)
        if (old_factor[n] != 0 && 2 * lane + 64 * chunk < into.width)
          old[n][chunk] = load_pair(rows[n] + 64 * chunk, aligned, as_it_is);
    }
#pragma unroll
    for (int n = 0; n < together; ++n) {
      if (rows[n] == nullptr) continue;
#pragma unroll
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const int row = begin + n;
        float2 x = staged[row * (D / 2) + ((lane + 32 * chunk) ^ 4 * row)];
        if (old_factor[n] != 0) {
          const float2 held = Pair<T>::widen(old[n][chunk]);
          x.x = fmaf(held.x, old_factor[n], x.x);
          x.y = fmaf(held.y, old_factor[n], x.y);
        }
        if (2 * lane + 64 * chunk < into.width) store_pair(rows[n] + 64 * chunk, x, aligned);
      }
    }
  }
}

// out of any dtype, stored or merged: eight rows at a time go through the 8 D floats at `staged`, which
// belong to the warp.
template <int D>
__device__ __forceinline__ void write_out_rows(unsigned char* staged, const float (&sums)[D / 8][4],
                                               const DeviceView& into, int head, int first,
                                               const RowUpdate& update) {
  auto* const rows = reinterpret_cast<float2*>(staged);
  const int lane = thread_index() % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float factor = __shfl_sync(all_lanes, update.factor, finishing_lane(8 * half + lane / 4));
    // The chunks of a row are permuted by its number, so that the rows of a warp do not meet in the same
    // banks.
    float2* const mine = rows + lane / 4 * (D / 2);
#pragma unroll
    for (int d = 0; d < D / 8; ++d) {
      const float2 x = {sums[d][2 * half] * factor, sums[d][2 * half + 1] * factor};
      mine[(4 * d + lane % 4) ^ lane / 4 * 4] = factor != 0 ? x : float2{0, 0};
    }
    __syncwarp();
    switch (into.dtype) {
      case DType::fp32: write_staged_rows<float, D>(rows, into, head, first, update, half); break;
      case DType::bf16: write_staged_rows<__nv_bfloat16, D>(rows, into, head, first, update, half); break;
      case DType::fp16: write_staged_rows<__half, D>(rows, into, head, first, update, half); break;
      case DType::fp64: break;  // fits.cpp lets no such call come here
    }
    __syncwarp();
  }
}

}  // namespace cplab::kernels::cuda::hopper
