// Each result of LinearLocal and LinearLocalBackward (walk_parts.cuh) on tensor cores, for operands of one
// 16-bit dtype: o = (a b^T . L) c + a M in blocks of 64 tokens. 8 warps; warp w has tokens 16 (w % 4) ... of
// o and of the scores, and one half of their columns. M stays in fp32 registers, 16 rows of it to a warp, and
// is rounded into shared memory for a M. To b^T c every token has a weight: the keys times their weights are
// two numbers of 16 bits, the second what the rounding of the first leaves: in M a term errs by 2^-17 of
// itself at most in bf16, 2^-23 in fp16 (tests/gpu/linear_oracle.hpp). M on its way into products with a has
// the 16 bits of one number anyway.
#pragma once

#include <cstdint>

#include "kernels/families/linear/walk_parts.cuh"
#include "kernels/families/mma/parts/warp_mma.cuh"
#include "kernels/families/parts/output_rows.cuh"
#include "kernels/tiles/linear_cuts.hpp"

namespace cplab::kernels::cuda {

// Rows of a tile in shared memory lie 16 bytes further apart than they are long: the eight rows that ldmatrix
// reads then begin in different banks.
template <class T, int rows, int columns>
struct LinearTile {
  static constexpr int pitch = columns + 8;
  alignas(16) T data[rows][pitch];

  __device__ std::uint32_t address(int row, int column) const { return shared_address(&data[row][column]); }
};

// `depth` rows of M, `columns` of its columns.
template <class T, int depth, int columns>
struct MmaWalkShared {
  LinearTile<T, linear_tokens, depth> a, b;
  LinearTile<T, linear_tokens, columns> c;
  LinearTile<T, linear_tokens, linear_tokens> scores;
  LinearTile<T, depth, columns> state;
  float powers[linear_tokens + 1];
};

template <class T>
__device__ inline float2 widen_pair(std::uint32_t two) {
  return Pair<T>::widen(*reinterpret_cast<const typename Pair<T>::type*>(&two));
}

template <class T, int depth, int columns>
class MmaWalk {
 public:
  using Shared = MmaWalkShared<T, depth, columns>;

  __device__ MmaWalk(const LinearParams& p, const DeviceChunk& chunk, std::int32_t head, WalkResult result,
                     WalkPart& part, Shared& shared)
      : p_(p),
        chunk_(chunk),
        o_(operands_of(p, result)),
        edges_(p, chunk, head, o_),
        part_(part),
        shared_(shared),
        head_(head) {}

  __device__ void run() {
    const std::int32_t blocks = (chunk_.count + linear_tokens - 1) / linear_tokens;
    load_state();
    for (std::int32_t n = 0; n < blocks; ++n) {
      size_ = min(chunk_.count - n * linear_tokens, linear_tokens);
      begin_ = o_.reverse ? max(chunk_.count - (n + 1) * linear_tokens, 0) : n * linear_tokens;
      block(n > 0 || edges_.enters(), n + 1 < blocks || edges_.leaves());
    }
    if (edges_.leaves()) store_state();
  }

 private:
  static constexpr int warps = linear_threads / 32;
  static constexpr int warps_per_rows = warps * 16 / depth;  // that share 16 rows of M
  static constexpr int state_tiles = columns / 8 / warps_per_rows;
  static constexpr int half_tiles = columns / 16;  // of 8 columns, in half of the columns of o
  static_assert((warps_per_rows == 1 || warps_per_rows == 2) && state_tiles % 2 == 0 && half_tiles % 2 == 0);
  // Keys times weights may be so small that fp16 has no digits left for what their rounding leaves.
  static constexpr float rest_scale = Element<T>::dtype == DType::fp16 ? 2048 : 1;

  static __device__ int lane() { return thread_index() % 32; }
  static __device__ int warp() { return thread_index() / 32; }
  static __device__ int row_of_warp() { return warp() % 4 * 16; }
  static __device__ int half() { return warp() / 4; }
  static __device__ int state_row() { return warp() % (depth / 16) * 16; }
  static __device__ int state_column() { return warp() / (depth / 16) * state_tiles * 8; }

  // M in fp32, on its way between registers and device memory, where a and b lie otherwise.
  static constexpr int wide_pitch = padded(columns);
  static_assert(sizeof(Shared::a) + sizeof(Shared::b) >= sizeof(float) * depth * wide_pitch);
  __device__ float* wide_state() const { return reinterpret_cast<float*>(&shared_.a); }
  // Element e of tile n of this thread.
  static __device__ int wide_index(int n, int e) {
    return (state_row() + lane() / 4 + 8 * (e / 2)) * wide_pitch + state_column() + 8 * n + lane() % 4 * 2 +
           e % 2;
  }

  // Calls f(row, column, element) for all of M; neighbouring threads have neighbours in memory.
  template <class F>
  __device__ void for_state(F f) const {
#pragma unroll 2
    for (int at = thread_index(); at < depth * columns; at += linear_threads) {
      const int r = o_.transposed ? at % depth : at / columns;
      const int w = o_.transposed ? at / depth : at % columns;
      const bool inside = part_.begin + r < part_.end && part_.column + w < o_.o->width;
      f(part_.begin + r, part_.column + w, inside, wide_state()[r * wide_pitch + w]);
    }
  }

  __device__ void load_state() {
    const bool enters = edges_.enters();
    if (enters) {
      __syncthreads();  // a walk before this one
      for_state([&](std::int32_t row, std::int32_t column, bool inside, float& value) {
        value = inside ? edges_.entering(row, column) : 0.0F;
      });
      __syncthreads();
    }
#pragma unroll
    for (int n = 0; n < state_tiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) state_[n][e] = enters ? wide_state()[wide_index(n, e)] : 0.0F;
  }

  __device__ void store_state() const {
    __syncthreads();
#pragma unroll
    for (int n = 0; n < state_tiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) wide_state()[wide_index(n, e)] = state_[n][e];
    __syncthreads();
    for_state([&](std::int32_t row, std::int32_t column, bool inside, const float& value) {
      if (inside) edges_.store_leaving(row, column, value);
    });
  }

  // Tokens of the block, columns first .. end of an operand; 0 elsewhere. A multiple of 8 columns.
  template <int width>
  __device__ void load_tile(const LinearTile<T, linear_tokens, width>& tile, const DeviceView& view,
                            std::int32_t first, std::int32_t end) const {
    constexpr int chunks = width / 8;
#pragma unroll
    for (int n = 0; n < linear_tokens * chunks / linear_threads; ++n) {
      const int at = thread_index() + n * linear_threads;
      const int token = at / chunks;
      const int column = first + at % chunks * 8;
      const bool inside = token < size_ && column < end;
      const T* const row =
          row_of<const T>(view, head_, chunk_.row + begin_ + (inside ? token : 0)) + (inside ? column : 0);
      cp_async_16(tile.address(token, at % chunks * 8), row, inside ? 16 : 0);
    }
  }

  __device__ void store_state_tile() const {
#pragma unroll
    for (int n = 0; n < state_tiles; ++n)
#pragma unroll
      for (int upper = 0; upper < 2; ++upper)
        *reinterpret_cast<std::uint32_t*>(&shared_.state.data[state_row() + lane() / 4 + 8 * upper]
                                                             [state_column() + 8 * n + lane() % 4 * 2]) =
            Element<T>::pack(state_[n][2 * upper], state_[n][2 * upper + 1]);
  }

  // The 16 x 16 part of A, rows from `row`, columns from `column` of a tile.
  template <class Tile>
  static __device__ void load_a(std::uint32_t (&into)[4], const Tile& tile, int row, int column) {
    ldmatrix(into, tile.address(row + (lane() & 15), column + (lane() >> 4) * 8));
  }
  // The 16 x 16 part of B: rows of the tile are the summed index, columns those of the product.
  template <class Tile>
  static __device__ void load_b(std::uint32_t (&into)[4], const Tile& tile, int row, int column) {
    ldmatrix_trans(into, tile.address(row + (lane() & 15), column + (lane() >> 4) * 8));
  }
  // The same of a tile whose rows are columns of the product: b^T.
  template <class Tile>
  static __device__ void load_b_rows(std::uint32_t (&into)[4], const Tile& tile, int row, int column) {
    ldmatrix(into, tile.address(row + (lane() & 7) + ((lane() >> 4) << 3), column + ((lane() >> 3) & 1) * 8));
  }
  // A = b^T: rows of the product are columns of the tile.
  template <class Tile>
  static __device__ void load_a_columns(std::uint32_t (&into)[4], const Tile& tile, int row, int column) {
    ldmatrix_trans(into,
                   tile.address(row + (lane() & 7) + ((lane() >> 4) << 3), column + ((lane() >> 3) & 1) * 8));
  }

  // Whether any of 16 rows of scores sees any of 16 tokens.
  __device__ bool sees(int row, int token) const {
    return o_.reverse ? token + 15 >= row : token <= row + 15;
  }

  __device__ void block(bool has_state, bool grows) {
    __syncthreads();  // what the block before read is used up; the powers are there
    load_tile(shared_.a, *o_.a, part_.begin, part_.end);
    load_tile(shared_.b, *o_.b, part_.begin, part_.end);
    load_tile(shared_.c, *o_.c, part_.column, o_.o->width);
    cp_async_commit_group();
    if (has_state) store_state_tile();
    cp_async_wait_all();
    __syncthreads();
    float scores[4][4] = {};
    float sums[half_tiles][4] = {};
    multiply_rows(scores, sums, has_state);
    store_scores(scores);
    __syncthreads();
    multiply_scores(sums);
    ++part_.steps;
    if (part_.done_before != nullptr) wait_for_count(part_.done_before, part_.steps);
    switch (o_.o->dtype) {
      case DType::fp32: write<float>(sums); break;
      case DType::bf16: write<__nv_bfloat16>(sums); break;
      case DType::fp16: write<__half>(sums); break;
      case DType::fp64: break;  // fits_mma() lets no such call come here
    }
    if (part_.done != nullptr) publish_count(part_.done, part_.steps);
    if (grows) grow_state();
  }

  // scores = a b^T and sums = a M, each row times the power of its distance.
  __device__ void multiply_rows(float (&scores)[4][4], float (&sums)[half_tiles][4], bool has_state) const {
    const int row = row_of_warp();
#pragma unroll
    for (int k = 0; k < depth; k += 16) {
      std::uint32_t a[4], b[4];
      load_a(a, shared_.a, row, k);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int token = 32 * half() + 16 * n;
        if (!sees(row, token)) continue;
        load_b_rows(b, shared_.b, token, k);
        Mma<T>::multiply(scores[2 * n], a, b[0], b[1]);
        Mma<T>::multiply(scores[2 * n + 1], a, b[2], b[3]);
      }
      if (!has_state) continue;
#pragma unroll
      for (int n = 0; n < half_tiles; n += 2) {
        load_b(b, shared_.state, k, (half() * half_tiles + n) * 8);
        Mma<T>::multiply(sums[n], a, b[0], b[1]);
        Mma<T>::multiply(sums[n + 1], a, b[2], b[3]);
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int token = row + lane() / 4 + 8 * (e / 2);
      const float power = shared_.powers[o_.reverse ? max(size_ - token, 0) : token];
#pragma unroll
      for (int n = 0; n < half_tiles; ++n) sums[n][e] *= power;
    }
  }

  __device__ void store_scores(const float (&scores)[4][4]) const {
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int upper = 0; upper < 2; ++upper) {
        const int row = row_of_warp() + lane() / 4 + 8 * upper;
        const int token = 32 * half() + 8 * n + lane() % 4 * 2;
        const auto score = [&](int e) {
          const int distance = o_.reverse ? token + e - row : row - token - e;
          return distance < 0 ? 0.0F : scores[n][2 * upper + e] * shared_.powers[distance];
        };
        *reinterpret_cast<std::uint32_t*>(&shared_.scores.data[row][token]) =
            Element<T>::pack(score(0), score(1));
      }
  }

  __device__ void multiply_scores(float (&sums)[half_tiles][4]) const {
    const int row = row_of_warp();
#pragma unroll
    for (int token = 0; token < linear_tokens; token += 16) {
      if (!sees(row, token)) continue;
      std::uint32_t a[4], b[4];
      load_a(a, shared_.scores, row, token);
#pragma unroll
      for (int n = 0; n < half_tiles; n += 2) {
        load_b(b, shared_.c, token, (half() * half_tiles + n) * 8);
        Mma<T>::multiply(sums[n], a, b[0], b[1]);
        Mma<T>::multiply(sums[n + 1], a, b[2], b[3]);
      }
    }
  }

  // Two neighbouring keys times their weights: rounded, and what that leaves.
  __device__ void weigh(std::uint32_t keys, float first, float second, std::uint32_t& most,
                        std::uint32_t& rest) const {
    const float2 pair = widen_pair<T>(keys);
    const float x = pair.x * first, y = pair.y * second;
    most = Element<T>::pack(x, y);
    const float2 rounded = widen_pair<T>(most);
    rest = Element<T>::pack((x - rounded.x) * rest_scale, (y - rounded.y) * rest_scale);
  }

  // M moves on to the other edge of the block. Weights are those at the edge of the nearest token, so that
  // its keys keep all their digits even where a power of the decay has none in 16 bits.
  __device__ void grow_state() {
    constexpr int steps = linear_tokens / 16;
    std::uint32_t most[steps][4], rest[steps][4];
#pragma unroll
    for (int k = 0; k < steps; ++k) {
      std::uint32_t keys[4];
      load_a_columns(keys, shared_.b, 16 * k, state_row());
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const int token = 16 * k + 8 * part + lane() % 4 * 2;
        const auto weight = [&](int t) { return shared_.powers[o_.reverse ? t : max(size_ - 1 - t, 0)]; };
        const float first = weight(token), second = weight(token + 1);
        weigh(keys[2 * part], first, second, most[k][2 * part], rest[k][2 * part]);
        weigh(keys[2 * part + 1], first, second, most[k][2 * part + 1], rest[k][2 * part + 1]);
      }
    }
    const float older = shared_.powers[size_];
    const float nearest = shared_.powers[o_.reverse ? 0 : 1];
#pragma unroll
    for (int n = 0; n < state_tiles; n += 2) {
      float sum[2][4] = {}, sum_of_rests[2][4] = {};
#pragma unroll
      for (int k = 0; k < steps; ++k) {
        std::uint32_t b[4];
        load_b(b, shared_.c, 16 * k, state_column() + 8 * n);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          Mma<T>::multiply(sum[i], most[k], b[2 * i], b[2 * i + 1]);
          Mma<T>::multiply(sum_of_rests[i], rest[k], b[2 * i], b[2 * i + 1]);
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          state_[n + i][e] =
              state_[n + i][e] * older + nearest * (sum[i][e] + sum_of_rests[i][e] * (1 / rest_scale));
    }
  }

  template <class Out>
  __device__ void write(const float (&sums)[half_tiles][4]) const {
    const DeviceView& view = *o_.o;
    const bool adds = p_.write == Write::add || part_.slice > 0;
    const bool aligned = pairs_aligned<Out>(view);
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const int token = row_of_warp() + lane() / 4 + 8 * upper;
      if (token >= size_) continue;
      Out* const row = row_of<Out>(view, head_, chunk_.row + begin_ + token);
#pragma unroll
      for (int n = 0; n < half_tiles; ++n) {
        const int column = part_.column + (half() * half_tiles + n) * 8 + lane() % 4 * 2;
        if (column >= view.width) continue;  // widths are even
        float2 pair = {sums[n][2 * upper], sums[n][2 * upper + 1]};
        if (part_.rounds) pair = Pair<Out>::widen(Pair<Out>::narrow(pair));
        if (adds) {
          const float2 held = load_pair(row + column, aligned);
          pair.x += held.x;
          pair.y += held.y;
        }
        store_pair(row + column, pair, aligned);
      }
    }
  }

  const LinearParams& p_;
  const DeviceChunk& chunk_;
  const WalkOperands o_;
  const WalkEdges<float> edges_;
  WalkPart& part_;
  Shared& shared_;
  const std::int32_t head_;
  std::int32_t begin_ = 0, size_ = 0;  // tokens of the chunk in this block
  float state_[state_tiles][4];
};

}  // namespace cplab::kernels::cuda
