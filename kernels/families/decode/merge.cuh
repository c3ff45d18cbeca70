// Merges what the pieces of the keys of a row came to (SplitKeys), and stores it or merges it with what the
// call's results held.
#pragma once

#include <cstdint>

#include "kernels/families/decode/packed_rows.cuh"
#include "kernels/families/decode/shape.hpp"
#include "kernels/families/parts/finished_row.cuh"

namespace cplab::kernels::cuda {

// Four columns of a row, from `to` on.
template <class Out>
__device__ __forceinline__ void write_four(Out* to, const float (&x)[4], const RowUpdate& update,
                                           bool aligned) {
#pragma unroll
  for (int n = 0; n < 4; n += 2) {
    float2 pair = {0, 0};
    if (update.factor != 0) pair = {x[n] * update.factor, x[n + 1] * update.factor};
    if (update.old_factor != 0) {
      const float2 old = load_pair(to + n, aligned);
      pair.x = fmaf(old.x, update.old_factor, pair.x);
      pair.y = fmaf(old.y, update.old_factor, pair.y);
    }
    store_pair(to + n, pair, aligned);
  }
}

template <class Out>
__device__ __forceinline__ void write_four_as(const DeviceView& out, int head, int query, int column,
                                              const float (&x)[4], const RowUpdate& update) {
  write_four(row_of<Out>(out, head, query) + column, x, update, pairs_aligned<Out>(out));
}

// What threads of a row tell each other, in shared memory.
struct MergeState {
  float highest[decode_merge_threads / 32];  // of a warp's pieces
  float sums[decode_merge_threads];
  float4 columns[decode_merge_threads];
};
static_assert(sizeof(MergeState) <= decode_merge_bytes);

// The largest lse of the row's pieces, by all threads of the block.
__device__ __forceinline__ float highest_of_pieces(MergeState& state, const float* lse, std::int64_t stride,
                                                   int pieces) {
  const int thread = thread_index();
  float highest = -infinity();
  for (int n = thread; n < pieces; n += decode_merge_threads) highest = fmaxf(highest, lse[n * stride]);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    highest = fmaxf(highest, __shfl_xor_sync(all_lanes, highest, distance));
  if (thread % 32 == 0) state.highest[thread / 32] = highest;
  __syncthreads();
  for (const float other : state.highest) highest = fmaxf(highest, other);
  return highest;
}

// Pieces first, first + step, ... of a row, four columns each: sums of exp2(lse - shift), alone and times
// what the piece came to. Of a piece that saw no key only lse is written: what else is read there is not
// used.
template <int width>
__device__ __forceinline__ void add_pieces(const float* out, const float* lse, std::int64_t stride,
                                           int pieces, int first, int step, float shift, float (&columns)[4],
                                           float& sum) {
#pragma unroll 8
  for (int n = first; n < pieces; n += step) {
    const float of_piece = lse[n * stride];
    const float4 part = *reinterpret_cast<const float4*>(out + n * stride * width);
    const float share = of_piece == -infinity() ? 0 : exp2f(of_piece - shift);
    const bool there = share != 0;
    sum += share;
    columns[0] += there ? part.x * share : 0;
    columns[1] += there ? part.y * share : 0;
    columns[2] += there ? part.z * share : 0;
    columns[3] += there ? part.w * share : 0;
  }
}

// A thread block for each row of a tile: so many threads have all columns of some of the pieces.
template <class T, class Shape>
__global__ void __launch_bounds__(decode_merge_threads)
    merge_decode_kernel(const __grid_constant__ AttendParams params,
                        const __grid_constant__ PackedHeads packed) {
  constexpr int E = Shape::value_size, row_threads = E / 4, groups = decode_merge_threads / row_threads;
  alignas(1024) extern __shared__ unsigned char decode_shared[];
  auto& state = *reinterpret_cast<MergeState*>(decode_shared);
  const TilePart of = tile_part(blockIdx.x / Shape::rows, packed, params.k.heads);
  const SplitRows split = params.split.rows[of.tile];
  const PackedRows rows = packed_rows(params, packed, of, split.begin, split.end);
  const int row = static_cast<int>(blockIdx.x % Shape::rows);
  if (row >= rows.count) return;
  const int head = rows.head(row), query = rows.query(row);
  const int thread = thread_index(), group = thread / row_threads, column = thread % row_threads * 4;

  wait_on_dependent_grids();
  const std::int64_t first = first_partial_row(params, packed, split.first, of, Shape::rows) + row;
  const std::int64_t stride = std::int64_t{params.k.heads} * packed.parts * Shape::rows;
  const float* const lse = params.split.lse + first;
  const float highest = highest_of_pieces(state, lse, stride, split.count);
  const float shift = highest == -infinity() ? 0 : highest;
  float columns[4] = {0, 0, 0, 0}, sum = 0;
  add_pieces<E>(params.split.out + first * E + column, lse, stride, split.count, group, groups, shift,
                columns, sum);
  state.sums[thread] = sum;
  state.columns[thread] = float4{columns[0], columns[1], columns[2], columns[3]};
  __syncthreads();
  for (int other = 1; group == 0 && other < groups; ++other) {
    const float4 more = state.columns[thread + other * row_threads];
    sum += state.sums[thread + other * row_threads];
    columns[0] += more.x;
    columns[1] += more.y;
    columns[2] += more.z;
    columns[3] += more.w;
  }
  const FinishedRow finished = finish_row(params, head, query, group == 0, sum, shift);
  __syncthreads();  // all have read the lse that one of them overwrites
  if (!finished.update.write) return;
  if (thread == 0) *row_of<float>(params.lse, head, query) = finished.lse;
  switch (params.out.dtype) {
    case DType::fp32: write_four_as<float>(params.out, head, query, column, columns, finished.update); break;
    case DType::bf16:
      write_four_as<__nv_bfloat16>(params.out, head, query, column, columns, finished.update);
      break;
    case DType::fp16: write_four_as<__half>(params.out, head, query, column, columns, finished.update); break;
    case DType::fp64: break;  // fits.cpp lets no such call come here
  }
}

}  // namespace cplab::kernels::cuda
