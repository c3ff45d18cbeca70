// dk and dv of dynamic mask attention by mma.sync, and the bias gradient where there is one bias for a key:
// mma/backward_dkv.cuh with tiles of 64 keys, one cell wide, and blocks of one cell of queries.
#pragma once

#include <cstdint>

#include "kernels/families/masked/fragments.cuh"
#include "kernels/families/masked/values.cuh"
#include "kernels/families/mma/parts/shared_tiles.cuh"
#include "kernels/families/mma/parts/warp_mma.cuh"

namespace cplab::kernels::cuda {

// Of a block's queries a warp multiplies with `part` at a time: more do not fit its registers.
template <int D>
struct MaskedDkvShape {
  static constexpr int warps = 4;
  static constexpr int threads = 32 * warps;
  static constexpr int keys = 16 * warps;
  static constexpr int queries = cell_rows;
  static constexpr int part = 32;
  static constexpr int blocks_per_sm = 2;
  static constexpr int k_bytes = keys * Tile<D>::row_bytes;
  static constexpr int q_bytes = queries * Tile<D>::row_bytes;
  static constexpr int row_bytes = queries * 4;  // of lse and of delta
  static constexpr int stage_bytes = 2 * q_bytes + 2 * row_bytes;
  static constexpr int shared_bytes = 2 * k_bytes + 2 * stage_bytes + static_cast<int>(sizeof(Walk));
  static_assert(keys == cell_rows);
};

// Starts the copies of q, dout, lse and delta of a block of queries; rows beyond it become zero.
template <class T, int D>
__device__ __forceinline__ void load_masked_queries(std::uint32_t stage, const AttendBackwardParams& call,
                                                    const Block& block) {
  using Shape = MaskedDkvShape<D>;
  load_tile<T, D, Shape::queries, Shape::threads>(stage, call.q, block.head, block.begin, block.end);
  load_tile<T, D, Shape::queries, Shape::threads>(stage + Shape::q_bytes, call.dout, block.head, block.begin,
                                                  block.end);
  const int row = thread_index();
  if (row < Shape::queries) {
    const int compact = min(block.begin + row, block.end - 1);
    const int bytes = block.begin + row < block.end ? 4 : 0;
    const std::uint32_t at = stage + 2 * Shape::q_bytes + static_cast<std::uint32_t>(4 * row);
    cp_async_4(at, row_of<const float>(call.lse, block.head, compact), bytes);
    cp_async_4(at + Shape::row_bytes, row_of<const float>(call.delta, block.head, compact), bytes);
  }
}

// As prepare_queries() of mma/backward_dkv.cuh: lse in units of log2, and of rows without any gradient lse
// is +inf and the rest zero. Returns whether there are such rows.
template <int D>
__device__ __forceinline__ bool prepare_masked_queries(unsigned char* stage) {
  using Shape = MaskedDkvShape<D>;
  auto* const lse = reinterpret_cast<float*>(stage + 2 * Shape::q_bytes);
  auto* const delta = lse + Shape::queries;
  cp_async_wait_all();
  bool empty = false;
  if (const int row = thread_index(); row < Shape::queries) {
    const float held = lse[row];
    empty = held == -infinity();
    lse[row] = empty ? infinity() : held * log2_e;
    if (empty) delta[row] = 0;
  }
  if (__syncthreads_or(empty) == 0) return false;
  for (int at = thread_index(); at < 2 * Shape::queries * Tile<D>::chunks; at += Shape::threads) {
    const int row = at / Tile<D>::chunks;  // of q, then of dout
    if (lse[row % Shape::queries] == infinity()) reinterpret_cast<uint4*>(stage)[at] = make_uint4(0, 0, 0, 0);
  }
  __syncthreads();
  return true;
}

// The sums of a key's dz to dbias, which has one number for each row of k. `sum`: of the lane's columns.
__device__ __forceinline__ void write_key_bias_gradient(const MaskedBackwardParams& params, int head, int row,
                                                        int row_end, const float (&sum)[2],
                                                        std::uint32_t seen, int lane) {
  const bool add = params.write_dbias == Write::add;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float value = row_sum(sum[half]);
    const bool touched = row_seen(seen, half);
    const int key = row + 8 * half;
    if (key >= row_end || lane % 4 != 0 || (add && !touched)) continue;
    const std::int64_t at = row_offset(params.dbias, key, head);
    if (add) value += load_element_as<float>(params.dbias.data, params.dbias.dtype, at);
    store_element_as<float>(value, params.dbias.data, params.dbias.dtype, at);
  }
}

template <class T, int D>
__global__ void __launch_bounds__(MaskedDkvShape<D>::threads, MaskedDkvShape<D>::blocks_per_sm)
    attend_masked_dkv_kernel(const __grid_constant__ MaskedBackwardParams params) {
  using Shape = MaskedDkvShape<D>;
  constexpr int n_tiles = Shape::part / 8;
  constexpr Owner owner = Owner::keys;
  alignas(256) extern __shared__ unsigned char masked_dkv_shared[];
  const AttendBackwardParams& call = params.tile;
  const DevicePairMask& mask = params.mask;

  const auto kv_head = static_cast<int>(blockIdx.y);
  const WorkTile tile = call.by_k.tiles[blockIdx.x];
  const LogitScale by{static_cast<float>(call.scale), static_cast<float>(mask.softcap)};
  const int heads_per_bias = call.q.heads / max(mask.bias.heads, 1);
  const int heads_per_keep = call.q.heads / max(mask.keep.heads, 1);
  const KeptCells kept{mask.by_k, call.q.heads, max(mask.keep.heads, 1)};

  unsigned char* const stages = masked_dkv_shared + 2 * Shape::k_bytes;
  const std::uint32_t k_tile = shared_address(masked_dkv_shared);
  const std::uint32_t v_tile = k_tile + Shape::k_bytes;
  const std::uint32_t q_tile = shared_address(stages);

  Accumulators<1, D / 8> dk, dv;
  clear(dk);
  clear(dv);
  float dbias[2] = {0, 0};
  std::uint32_t seen = 0;

  auto* const walk = reinterpret_cast<Walk*>(stages + 2 * Shape::stage_bytes);
  if (thread_index() < 32) {
    const int group = call.q.heads / call.k.heads;
    const int stop_head = kv_head * group + group;
    const Block first = first_kept_block<owner>(kv_head * group, stop_head, tile, call.by_k.segments, kept);
    const Block second = next_kept_block<owner>(first, stop_head, tile, call.by_k.segments, kept);
    if (threadIdx.x == 0) {
      walk->tile = tile;
      walk->stop_head = stop_head;
      walk->block(0) = first;
      walk->block(1) = second;
    }
  }
  __syncthreads();
  if (walk->block(0).live()) {
    load_tile<T, D, Shape::keys, Shape::threads>(k_tile, call.k, kv_head, tile.begin, tile.end);
    load_values<T, D, Shape::keys, Shape::threads>(masked_dkv_shared + Shape::k_bytes, call.v, kv_head,
                                                   tile.begin, tile.end);
    load_masked_queries<T, D>(q_tile, call, walk->block(0));
    cp_async_commit_group();
  }
#pragma unroll 1
  for (int at = 0; walk->block(at).live(); ++at) {
    const int stage = (at & 1) * Shape::stage_bytes;
    const bool some_empty = prepare_masked_queries<D>(stages + stage);  // then nobody reads the other stage
    const Block& next = walk->block(at + 1);
    if (next.live()) {
      load_masked_queries<T, D>(q_tile + static_cast<std::uint32_t>(Shape::stage_bytes - stage), call, next);
      cp_async_commit_group();
      if (thread_index() < 32) {
        const Block later =
            next_kept_block<owner>(next, walk->stop_head, walk->tile, call.by_k.segments, kept);
        if (thread_index() == 0) walk->block(at + 2) = later;
      }
    }
#pragma unroll 1
    for (int from = 0; from < Shape::queries; from += Shape::part) {
      const Block& block = walk->block(at);
      const int query = block.begin + from;
      const Cover cover = cover_of<16, Shape::part>(*walk, block, query);
      if (cover == Cover::none) continue;
      const PairBox<owner> box = pair_box<owner>(*walk, block, query);
      PairFragment<n_tiles> bias, keep;
      load_pairs<T>(keep, mask, mask.keep, block.head / heads_per_keep, box);
      load_pairs<T>(bias, mask, mask.bias, block.head / heads_per_bias, box);
      const std::uint32_t q_part = q_tile + static_cast<std::uint32_t>(stage + from * Tile<D>::row_bytes);
      const auto* const lse = reinterpret_cast<const float*>(stages + stage + 2 * Shape::q_bytes) + from +
                              2 * (thread_index() & 3);

      Accumulators<1, n_tiles> p;
      float slope[n_tiles][4];
      clear(p);
      gemm_ss<T, D>(p, address_own_rows<D, 16>(k_tile), address_columns<D>(q_part));
      std::uint32_t live = visible_pairs<n_tiles>(*walk, block, query, cover);
      if (mask.keep.data != nullptr) live &= kept_pairs(keep);
      to_logits<T, true>(p[0], bias, PlacedBias<owner>{mask, block.head, box}, by, slope);
#pragma unroll
      for (int n = 0; n < n_tiles; ++n) {
        const float2 pair = *reinterpret_cast<const float2*>(lse + 8 * n);
        if (some_empty) {
          if (pair.x == infinity()) live &= ~(5U << (4 * n));
          if (pair.y == infinity()) live &= ~(10U << (4 * n));
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float value = exp2_approx(p[0][n][e] - (e % 2 == 0 ? pair.x : pair.y));
          p[0][n][e] = counts(live, n, e) ? value : 0;
        }
      }
      seen |= live;
      gemm_rs<T, D>(dv, p, address_rows<D>(q_part + Shape::q_bytes));

      Accumulators<1, n_tiles> dp;
      clear(dp);
      gemm_ss<T, D>(dp, address_own_rows<D, 16>(v_tile), address_columns<D>(q_part + Shape::q_bytes));
#pragma unroll
      for (int n = 0; n < n_tiles; ++n) {
        const float2 pair = *reinterpret_cast<const float2*>(lse + Shape::queries + 8 * n);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float dz = p[0][n][e] * (dp[0][n][e] - (e % 2 == 0 ? pair.x : pair.y)) * slope[n][e];
          p[0][n][e] = counts(live, n, e) ? dz : 0;  // P is 0 elsewhere, but dP may be NaN
          dbias[e / 2] += p[0][n][e];
        }
      }
      gemm_rs<T, D>(dk, p, address_rows<D>(q_part));
    }
  }

  const int thread = thread_index();
  const int first = walk->tile.begin + thread / 32 * 16;
  const auto this_head = static_cast<int>(blockIdx.y);
  const bool add = call.write_dk == Write::add;
  RowUpdate updates[1][2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool touched = row_seen(seen, half);
    updates[0][half].write = first + 8 * half + thread % 32 / 4 < walk->tile.end && (!add || touched);
    updates[0][half].factor = 1;
    updates[0][half].old_factor = add ? 1 : 0;
  }
  write_rows(dv, call.dv, this_head, first, updates, thread % 32);
  updates[0][0].factor = updates[0][1].factor = static_cast<float>(call.scale);
  write_rows(dk, call.dk, this_head, first, updates, thread % 32);
  if (!mask.full && params.dbias.data != nullptr)
    write_key_bias_gradient(params, this_head, first + thread % 32 / 4, walk->tile.end, dbias, seen,
                            thread % 32);
}

}  // namespace cplab::kernels::cuda
