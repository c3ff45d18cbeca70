// Merges what the pieces of the keys of a row came to (SplitKeys), and stores it or merges it with what the
// call's results held: some threads for each row, four columns each.
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

struct MergedPieces {
  float sum = 0, shift = 0;  // sum of exp2(lse - shift)
  float columns[4] = {0, 0, 0, 0};
};

// Row `row` of pieces `of`, columns column .. column + 3. stride: rows from piece to piece.
template <class Shape>
__device__ __forceinline__ MergedPieces merge_pieces(const SplitKeys& split, std::int64_t row,
                                                     std::int64_t stride, int pieces, int column) {
  float highest = -infinity();
#pragma unroll 4
  for (int n = 0; n < pieces; ++n) highest = fmaxf(highest, split.lse[row + n * stride]);
  MergedPieces merged;
  merged.shift = highest == -infinity() ? 0 : highest;
#pragma unroll 4
  for (int n = 0; n < pieces; ++n) {
    const std::int64_t at = row + n * stride;
    const float lse = split.lse[at];
    if (lse == -infinity()) continue;
    const float share = exp2f(lse - merged.shift);
    const float4 part = *reinterpret_cast<const float4*>(split.out + at * Shape::value_size + column);
    merged.sum += share;
    merged.columns[0] = fmaf(part.x, share, merged.columns[0]);
    merged.columns[1] = fmaf(part.y, share, merged.columns[1]);
    merged.columns[2] = fmaf(part.z, share, merged.columns[2]);
    merged.columns[3] = fmaf(part.w, share, merged.columns[3]);
  }
  return merged;
}

template <class T, class Shape>
__global__ void __launch_bounds__(decode_merge_threads)
    merge_decode_kernel(const __grid_constant__ AttendParams params,
                        const __grid_constant__ PackedHeads packed) {
  constexpr int rows_of_block = Shape::merged_rows;
  constexpr int row_threads = decode_merge_threads / rows_of_block;
  constexpr int blocks = Shape::rows / rows_of_block;
  const TilePart of = tile_part(blockIdx.x / blocks, packed, params.k.heads);
  const SplitRows split = params.split.rows[of.tile];
  const PackedRows rows = packed_rows(params, packed, of, split.begin, split.end);
  const int thread = thread_index();
  const int row = static_cast<int>(blockIdx.x % blocks) * rows_of_block + thread / row_threads;
  const bool there = row < rows.count;
  const int head = rows.head(there ? row : 0), query = rows.query(there ? row : 0);
  const int column = thread % row_threads * 4;

  wait_on_dependent_grids();
  const std::int64_t first = first_partial_row(params, packed, split.first, of, Shape::rows) + row;
  const MergedPieces merged =
      merge_pieces<Shape>(params.split, first, std::int64_t{params.k.heads} * packed.parts * Shape::rows,
                          there ? split.count : 0, column);
  const FinishedRow finished = finish_row(params, head, query, there, merged.sum, merged.shift);
  __syncthreads();  // all threads of a row have read the lse that one of them overwrites
  if (!finished.update.write) return;
  if (column == 0) *row_of<float>(params.lse, head, query) = finished.lse;
  switch (params.out.dtype) {
    case DType::fp32:
      write_four_as<float>(params.out, head, query, column, merged.columns, finished.update);
      break;
    case DType::bf16:
      write_four_as<__nv_bfloat16>(params.out, head, query, column, merged.columns, finished.update);
      break;
    case DType::fp16:
      write_four_as<__half>(params.out, head, query, column, merged.columns, finished.update);
      break;
    case DType::fp64: break;  // fits.cpp lets no such call come here
  }
}

}  // namespace cplab::kernels::cuda
