// The same for heads whose products bind as much as memory does, by wgmma: keys of 576 and values of 512, 64
// rows. Two warpgroups; each sums half of the columns of the scores, which is half of what shared memory has
// to deliver for them, takes the other's half, and then has all scores where it needs them for half of the
// columns of the output. SM 9.0a.
//
// Tiles have rows of 64 columns, 128 bytes, in the swizzle that wgmma reads; eight threads bring such a row,
// so that a thread's copies of a block are at one distance in memory and at one in shared memory.
#pragma once

#include <cstdint>

#include "kernels/families/decode/forward.cuh"
#include "kernels/families/mma/parts/online_softmax.cuh"
#include "kernels/families/parts/hopper/instructions.cuh"
#include "kernels/families/parts/hopper/operands.cuh"
#include "kernels/families/parts/hopper/wgmma.cuh"

namespace cplab::kernels::cuda {

template <int D, int E>
struct WideDecodeShape {
  static constexpr HeadSizes sizes{D, E};
  static constexpr int key_size = D, value_size = E, rows = 64;
  static constexpr int threads = 256;
  static constexpr int keys = decode_keys(sizes);
  static constexpr int stages = decode_stages(sizes, rows);
  static constexpr int shared_bytes = decode_shared_bytes(sizes, rows, stages);
  static constexpr int key_groups = 1;   // of what a row's sum is made of
  static constexpr int columns = E / 2;  // of the output, a warpgroup
  static constexpr int q_group_bytes = rows * 128, key_group_bytes = keys * 128;  // bytes of 64 columns
  static constexpr int q_bytes = 2 * rows * D, k_bytes = 2 * keys * D, stage_bytes = 2 * keys * (D + E);
  static constexpr int halves_at = q_bytes + stages * stage_bytes;
  static constexpr int state_at = halves_at + 2 * 4 * rows * keys;
  static_assert(D % 64 == 0 && columns == 256 && keys == 32 && stages == 2);
  static_assert(state_at + decode_state_bytes <= shared_bytes && key_group_bytes % 1024 == 0);
};

// Starts the copy of row `row` of a tile, of whose columns the thread brings eight in each 64; a row that is
// not `inside` becomes zero.
template <class T, int width, int group_bytes>
__device__ __forceinline__ void load_swizzled_row(std::uint32_t tile, int row, const T* from, bool inside) {
  const int chunk = thread_index() % 8;
  const std::uint32_t to = tile + static_cast<std::uint32_t>(row * 128 + ((chunk ^ (row & 7)) << 4));
#pragma unroll
  for (int group = 0; group < width / 64; ++group)
    cp_async_16(to + static_cast<std::uint32_t>(group * group_bytes), from + 64 * group + 8 * chunk,
                inside ? 16 : 0);
}

template <class T, class Shape>
__device__ __forceinline__ void load_swizzled_keys(std::uint32_t tile, const AttendParams& params,
                                                   int key_head, const Block& block) {
  static_assert(Shape::threads == 8 * Shape::keys);
  const int row = thread_index() / 8;
  const bool inside = block.begin + row < block.end;
  const int key = inside ? block.begin + row : block.begin;
  load_swizzled_row<T, Shape::key_size, Shape::key_group_bytes>(
      tile, row, row_of<const T>(params.k, key_head, key), inside);
  load_swizzled_row<T, Shape::value_size, Shape::key_group_bytes>(
      tile + Shape::k_bytes, row, row_of<const T>(params.v, key_head, key), inside);
}

template <class T, class Shape>
__device__ __forceinline__ void load_swizzled_queries(std::uint32_t tile, const DeviceView& q,
                                                      const PackedRows& rows) {
  for (int row = thread_index() / 8; row < Shape::rows; row += Shape::threads / 8) {
    const bool inside = row < rows.count;
    const int from = inside ? row : 0;
    load_swizzled_row<T, Shape::key_size, Shape::q_group_bytes>(
        tile, row, row_of<const T>(q, rows.head(from), rows.query(from)), inside);
  }
}

// S = Q K^T of 64 rows and a block of keys, summed over half of the columns: of each 64 the first 32, or the
// others, so that descriptors of both warpgroups differ by a constant.
template <class T, class Shape, int n_tiles>
__device__ __forceinline__ void multiply_scores(float (&s)[n_tiles][4], std::uint32_t q_tile,
                                                std::uint32_t k_tile, int warpgroup) {
  const auto half = static_cast<std::uint32_t>(64 * warpgroup);  // bytes
  const hopper::TileDescriptor<Shape::q_group_bytes> q(q_tile + half);
  const hopper::TileDescriptor<Shape::key_group_bytes> k(k_tile + half);
  hopper::warpgroup_fence_operand(s);
  hopper::warpgroup_arrive();
#pragma unroll
  for (int step = 0; step < Shape::key_size / 16; ++step)
    if (step % 4 < 2)
      hopper::Wgmma<T, Shape::keys>::multiply_ss(s, q.k_major(step), k.k_major(step), step > 0);
  hopper::warpgroup_commit_batch();
  hopper::warpgroup_wait<0>();
  hopper::warpgroup_fence_operand(s);
}

// Adds the other warpgroup's half; sums of two are the same in either order, so both have the same scores.
template <int n_tiles>
__device__ __forceinline__ void add_other_half(float4* halves, float (&s)[n_tiles][4], int warpgroup) {
  constexpr int threads = hopper::warpgroup_threads;
  const int thread = thread_index() % threads;
  float4* const own = halves + warpgroup * n_tiles * threads + thread;
  const float4* const other = halves + (1 - warpgroup) * n_tiles * threads + thread;
#pragma unroll
  for (int n = 0; n < n_tiles; ++n) own[n * threads] = float4{s[n][0], s[n][1], s[n][2], s[n][3]};
  __syncthreads();
#pragma unroll
  for (int n = 0; n < n_tiles; ++n) {
    const float4 more = other[n * threads];
    s[n][0] += more.x;
    s[n][1] += more.y;
    s[n][2] += more.z;
    s[n][3] += more.w;
  }
}

// out += P V, of a warpgroup's columns, which begin at `v_tile`.
template <class T, class Shape, int n_tiles, int steps>
__device__ __forceinline__ void multiply_values(float (&out)[n_tiles][4], const std::uint32_t (&p)[steps][4],
                                                std::uint32_t v_tile) {
  const hopper::TileDescriptor<Shape::key_group_bytes> v(v_tile);
  hopper::warpgroup_fence_operand(out);
  hopper::warpgroup_arrive();
#pragma unroll
  for (int step = 0; step < steps; ++step)
    hopper::Wgmma<T, Shape::columns>::multiply_rs(out, p[step], v.mn_major(step), 1);
  hopper::warpgroup_commit_batch();
  hopper::warpgroup_wait<0>();
  hopper::warpgroup_fence_operand(out);
  hopper::warpgroup_keep_operand(p);
}

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads, 1)
    attend_wide_decode_kernel(const __grid_constant__ AttendParams params,
                              const __grid_constant__ PackedHeads packed) {
  constexpr int keys = Shape::keys, stages = Shape::stages;
  alignas(1024) extern __shared__ unsigned char decode_shared[];
  auto& state = *reinterpret_cast<DecodeState*>(decode_shared + Shape::state_at);
  auto* const halves = reinterpret_cast<float4*>(decode_shared + Shape::halves_at);
  const std::uint32_t q_tile = shared_address(decode_shared);
  const auto stage = [&](int at) {
    return q_tile + static_cast<std::uint32_t>(Shape::q_bytes + at % stages * Shape::stage_bytes);
  };
  const TilePart of = tile_part(blockIdx.x, packed, params.k.heads);
  const WorkTile tile = params.work.tiles[of.tile];
  const PackedRows rows = packed_rows(params, packed, of, tile.begin, tile.end);
  const auto scale_log2 = static_cast<float>(params.scale * 1.44269504088896340736);
  const int warpgroup = hopper::warpgroup_index();
  const ScoreRows mine(rows, thread_index() / 32 % 4);

  wait_on_dependent_grids();
  if (thread_index() == 0) {
    state.ring[0] = first_block<Owner::queries>(0, 1, tile, params.work.segments);
    state.ring[1] = next_block<Owner::queries, keys>(state.ring[0], 1, tile, params.work.segments);
  }
  __syncthreads();
  const auto load = [&](int at) {
    const Block& block = state.ring[at & 3];
    if (block.live()) load_swizzled_keys<T, Shape>(stage(at), params, of.key_head, block);
    cp_async_commit_group();
  };
  load_swizzled_queries<T, Shape>(q_tile, params.q, rows);
  load(0);

  Accumulators<1, Shape::columns / 8> out;
  clear(out);
  SoftmaxState softmax = {{-infinity(), -infinity()}, {0, 0}};
#pragma unroll 1
  for (int at = 0; state.ring[at & 3].live(); ++at) {
    cp_async_wait_all();
    hopper::fence_view_async_shared();
    __syncthreads();  // this block has arrived; the one before it is no longer read
    load(at + 1);
    if (thread_index() == 0)
      state.ring[(at + 2) & 3] =
          next_block<Owner::queries, keys>(state.ring[(at + 1) & 3], 1, tile, params.work.segments);
    float s[keys / 8][4];
    multiply_scores<T, Shape>(s, q_tile, stage(at), warpgroup);
    add_other_half(halves, s, warpgroup);
    const Block& block = state.ring[at & 3];
    mask_scores(s, mine, block, block.begin);
    softmax_step(s, out[0], softmax, scale_log2);
    std::uint32_t p[keys / 16][4];
    hopper::pack_operand<T>(s, p);
    multiply_values<T, Shape>(
        out[0], p,
        stage(at) + Shape::k_bytes +
            static_cast<std::uint32_t>(warpgroup) * (Shape::columns / 64 * Shape::key_group_bytes));
  }
  launch_dependents();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = row_sum(softmax.sum[half]);
    if (warpgroup != 0 || thread_index() % 4 != 0) continue;
    state.highest[0][mine.row + 8 * half] = sum;
    state.maximum[mine.row + 8 * half] = softmax.maximum[half];
  }
  __syncthreads();
  const std::int64_t partial = first_partial_row(params, packed, of.tile, of, Shape::rows);
  if (thread_index() < Shape::rows)
    finish_packed_row<Shape>(params, state, rows, partial, scale_log2, thread_index());
  __syncthreads();
  write_packed<Shape>(params, out, state, rows, partial, thread_index() / 32 % 4 * 16,
                      warpgroup * Shape::columns);
}

}  // namespace cplab::kernels::cuda
