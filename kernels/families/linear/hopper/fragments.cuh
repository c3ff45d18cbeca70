// Between registers and tiles in shared memory: keys scaled and transposed, states, staged output. Tiles have
// rows of 64 columns (128 bytes) and the 128-byte swizzle.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/families/linear/hopper/params.cuh"
#include "kernels/families/parts/hopper/operands.cuh"
#include "kernels/families/parts/hopper/wgmma.cuh"
#include "kernels/families/parts/output_rows.cuh"

namespace cplab::kernels::cuda::hopper {

constexpr int tile_group_bytes = walk_rows * 128;  // 64 rows of 64 columns

__device__ __forceinline__ int lane_index() {
  return thread_index() % 32;
}
// The warp's place in its warpgroup.
__device__ __forceinline__ int warp_in_group() {
  return thread_index() / 32 % 4;
}

template <class T>
__device__ __forceinline__ float2 unpack(std::uint32_t pair) {
  typename Pair<T>::type two;
  std::memcpy(&two, &pair, sizeof(two));
  return Pair<T>::widen(two);
}

// Zeroes rows [begin, 64) of a tile of `groups` groups of columns: they belong to no token of the chunk and
// may hold NaN. By `threads` threads of which this is the thread-th.
template <int groups>
__device__ __forceinline__ void zero_tile_rows(unsigned char* tile, int begin, int thread, int threads) {
  for (int n = 8 * begin + thread; n < 8 * walk_rows; n += threads)
#pragma unroll
    for (int group = 0; group < groups; ++group)
      reinterpret_cast<uint4*>(tile + group * tile_group_bytes)[n] = make_uint4(0, 0, 0, 0);
}

// Decay factors of the tokens that a thread holds in operand A of a product over tokens: tokens 16 step +
// 2 (lane % 4) + {0, 1, 8, 9}.
struct TokenFactors {
  float of[walk_rows / 16][4];
};

// lambda^(n - t), the decay from token t of an n-token tile to the tile's right edge; `reverse`: lambda^t, to
// its left edge. Tokens from n on, whose rows are zero, get 1 or less.
template <Direction direction>
__device__ __forceinline__ void token_factors(TokenFactors& factors, float rate, int n) {
  const int first = 2 * (lane_index() % 4);
#pragma unroll
  for (int step = 0; step < walk_rows / 16; ++step)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int token = first + 16 * step + (e & 1) + 8 * (e >> 1);
      factors.of[step][e] = decay(rate, direction == Direction::forward ? max(n - token, 0) : token);
    }
}

// Multiplies the rows of a group of columns by the factors of their tokens; rows from n on, which may hold
// NaN, become 0. By a warpgroup.
template <class T, Direction direction>
__device__ __forceinline__ void scale_tile(unsigned char* tile, float rate, int n) {
  const int thread = thread_index() % warpgroup_threads;
#pragma unroll
  for (int part = 0; part < 4; ++part) {
    const int row = 16 * part + thread / 8;
    uint4& eight = reinterpret_cast<uint4*>(tile)[8 * row + thread % 8];
    const float factor = decay(rate, direction == Direction::forward ? max(n - row, 0) : row);
    const auto scaled = [&](unsigned pair) {
      const float2 x = unpack<T>(pair);
      return row < n ? Element<T>::pack(x.x * factor, x.y * factor) : 0;
    };
    const uint4 old = eight;
    eight = make_uint4(scaled(old.x), scaled(old.y), scaled(old.z), scaled(old.w));
  }
}

// Columns [64 group, 64 group + 64) of a tile, transposed, times the factors of its tokens: operand A of
// (tile)^T B, 64 rows of which the warp has 16.
template <class T>
__device__ __forceinline__ void load_scaled_transposed(std::uint32_t (&into)[walk_rows / 16][4],
                                                       std::uint32_t tile, int group,
                                                       const TokenFactors& factors) {
  const int lane = lane_index();
  const int chunk = 2 * warp_in_group() + (lane >> 3 & 1);  // of 16 bytes
  const std::uint32_t from =
      tile + static_cast<std::uint32_t>(group * tile_group_bytes + ((lane >> 4) * 8 + (lane & 7)) * 128 +
                                        ((chunk ^ (lane & 7)) * 16));
#pragma unroll
  for (int step = 0; step < walk_rows / 16; ++step) {
    ldmatrix_transposed(into[step], from + static_cast<std::uint32_t>(step * 16 * 128));
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const float2 pair = unpack<T>(into[step][part]);
      const int e = part / 2 * 2;
      into[step][part] = Element<T>::pack(pair.x * factors.of[step][e], pair.y * factors.of[step][e + 1]);
    }
  }
}

// Stores 64 rows x 64 columns of sums of a warpgroup as a tile of 16-bit elements.
template <class T>
__device__ __forceinline__ void store_tile(std::uint32_t tile, const float (&sums)[8][4]) {
  const int lane = lane_index();
  const int row = 16 * warp_in_group() + (lane & 15);
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    std::uint32_t values[4];
#pragma unroll
    for (int part = 0; part < 4; ++part)
      values[part] = Element<T>::pack(sums[2 * step + part / 2][2 * (part % 2)],
                                      sums[2 * step + part / 2][2 * (part % 2) + 1]);
    const int chunk = (2 * step + (lane >> 4)) ^ (lane & 7);
    stmatrix(tile + static_cast<std::uint32_t>(row * 128 + chunk * 16), values);
  }
}

template <int n_tiles>
__device__ __forceinline__ void scale_sums(float (&sums)[n_tiles][4], float factor) {
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[n][e] *= factor;
}

// Pairs of 64 rows and 64 columns of one tile: each times lambda^distance, 0 where the column is not at the
// row or before it on the way; rounded to operand A of a product over the columns.
template <class T, Direction direction>
__device__ __forceinline__ void decay_pairs(const float (&pairs)[8][4], float rate,
                                            std::uint32_t (&into)[4][4]) {
  const int warp = warp_in_group();
  const int lane = lane_index();
  constexpr int sign = direction == Direction::forward ? 1 : -1;
  // Where row lane / 4 and column 2 (lane % 4) of the warp are.
  const auto first = static_cast<float>(sign * (16 * warp + lane / 4 - 2 * (lane % 4)));
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    if (sign * (warp - step) < 0) {
#pragma unroll
      for (int part = 0; part < 4; ++part) into[step][part] = 0;
      continue;
    }
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      float x[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int n = 2 * step + part / 2, half = part % 2;
        const float distance = first + static_cast<float>(sign * (8 * half - 8 * n - e));
        x[e] = distance < 0 ? 0 : pairs[n][2 * half + e] * exp2_approx(rate * distance);
      }
      into[step][part] = Element<T>::pack(x[0], x[1]);
    }
  }
}

// The first state of a chunk: what `state` holds for it, and `carry` times the decay from its edge. Views
// without data are absent. Sums are rows [first_row, +64) and columns [first_column, + 8 n_tiles) of a state
// with state_rows rows; `transposed`: memory holds state_columns rows, the state transposed.
struct FirstState {
  DeviceView state, carry;
  bool transposed;
};

template <int n_tiles>
__device__ __forceinline__ void load_state(float (&sums)[n_tiles][4], const DeviceView& from,
                                           std::int64_t first_of_state, bool transposed, int head,
                                           int first_row, int first_column, float factor, bool add) {
  const int row = first_row + 16 * warp_in_group() + lane_index() / 4;
  const int column = first_column + 2 * (lane_index() % 4);
  const auto* const data = head_of<const float>(from, head) + first_of_state * from.row_stride;
  const std::int64_t row_step = transposed ? 1 : from.row_stride,
                     column_step = transposed ? from.row_stride : 1;
  const float* const mine = data + row * row_step + column * column_step;
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float* const at = mine + 8 * half * row_step + 8 * n * column_step;
      float2 x;
      if (transposed)
        x = {at[0], at[column_step]};
      else
        x = *reinterpret_cast<const float2*>(at);
      sums[n][2 * half] = fmaf(x.x, factor, add ? sums[n][2 * half] : 0);
      sums[n][2 * half + 1] = fmaf(x.y, factor, add ? sums[n][2 * half + 1] : 0);
    }
}

// height: the rows of a state in memory.
template <int n_tiles>
__device__ __forceinline__ void load_first_state(float (&sums)[n_tiles][4], const FirstState& first,
                                                 int height, const WalkItem& item, int first_row,
                                                 int first_column) {
  const WalkChunk& chunk = item.chunk;
  const bool own = first.state.data != nullptr && chunk.state >= 0;
  const bool carried = first.carry.data != nullptr && chunk.edge >= 0;
  if (own)
    load_state(sums, first.state, std::int64_t{chunk.state} * height, first.transposed, item.head, first_row,
               first_column, 1, false);
  if (carried)
    load_state(sums, first.carry, std::int64_t{chunk.edge} * height, first.transposed, item.head, first_row,
               first_column, exp2_approx(item.rate * chunk.exponent), own);
  if (!own && !carried) {
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[n][e] = 0;
  }
}

// Accumulators of a warpgroup to rows [row, row + n) of the output, stored, or added to what is there.
template <int n_tiles>
__device__ __forceinline__ void write_tile_rows(const float (&sums)[n_tiles][4], const DeviceView& out,
                                                int head, int row, int n, bool add) {
  const int first = 16 * warp_in_group();
  RowUpdate updates[1][2];
#pragma unroll
  for (int half = 0; half < 2; ++half)
    updates[0][half] = {
        .write = first + 8 * half + lane_index() / 4 < n, .factor = 1, .old_factor = add ? 1.0f : 0.0f};
  write_rows(reinterpret_cast<const float(&)[1][n_tiles][4]>(sums), out, head, row + first, updates,
             lane_index());
}

}  // namespace cplab::kernels::cuda::hopper
