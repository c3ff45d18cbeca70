// Forward attention of few queries by mma.sync: a thread block per piece of the keys, key head and part of
// its query heads, which are rows of one tile, so that K and V are read once for all of them. Blocks of both
// come by cp.async, `stages` of them in shared memory.
//
// Memory binds, so what counts is how many bytes are on their way; products are shared out so that a thread
// block needs few registers: of the scores each warp has 16 rows and a part of the keys, of the output all
// rows and a part of the columns. P goes through shared memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/families/decode/packed_rows.cuh"
#include "kernels/families/decode/shape.hpp"
#include "kernels/families/mma/parts/shared_tiles.cuh"
#include "kernels/families/mma/parts/warp_mma.cuh"
#include "kernels/families/parts/finished_row.cuh"
#include "kernels/families/parts/segment_blocks.cuh"

namespace cplab::kernels::cuda {

// Keys of D elements, values of E; tiles of so many rows.
template <int D, int E, int tile_rows>
struct DecodeShape {
  static constexpr HeadSizes sizes{D, E};
  static constexpr int key_size = D, value_size = E, rows = tile_rows;
  static constexpr int warps = decode_warps(sizes, rows);
  static constexpr int threads = 32 * warps;
  static constexpr int keys = decode_keys(sizes);
  static constexpr int stages = decode_stages(sizes, rows);
  static constexpr int blocks_per_sm = decode_blocks_together(sizes, rows);
  static constexpr int shared_bytes = decode_shared_bytes(sizes, rows, stages);
  // Of the scores: 16 rows and so many keys a warp; a block of few keys leaves some warps without any.
  static constexpr int row_groups = rows / 16;
  static constexpr int key_groups = warps / row_groups * 16 <= keys ? warps / row_groups : keys / 16;
  static constexpr int keys_of_warp = keys / key_groups;
  static constexpr int columns = E / warps;  // of the output, a warp
  static constexpr int merged_rows = decode_merge_rows(sizes);
  static constexpr int q_bytes = 2 * rows * D, k_bytes = 2 * keys * D, stage_bytes = 2 * keys * (D + E);
  static constexpr int p_at = q_bytes + stages * stage_bytes;
  static constexpr int state_at = p_at + 2 * rows * keys;
  static_assert(columns % 16 == 0 && keys_of_warp % 16 == 0 && stages <= 3);
};

// What the warps of a thread block tell each other, in shared memory.
struct DecodeState {
  Block ring[4];         // thread 0 finds blocks one ahead of those whose copies are started
  float highest[4][64];  // of the unscaled scores of a block, by key group and row; at last: sums
  float maximum[64];     // of all blocks
  float rescale[64];     // what a row of the output is multiplied with before a block is added
  RowUpdate updates[64];
};
static_assert(sizeof(DecodeState) <= decode_state_bytes);

// Starts the copy of the queries; rows behind the last become zero.
template <class T, class Shape>
__device__ __forceinline__ void load_packed_queries(std::uint32_t tile, const DeviceView& q,
                                                    const PackedRows& rows) {
  constexpr int D = Shape::key_size, chunks = Tile<D>::chunks;
  for (int index = thread_index(); index < Shape::rows * chunks; index += Shape::threads) {
    const int row = index / chunks, chunk = index % chunks;
    const bool inside = row < rows.count;
    const int from = inside ? row : 0;
    cp_async_16(tile + Tile<D>::offset(row, chunk),
                row_of<const T>(q, rows.head(from), rows.query(from)) + 8 * chunk, inside ? 16 : 0);
  }
}

// The two rows of the scores that a lane has, and the queries of its warp.
struct ScoreRows {
  int row;       // of half 0; that of half 1 is 8 further on
  int query[2];  // rows behind the last: the last row's
  int first_query, last_query;
  bool live;  // whether the warp has any row

  __device__ __forceinline__ ScoreRows(const PackedRows& rows, int row_group) {
    const int last = rows.count - 1, first = 16 * row_group;
    row = first + thread_index() % 32 / 4;
    live = first <= last;
    query[0] = rows.query(min(row, last));
    query[1] = rows.query(min(row + 8, last));
    first_query = rows.query(min(first, last));
    last_query = rows.query(min(first + 15, last));
  }
};

// Sets the scores of pairs that are not live to -inf, of keys column .. column + 8 n_tiles - 1.
template <int n_tiles>
__device__ __forceinline__ void mask_scores(float (&s)[n_tiles][4], const ScoreRows& rows, const Block& block,
                                            int column) {
  const int last_column = column + 8 * n_tiles - 1;
  if (rows.first_query >= block.row_begin && rows.last_query < block.row_end && last_column < block.end &&
      rows.last_query + block.low <= column && last_column <= rows.first_query + block.high)
    return;
  const int lane = thread_index() % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = rows.query[half];
    const bool in_rows = i >= block.row_begin && i < block.row_end;
    const int begin = max(column, i + block.low);
    const int last = min(min(last_column, block.end - 1), i + block.high);
    mask_row(s, half, begin - column, in_rows ? last - column + 1 : begin - column, lane, -infinity());
  }
}

// A row's maximum over the block's keys, of all warps that have some of them.
template <class Shape, int n_tiles>
__device__ __forceinline__ void tell_highest(DecodeState& state, const float (&s)[n_tiles][4], int key_group,
                                             int row) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float highest = -infinity();
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) highest = fmaxf(highest, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    highest = row_max(highest);
    if (thread_index() % 4 == 0) state.highest[key_group][row + 8 * half] = highest;
  }
}

// Scores become P, which goes to shared memory, rounded; the sums are of the lane's own columns.
template <class T, class Shape, int n_tiles>
__device__ __forceinline__ void write_p(DecodeState& state, unsigned char* p_tile, float (&s)[n_tiles][4],
                                        float (&maximum)[2], float (&sum)[2], int key_group, int row,
                                        float scale_log2) {
  const int lane = thread_index() % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int mine = row + 8 * half;
    float highest = maximum[half];
#pragma unroll
    for (int group = 0; group < Shape::key_groups; ++group)
      highest = fmaxf(highest, state.highest[group][mine]);
    const float shift = scaled_maximum(highest, scale_log2);
    // No fused multiply-add: the factor must be exactly 1 where the maximum stays.
    const float rescale = exp2_approx(__fmul_rn(maximum[half], scale_log2) - shift);
    maximum[half] = highest;
    if (key_group == 0 && lane % 4 == 0) state.rescale[mine] = rescale;
    float more = 0;
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) {
      const float left = exp2_approx(fmaf(s[n][2 * half], scale_log2, -shift));
      const float right = exp2_approx(fmaf(s[n][2 * half + 1], scale_log2, -shift));
      more += left + right;
      const std::uint32_t at = Tile<Shape::keys>::offset(mine, key_group * n_tiles + n) +
                               static_cast<std::uint32_t>(4 * (lane % 4));
      *reinterpret_cast<std::uint32_t*>(p_tile + at) = Element<T>::pack(left, right);
    }
    sum[half] = fmaf(sum[half], rescale, more);
  }
}

// out, of a warp's columns and all rows below `count`, times what the maximum asks for, plus P V.
template <class T, class Shape, int m_tiles, int n_tiles>
__device__ __forceinline__ void add_values(Accumulators<m_tiles, n_tiles>& out, const DecodeState& state,
                                           std::uint32_t p_tile, std::uint32_t v_tile, int count) {
  const int lane = thread_index() % 32, warp = thread_index() / 32;
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
    if (16 * m < count) {
      const float factor[2] = {state.rescale[16 * m + lane / 4], state.rescale[16 * m + 8 + lane / 4]};
      if (__any_sync(all_lanes, factor[0] != 1 || factor[1] != 1)) {
#pragma unroll
        for (int n = 0; n < n_tiles; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) out[m][n][e] *= factor[e / 2];
      }
    }
  const LaneAddress<Shape::keys> p = address_rows<Shape::keys>(p_tile);
  const LaneAddress<Shape::value_size> v = address_rows<Shape::value_size>(v_tile);
#pragma unroll
  for (int k = 0; k < Shape::keys / 16; ++k) {
    std::uint32_t b[n_tiles / 2][4];
#pragma unroll
    for (int n = 0; n < n_tiles / 2; ++n)
      ldmatrix_trans(b[n], v.down(16 * k).along(warp * (Shape::columns / 16) + n));
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
      if (16 * m < count) {
        std::uint32_t a[4];
        ldmatrix(a, p.down(16 * m).along(k));
#pragma unroll
        for (int n = 0; n < n_tiles / 2; ++n) {
          Mma<T>::multiply(out[m][2 * n], a, b[n][0], b[n][1]);
          Mma<T>::multiply(out[m][2 * n + 1], a, b[n][2], b[n][3]);
        }
      }
  }
}

// By one thread of a row: what its sum and maximum come to, and what is to be written; lse is written here.
template <class Shape>
__device__ __forceinline__ void finish_packed_row(const AttendParams& params, DecodeState& state,
                                                  const PackedRows& rows, std::int64_t partial,
                                                  float scale_log2, int row) {
  state.updates[row] = {};
  if (row >= rows.count) return;
  float sum = 0;
  for (int group = 0; group < Shape::key_groups; ++group) sum += state.highest[group][row];
  const float maximum = state.maximum[row], shift = scaled_maximum(maximum, scale_log2);
  const int head = rows.head(row), query = rows.query(row);
  if (params.max_logit != nullptr && maximum != -infinity())
    atomic_max(static_cast<float*>(params.max_logit) + head * params.max_logit_stride,
               maximum * static_cast<float>(params.scale));
  if (params.split.count > 0) {
    const bool empty = sum == 0;
    state.updates[row] = {!empty, __fdividef(1, sum), 0};
    params.split.lse[partial + row] = empty ? -infinity() : shift + log2f(sum);
    return;
  }
  const FinishedRow finished = finish_row(params, head, query, true, sum, shift);
  state.updates[row] = finished.update;
  if (finished.update.write) *row_of<float>(params.lse, head, query) = finished.lse;
}

// Rows of a warp's columns, to `row_at(row)`, where row `row` of the tile begins.
template <class Out, class Shape, int m_tiles, int n_tiles, class RowAt>
__device__ __forceinline__ void write_columns(const Accumulators<m_tiles, n_tiles>& out,
                                              const DecodeState& state, bool aligned, RowAt row_at) {
  const int lane = thread_index() % 32, warp = thread_index() / 32;
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = 16 * m + 8 * half + lane / 4;
      const RowUpdate update = state.updates[row];
      if (!update.write) continue;
      Out* const to = row_at(row) + warp * Shape::columns;
      write_row(out[m], half, to, update, aligned, lane);
    }
}

template <class Shape, int m_tiles, int n_tiles>
__device__ __forceinline__ void write_packed(const AttendParams& params,
                                             const Accumulators<m_tiles, n_tiles>& out,
                                             const DecodeState& state, const PackedRows& rows,
                                             std::int64_t partial) {
  if (params.split.count > 0) {
    float* const first = params.split.out + partial * Shape::value_size;
    write_columns<float, Shape>(out, state, true, [&](int row) { return first + row * Shape::value_size; });
    return;
  }
  const auto write_as = [&](auto* zero) {
    using Out = std::remove_pointer_t<decltype(zero)>;
    write_columns<Out, Shape>(out, state, pairs_aligned<Out>(params.out), [&](int row) {
      return row_of<Out>(params.out, rows.head(row), rows.query(row));
    });
  };
  switch (params.out.dtype) {
    case DType::fp32: write_as(static_cast<float*>(nullptr)); break;
    case DType::bf16: write_as(static_cast<__nv_bfloat16*>(nullptr)); break;
    case DType::fp16: write_as(static_cast<__half*>(nullptr)); break;
    case DType::fp64: break;  // fits.cpp lets no such call come here
  }
}

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks_per_sm)
    attend_decode_kernel(const __grid_constant__ AttendParams params,
                         const __grid_constant__ PackedHeads packed) {
  constexpr int D = Shape::key_size, E = Shape::value_size, keys = Shape::keys, stages = Shape::stages;
  constexpr int n_tiles = Shape::keys_of_warp / 8;
  alignas(1024) extern __shared__ unsigned char decode_shared[];
  auto& state = *reinterpret_cast<DecodeState*>(decode_shared + Shape::state_at);
  const std::uint32_t q_tile = shared_address(decode_shared), p_tile = q_tile + Shape::p_at;
  const auto stage = [&](int at) {
    return q_tile + static_cast<std::uint32_t>(Shape::q_bytes + at % stages * Shape::stage_bytes);
  };

  const TilePart of = tile_part(blockIdx.x, packed, params.k.heads);
  const WorkTile tile = params.work.tiles[of.tile];
  const PackedRows rows = packed_rows(params, packed, of, tile.begin, tile.end);
  const auto scale_log2 = static_cast<float>(params.scale * 1.44269504088896340736);
  const int warp = thread_index() / 32, row_group = warp % Shape::row_groups,
            key_group = warp / Shape::row_groups;
  const ScoreRows mine(rows, row_group);
  const bool scores = key_group < Shape::key_groups && mine.live;

  wait_on_dependent_grids();
  if (thread_index() == 0) {
    state.ring[0] = first_block<Owner::queries>(0, 1, tile, params.work.segments);
    for (int n = 1; n < stages; ++n)
      state.ring[n] = next_block<Owner::queries, keys>(state.ring[n - 1], 1, tile, params.work.segments);
  }
  __syncthreads();
  const auto load = [&](int at) {
    const Block& block = state.ring[at & 3];
    if (block.live()) {
      load_tile<T, D, keys, Shape::threads>(stage(at), params.k, of.key_head, block.begin, block.end);
      load_tile<T, E, keys, Shape::threads>(stage(at) + Shape::k_bytes, params.v, of.key_head, block.begin,
                                            block.end);
    }
    cp_async_commit_group();
  };
  load_packed_queries<T, Shape>(q_tile, params.q, rows);
  for (int at = 0; at < stages - 1; ++at) load(at);

  Accumulators<Shape::rows / 16, Shape::columns / 8> out;
  clear(out);
  float maximum[2] = {-infinity(), -infinity()}, sum[2] = {0, 0};
#pragma unroll 1
  for (int at = 0; state.ring[at & 3].live(); ++at) {
    cp_async_wait_group<stages - 2>();
    __syncthreads();  // this block has arrived; the one before it and P are no longer read
    load(at + stages - 1);
    if (thread_index() == 0)
      state.ring[(at + stages) & 3] =
          next_block<Owner::queries, keys>(state.ring[(at + stages - 1) & 3], 1, tile, params.work.segments);
    Accumulators<1, n_tiles> s;
    if (scores) {
      clear(s);
      gemm_ss<T, D>(s, address_own_rows<D, 16>(q_tile, row_group),
                    address_columns<D>(stage(at)).down(key_group * Shape::keys_of_warp));
      const Block& block = state.ring[at & 3];
      mask_scores(s[0], mine, block, block.begin + key_group * Shape::keys_of_warp);
      tell_highest<Shape>(state, s[0], key_group, mine.row);
    }
    __syncthreads();
    if (scores)
      write_p<T, Shape>(state, decode_shared + Shape::p_at, s[0], maximum, sum, key_group, mine.row,
                        scale_log2);
    __syncthreads();
    add_values<T, Shape>(out, state, p_tile, stage(at) + Shape::k_bytes, rows.count);
  }
  launch_dependents();
  cp_async_wait_all();  // a tile without keys has waited for no copy, and none may outlive its thread block
  if (scores) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float all = row_sum(sum[half]);
      if (thread_index() % 4 != 0) continue;
      state.highest[key_group][mine.row + 8 * half] = all;
      if (key_group == 0) state.maximum[mine.row + 8 * half] = maximum[half];
    }
  }
  __syncthreads();
  const std::int64_t partial = first_partial_row(params, packed, of.tile, of, Shape::rows);
  if (thread_index() < Shape::rows)
    finish_packed_row<Shape>(params, state, rows, partial, scale_log2, thread_index());
  __syncthreads();
  write_packed<Shape>(params, out, state, rows, partial);
}

}  // namespace cplab::kernels::cuda
