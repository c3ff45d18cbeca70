// Forward of dynamic mask attention by mma.sync: mma/forward.cuh with tiles of 64 queries, one cell high, and
// blocks of one cell of keys. Cells without a kept pair are not loaded. Bias and keep mask go from memory to
// registers, beside the copy of K that the block waits for.
#pragma once

#include <cstdint>

#include "kernels/families/masked/fragments.cuh"
#include "kernels/families/masked/values.cuh"
#include "kernels/families/mma/parts/online_softmax.cuh"
#include "kernels/families/mma/parts/shared_tiles.cuh"
#include "kernels/families/mma/parts/warp_mma.cuh"

namespace cplab::kernels::cuda {

template <int D>
struct MaskedForwardShape {
  static constexpr int warps = 4;
  static constexpr int threads = 32 * warps;
  static constexpr int rows = 16 * warps;
  static constexpr int keys = cell_rows;
  static constexpr int blocks_per_sm = 2;
  static constexpr int q_bytes = rows * Tile<D>::row_bytes;
  static constexpr int k_bytes = keys * Tile<D>::row_bytes;
  static constexpr int softmax_bytes = threads * static_cast<int>(sizeof(SoftmaxState));
  static constexpr int shared_bytes = q_bytes + 2 * k_bytes + static_cast<int>(sizeof(Walk)) + softmax_bytes;
  static_assert(rows == cell_rows);
};

template <class T, int D>
__global__ void __launch_bounds__(MaskedForwardShape<D>::threads, MaskedForwardShape<D>::blocks_per_sm)
    attend_masked_forward_kernel(const __grid_constant__ MaskedParams params) {
  using Shape = MaskedForwardShape<D>;
  constexpr int n_tiles = Shape::keys / 8;
  constexpr Owner owner = Owner::queries;
  alignas(256) extern __shared__ unsigned char masked_forward_shared[];
  const AttendParams& call = params.tile;
  const DevicePairMask& mask = params.mask;

  const auto head = static_cast<int>(blockIdx.y);
  const WorkTile tile = call.work.tiles[blockIdx.x];
  const LogitScale by{static_cast<float>(call.scale), static_cast<float>(mask.softcap)};
  const KeptCells kept{mask.by_q, call.q.heads, max(mask.keep.heads, 1)};
  const int bias_head = head / (call.q.heads / max(mask.bias.heads, 1));
  const int keep_head = head / (call.q.heads / max(mask.keep.heads, 1));

  const std::uint32_t q_tile = shared_address(masked_forward_shared);
  const std::uint32_t k_tile = q_tile + Shape::q_bytes;
  const std::uint32_t v_tile = k_tile + Shape::k_bytes;

  Accumulators<1, D / 8> out;
  clear(out);
  auto* const walk = reinterpret_cast<Walk*>(masked_forward_shared + Shape::q_bytes + 2 * Shape::k_bytes);
  auto* const softmax = reinterpret_cast<SoftmaxState*>(walk + 1);  // [threads]
  softmax[thread_index()] = {{-infinity(), -infinity()}, {0, 0}};
  if (thread_index() < 32) {
    const Block first = first_kept_block<owner>(head, head + 1, tile, call.work.segments, kept);
    const Block second = next_kept_block<owner>(first, head + 1, tile, call.work.segments, kept);
    if (threadIdx.x == 0) {
      walk->tile = tile;
      walk->kv_head = head / (call.q.heads / call.k.heads);
      walk->block(0) = first;
      walk->block(1) = second;
    }
  }
  __syncthreads();
  if (walk->block(0).live()) {
    load_tile<T, D, Shape::rows, Shape::threads>(q_tile, call.q, head, tile.begin, tile.end);
    load_tile<T, D, Shape::keys, Shape::threads>(k_tile, call.k, walk->kv_head, walk->block(0).begin,
                                                 walk->block(0).end);
    cp_async_commit_group();
  }
#pragma unroll 1
  for (int at = 0; walk->block(at).live(); ++at) {
    const Block& block = walk->block(at);
    const Block& next = walk->block(at + 1);
    PairFragment<n_tiles> bias, keep;
    const PairBox<owner> box = pair_box<owner>(*walk, block, block.begin);
    load_pairs<T>(bias, mask, mask.bias, bias_head, box);
    load_pairs<T>(keep, mask, mask.keep, keep_head, box);
    cp_async_wait_all();
    __syncthreads();  // K has arrived; V of the block before is no longer read
    load_values<T, D, Shape::keys, Shape::threads>(masked_forward_shared + Shape::q_bytes + Shape::k_bytes,
                                                   call.v, walk->kv_head, block.begin, block.end);
    cp_async_commit_group();

    const auto start_next_k = [&] {
      cp_async_wait_all();
      barrier_sync_block();  // V has arrived; K is no longer read
      if (!next.live()) return;
      load_tile<T, D, Shape::keys, Shape::threads>(k_tile, call.k, walk->kv_head, next.begin, next.end);
      cp_async_commit_group();
      if (thread_index() < 32) {
        const Block later = next_kept_block<owner>(next, head + 1, walk->tile, call.work.segments, kept);
        if (thread_index() == 0) walk->block(at + 2) = later;
      }
    };
    const Cover cover = cover_of<16, Shape::keys>(*walk, block, block.begin);
    if (cover == Cover::none) {
      start_next_k();
      continue;
    }
    Accumulators<1, n_tiles> s;
    clear(s);
    gemm_ss<T, D>(s, address_own_rows<D, 16>(q_tile), address_columns<D>(k_tile));
    std::uint32_t live = visible_pairs<n_tiles>(*walk, block, block.begin, cover);
    if (mask.keep.data != nullptr) live &= kept_pairs(keep);
    float unused[1][4];
    to_logits<T, false>(s[0], bias, PlacedBias<owner>{mask, static_cast<int>(blockIdx.y), box}, by, unused);
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (!counts(live, n, e)) s[0][n][e] = -infinity();
    start_next_k();
    softmax_step(s[0], out[0], softmax[thread_index()], 1.0F);
    gemm_rs<T, D>(out, s, address_rows<D>(v_tile));
  }

  const int thread = thread_index();
  const int first = walk->tile.begin + thread / 32 * 16;
  RowUpdate updates[1][2];
  finish_rows<1, Shape::threads>(call, softmax + thread, 1.0F, static_cast<int>(blockIdx.y), first,
                                 walk->tile.end, thread % 32, updates);
  write_rows(out, call.out, static_cast<int>(blockIdx.y), first, updates, thread % 32);
}

}  // namespace cplab::kernels::cuda
