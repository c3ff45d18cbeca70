// A consumer warpgroup of the deterministic backward kernel. Tiles of queries and tiles of keys are one
// scheme: the warpgroup owns 64 rows of two tensors, A and B, and walks over blocks of rows of two others, X
// and Y. S = A X^T and dP = B Y^T stay in registers; P = exp(scale S - lse), dS = P (dP - delta), and
//   rows are queries: A, B = q, dout; X, Y = k, v;     dq += dS X
//   rows are keys:    A, B = k, v;    X, Y = q, dout;  dk += dS^T X, dv += P^T Y   (S, dP, P, dS transposed)
// Beyond head size 128 a tile of keys is for dk or for dv; S is then computed three times, and dP twice.
#pragma once

#include <cstdint>

#include "kernels/families/hopper_backward_apart/shared_storage.cuh"
#include "kernels/families/parts/hopper/column_groups.cuh"
#include "kernels/families/parts/hopper/mask.cuh"
#include "kernels/families/parts/hopper/operands.cuh"
#include "kernels/families/parts/hopper/stage_rows.cuh"
#include "kernels/families/parts/hopper/wgmma.cuh"
#include "kernels/families/parts/output_rows.cuh"

namespace cplab::kernels::cuda::hopper {

template <class T, class Shape>
class DeterministicConsumer {
 public:
  static constexpr int D = Shape::head_size, E = Shape::value_size;
  using Stages = PipelineIndex<Shape::stages>;
  using Owned = PipelineIndex<Shape::owned_stages>;
  static constexpr int n_tiles = Shape::columns / 8;
  using Scores = float[n_tiles][4];
  using Operand = std::uint32_t[n_tiles / 2][4];
  using KeyResults = Accumulators<1, D / 8>;    // dq or dk
  using ValueResults = Accumulators<1, E / 8>;  // dv
  // What is not computed has no accumulators.
  template <Gradient gradient>
  static constexpr bool has_dx = gradient != Gradient::dv;
  template <Gradient gradient>
  static constexpr bool has_dy = gradient == Gradient::dkv || gradient == Gradient::dv;

  __device__ __forceinline__ DeterministicConsumer(const DeterministicParams& params,
                                                   DeterministicStorage<Shape>& memory, int warpgroup)
      : params_(params), memory_(memory), warpgroup_(warpgroup) {}

  // Works on all tiles of the thread block.
  __device__ __forceinline__ void run() {
    int count = 0;
#pragma unroll 1
    for (int number = 0;; ++number) {
      const int stage = Stages::stage(count);
      wait(shared_address(&memory_.full[stage]), Stages::parity(count));
      if ((memory_.flags[stage] & owned_end) != 0) break;
      const OwnedTile& tile = memory_.tile[memory_.tile_of[stage]];
      if (tile.gradient == Gradient::dq) {
        count = run_tile<Gradient::dq>(tile, number, count);
      } else if constexpr (!Shape::splits_dkv) {
        count = run_tile<Gradient::dkv>(tile, number, count);
      } else if (tile.gradient == Gradient::dk) {
        count = run_tile<Gradient::dk>(tile, number, count);
      } else {
        count = run_tile<Gradient::dv>(tile, number, count);
      }
    }
    if (lane() == 0) tma_store_wait();
  }

 private:
  static __device__ __forceinline__ int lane() {
    return thread_index() % 32;
  }

  // lse, in units of log2, and delta of the two rows that the lane has in a tile of queries.
  struct RowNumbers {
    float lse[2], delta[2];
    bool empty;  // one of the warp's rows has no gradient
  };
  __device__ __forceinline__ RowNumbers row_numbers(const OwnedTile& tile) const {
    RowNumbers rows;
    const int place = static_cast<int>(&tile - memory_.tile);
    const int first = 16 * (thread_index() / 32 - 4) + lane() / 4;
    rows.empty = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool inside = tile.rows.begin + first + 8 * half < tile.rows.end;
      rows.lse[half] = inside ? lse_log2(memory_.row_lse[place][first + 8 * half]) : infinity();
      rows.delta[half] = inside ? memory_.row_delta[place][first + 8 * half] : 0;
      rows.empty |= rows.lse[half] == infinity();
    }
    rows.empty = __any_sync(all_lanes, rows.empty) != 0;
    return rows;
  }

  // Works on the thread block's number-th tile, whose first block is `count`, and has arrived. Returns
  // the number of the next tile's first block.
  template <Gradient gradient>
  __device__ __forceinline__ int run_tile(const OwnedTile& tile, int number, int count) {
    constexpr bool queries = gradient == Gradient::dq;
    const int first_row = tile.rows.begin + 16 * (thread_index() / 32 - 4);
    const int owned = Owned::stage(number);
    KeyResults dx;  // dq or dk
    ValueResults dy;
    if constexpr (has_dx<gradient>) clear(dx);
    if constexpr (has_dy<gradient>) clear(dy);
    RowNumbers rows;
    if constexpr (queries) rows = row_numbers(tile);
    wait(shared_address(&memory_.owned_full[owned]), Owned::parity(number));
    const auto free_tile_before = [&] {
      if (Shape::owned_stages == 1 || number == 0 || lane() != 0) return;
      tma_store_wait();  // its results were staged in its A and B
      arrive(shared_address(&memory_.owned_empty[Owned::stage(number - 1)]));
    };
    int flags = memory_.flags[Stages::stage(count)];
    if ((flags & owned_live) == 0) {
      free_tile_before();
      release(count);
    } else {
      bool first = true;
#pragma unroll 1
      for (;; ++count, flags = memory_.flags[Stages::stage(count)]) {
        run_block<gradient>(count, first_row, owned, rows, dx, dy);
        if (first) free_tile_before();
        first = false;
        if ((flags & owned_last) != 0) break;
        wait(shared_address(&memory_.full[Stages::stage(count + 1)]), Stages::parity(count + 1));
      }
      warpgroup_wait<0>();
      if constexpr (has_dx<gradient>) warpgroup_fence_operand(dx[0]);
      if constexpr (has_dy<gradient>) warpgroup_fence_operand(dy[0]);
    }
    write<gradient>(tile, owned, first_row, dx, dy);
    if constexpr (Shape::owned_stages == 1) {
      __syncwarp();
      if (lane() == 0) {
        tma_store_wait();
        arrive(shared_address(&memory_.owned_empty[owned]));
      }
    }
    return count + 1;
  }

  // Gives the block back. All lanes arrive, each for what it has read: ptxas would leave out a barrier
  // of the warp before one lane arrives for all.
  __device__ __forceinline__ void release(int count) const {
    arrive(shared_address(&memory_.empty[Stages::stage(count)]));
  }

  // Computes the products of block `count`, and releases its stage.
  template <Gradient gradient>
  __device__ __forceinline__ void run_block(int count, int first_row, int owned, const RowNumbers& rows,
                                            KeyResults& dx, ValueResults& dy) const {
    constexpr bool queries = gradient == Gradient::dq;
    const int stage = Stages::stage(count);
    if (memory_.unclean[stage] != 0) zero_rows<gradient>(stage);
    const Block& block = memory_.bounds[stage];
    const TileDescriptor<Shape::block_half_bytes> x(shared_address(memory_.x[stage]));
    const TileDescriptor<Shape::block_half_bytes> y(shared_address(memory_.y[stage]));
    Scores p, dp;
    multiply_owned<D>(p, memory_.a[owned][warpgroup_], x);
    if constexpr (has_dx<gradient>) multiply_owned<E>(dp, memory_.b[owned][warpgroup_], y);
    warpgroup_wait<has_dx<gradient> ? 1 : 0>();
    warpgroup_fence_operand(p);
    const float* const lse = memory_.lse[stage] + 2 * (lane() % 4);
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) {
      float2 pair;
      if constexpr (!queries) pair = *reinterpret_cast<const float2*>(lse + 8 * n);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        p[n][e] = exp2_approx(fmaf(p[n][e], params_.scale_log2,
                                   -(queries      ? rows.lse[e / 2]
                                     : e % 2 == 0 ? pair.x
                                                  : pair.y)));
    }
    const bool masked = (queries && rows.empty) || !all_live<Shape::columns>(block, first_row);
    if (masked) {
      mask_dead_by_bits(p, block, first_row, 0);
      if constexpr (queries) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (rows.lse[half] == infinity()) mask_row(p, half, 0, 0, 0, 0);
      }
    }

    Operand p_operand, ds;
    if constexpr (has_dx<gradient>) compute_ds<queries>(dp, p, rows, stage, masked);
    if constexpr (has_dy<gradient>) {
      pack_operand<T>(p, p_operand);
      multiply_block<E>(dy, p_operand, y);
    }
    if constexpr (has_dx<gradient>) {
      pack_operand<T>(dp, ds);
      multiply_block<D>(dx, ds, x);
    }
    warpgroup_wait<0>();
    release(count);
  }

  // Waits for dP, and makes dS of it, in place.
  template <bool queries>
  __device__ __forceinline__ void compute_ds(Scores& dp, const Scores& p, const RowNumbers& rows, int stage,
                                             bool masked) const {
    warpgroup_wait<0>();
    warpgroup_fence_operand(dp);
    const float* const delta = memory_.delta[stage] + 2 * (lane() % 4);
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) {
      float2 pair;
      if constexpr (!queries) pair = *reinterpret_cast<const float2*>(delta + 8 * n);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        dp[n][e] = p[n][e] * (dp[n][e] - (queries ? rows.delta[e / 2] : e % 2 == 0 ? pair.x : pair.y));
    }
    if (masked) zero_dead_dp(dp, p);
  }

  // Starts sums = rows owned times rows of the block, of `size` columns.
  template <int size>
  __device__ __forceinline__ void multiply_owned(Scores& sums, const unsigned char* rows,
                                                 const TileDescriptor<Shape::block_half_bytes>& block) const {
    const TileDescriptor<Shape::owned_half_bytes> owned(shared_address(rows));
    warpgroup_arrive();
#pragma unroll
    for (int step = 0; step < size / 16; ++step)
      Wgmma<T, Shape::columns>::multiply_ss(sums, owned.k_major(step), block.k_major(step), step > 0);
    warpgroup_commit_batch();
  }
  // Starts sums += operand times rows of the block, of `size` columns.
  template <int size>
  __device__ __forceinline__ void multiply_block(Accumulators<1, size / 8>& sums, const Operand& operand,
                                                 const TileDescriptor<Shape::block_half_bytes>& block) const {
    warpgroup_fence_operand(sums[0]);
    warpgroup_arrive();
#pragma unroll
    for (int step = 0; step < n_tiles / 2; ++step)
      Wgmma<T, size>::multiply_rs(sums[0], operand[step], block.mn_major(step), 1);
    warpgroup_commit_batch();
  }

  // Zeroes rows of X and Y beyond the block, and of queries without a gradient: they may hold NaN, which
  // times P = 0 is NaN.
  template <Gradient gradient>
  __device__ __forceinline__ void zero_rows(int stage) const {
    constexpr int consumer_threads = Shape::consumers * warpgroup_threads;
    const Block& block = memory_.bounds[stage];
    static_assert(Shape::y_bytes <= Shape::x_bytes);
    for (int n = thread_index() - warpgroup_threads; n < Shape::x_bytes / 16; n += consumer_threads) {
      const int row = n / 8 % Shape::columns;  // a row of 64 columns is eight times 16 bytes
      const bool keep =
          gradient == Gradient::dq ? row < block.end - block.begin : memory_.lse[stage][row] != infinity();
      if (keep) continue;
      reinterpret_cast<uint4*>(memory_.x[stage])[n] = make_uint4(0, 0, 0, 0);
      if (n < Shape::y_bytes / 16) reinterpret_cast<uint4*>(memory_.y[stage])[n] = make_uint4(0, 0, 0, 0);
    }
    fence_view_async_shared();
    named_barrier_sync(1, consumer_threads);
  }

  // Writes a warp's 16 rows: by TMA if all of them are stored, staged where A and B were, which only
  // this warpgroup reads. TMA may still be reading there afterwards.
  template <Gradient gradient>
  __device__ __forceinline__ void write(const OwnedTile& tile, int owned, int first_row, const KeyResults& dx,
                                        const ValueResults& dy) const {
    constexpr bool queries = gradient == Gradient::dq;
    const bool tiles = queries ? params_.stores_dq_tiles : params_.stores_dkv_tiles;
    if (tiles) named_barrier_sync(2 + warpgroup_, warpgroup_threads);  // its last products have read A and B
    const int end = tile.rows.end;
    if (tiles && (first_row + 16 <= end || end == (queries ? params_.call.dq : params_.call.dk).rows))
      store_tiles<gradient>(tile, owned, first_row, dx, dy);
    else
      write_one_by_one<gradient>(tile, first_row, dx, dy);
  }

  template <Gradient gradient>
  __device__ __forceinline__ void store_tiles(const OwnedTile& tile, int owned, int first_row,
                                              const KeyResults& dx, const ValueResults& dy) const {
    constexpr bool queries = gradient == Gradient::dq;
    const AttendBackwardParams& call = params_.call;
    const auto scale = static_cast<float>(call.scale);
    const int warp = thread_index() / 32 % 4;
    unsigned char* const a = memory_.a[owned][warpgroup_] + warp * 16 * D * 2;
    unsigned char* const b = memory_.b[owned][warpgroup_] + warp * 16 * E * 2;
    const bool sums = queries && D == 128 && call.dq.dtype == DType::fp32;
    if constexpr (queries && D == 128) {
      if (sums) {  // half of the columns in A, half in B
        stage_fp32_of_16_rows<0, 8>(a, dx[0], scale);
        stage_fp32_of_16_rows<8, 16>(b, dx[0], scale);
      }
    }
    if (!sums) {
      if constexpr (has_dx<gradient>) stage_rounded_of_16_rows<T>(a, dx[0], scale);
      if constexpr (has_dy<gradient>) stage_rounded_of_16_rows<T>(b, dy[0], 1);
    }
    fence_view_async_shared();
    __syncwarp();
    if (lane() != 0 || first_row >= tile.rows.end) return;
    const auto store = [&](const CUtensorMap& map, unsigned char* rows, int n, bool single_groups) {
      tma_store_once(map, first_row, tile.head, shared_address(rows + (single_groups ? n * 2048 : 0)),
                     single_groups ? 64 * n : 0);
    };
    // 16 rows of 64 rounded columns are 2048 bytes. Sums are of 128 columns, which no group ends.
    if constexpr (has_dx<gradient>) {
      const bool single = queries ? params_.single_dq_groups : params_.single_dk_groups;
      by_column_groups<D / 64>(single,
                               [&](int n) { store(queries ? params_.dq : params_.dk, a, n, single); });
    }
    if constexpr (has_dy<gradient>)
      by_column_groups<E / 64>(params_.single_dv_groups,
                               [&](int n) { store(params_.dv, b, n, params_.single_dv_groups); });
    if (sums) tma_store(params_.dq, first_row, tile.head, shared_address(b), 2);
  }

  template <Gradient gradient>
  __device__ __forceinline__ void write_one_by_one(const OwnedTile& tile, int first_row, const KeyResults& dx,
                                                   const ValueResults& dy) const {
    constexpr bool queries = gradient == Gradient::dq;
    const AttendBackwardParams& call = params_.call;
    const auto scale = static_cast<float>(call.scale);
    RowUpdate updates[1][2];
    const bool add = (queries ? call.write_dq : call.write_dk) == Write::add;
    const int place = static_cast<int>(&tile - memory_.tile);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + 8 * half + lane() / 4;
      bool live = row < tile.rows.end;
      if (add && live)
        live = has_live_pair<owner_of<gradient>>(row, tile.rows,
                                                 queries ? call.by_q.segments : call.by_k.segments);
      if constexpr (queries)
        live = live && !(add && memory_.row_lse[place][row - tile.rows.begin] == -infinity());
      updates[0][half] = {.write = live, .factor = scale, .old_factor = add ? 1.0f : 0.0f};
    }
    if constexpr (has_dx<gradient>) {
      const DeviceView& into = queries ? call.dq : call.dk;
      write_rows(dx, into, tile.head, first_row, updates, lane(), into.width);
    }
    if constexpr (has_dy<gradient>) {
      updates[0][0].factor = updates[0][1].factor = 1;
      write_rows(dy, call.dv, tile.head, first_row, updates, lane(), call.dv.width);
    }
  }

  const DeterministicParams& params_;
  DeterministicStorage<Shape>& memory_;
  int warpgroup_;
};

}  // namespace cplab::kernels::cuda::hopper
