// The factors of a block of tokens: sums of their logarithms, and how pairs of tokens are weighted by
// exp(G_t - G_s) without an exponent above 0.
//
// One factor for all columns weighs a score: exp(G_t - G_s) (x_t . y_s). A factor for every column stands
// inside the sum over columns, and must be split between the two rows. Pairs s < t are taken by level: a
// level has those whose numbers agree above one bit, where t has a 1 and s a 0. Between them lies an edge of
// all pairs of their group, behind its first half; both rows are scaled to that edge, t by exp(G_t - G_edge)
// and s by exp(G_edge - G_s). Every pair is of one level; level 0 has the pairs s = t.
#pragma once

#include "kernels/families/linear/gated/tiles.cuh"

namespace cplab::kernels::cuda::gated {

// exp() of anything less is 0 in fp32; sums of what is not less keep their digits.
constexpr float least_log = -104;

template <class T, int D, bool column>
struct Gates {
  static constexpr int C = tokens_of<T>, pitch = column ? D : 1;
  float *sums, *strengths;
  float *left, *right;  // of one factor for all columns, of every token: exp G, exp(last - G)

  __device__ explicit Gates(Arena& arena)
      : sums(arena.take<float>(C * pitch)),
        strengths(arena.take<float>(C)),
        left(arena.take<float>(C)),
        right(arena.take<float>(C)) {}

  __device__ float at(int t, int d) const { return sums[t * pitch + (column ? d : 0)]; }
  // Of two neighbouring columns, of which the first is even.
  __device__ float2 two(int t, int d) const {
    if constexpr (column) return *reinterpret_cast<const float2*>(sums + t * pitch + d);
    return {sums[t], sums[t]};
  }
  __device__ float from_left(int t, int d) const {
    if constexpr (column)
      return power<T>(at(t, d));
    else
      return left[t];
  }
  __device__ float to_right(int t, int d) const {
    if constexpr (column)
      return power<T>(at(C - 1, d) - at(t, d));
    else
      return right[t];
  }

  // Of the tokens of a block; those behind its last one change nothing. Barriers are in it.
  __device__ void load(const GatedParams& p, int head, const DeviceChunk& block) const {
    for (int t = thread(); t < C; t += gated_threads) {
      const bool inside = t < block.count;
      strengths[t] = inside && p.beta.data != nullptr ? load_first<float>(p.beta, block.row + t, head) : 0.0F;
      if constexpr (!column)
        left[t] = inside ? fmaxf(load_first<float>(p.log_decay, block.row + t, head), least_log) : 0.0F;
    }
    if constexpr (column)
      sum_columns(p, head, block);
    else
      sum_tokens();
  }

 private:
  __device__ void sum_tokens() const {
    __syncthreads();
    const int t = thread();
    float sum = 0, all = 0;
    if (t < C)
#pragma unroll 8
      for (int s = 0; s < C; ++s) {
        all += left[s];
        if (s == t) sum = all;
      }
    __syncthreads();
    if (t < C) {
      sums[t] = sum;
      left[t] = power<T>(sum);
      right[t] = power<T>(sum == all ? 0.0F : all - sum);
    }
    __syncthreads();
  }

  // A thread has a column of some consecutive tokens.
  __device__ void sum_columns(const GatedParams& p, int head, const DeviceChunk& block) const {
    constexpr int segments = gated_threads / D, length = C / segments;
    const int d = thread() % D, first = thread() / D * length;
    float sum = 0;
#pragma unroll 8
    for (int t = first; t < first + length; ++t) {
      float log = 0;
      if (t < block.count && d < p.log_decay.width)
        log = load_element_as<float>(p.log_decay.data, p.log_decay.dtype,
                                     row_offset(p.log_decay, block.row + t, head) + d);
      sum += fmaxf(log, least_log);
      sums[t * pitch + d] = sum;
    }
    __syncthreads();
    float before = 0;
    for (int t = length - 1; t < first; t += length) before += sums[t * pitch + d];
    __syncthreads();
    if (first > 0)
#pragma unroll 8
      for (int t = first; t < first + length; ++t) sums[t * pitch + d] += before;
    __syncthreads();
  }
};

// A level: tokens in groups of 2 * half.
struct Level {
  int half;

  __device__ bool has(int t, int s) const {
    if (half == 0) return t == s;
    return (t & half) != 0 && (s & half) == 0 && (t ^ s) < 2 * half;
  }
  // Whether 16 x 16 pairs from t and s on have one of them.
  __device__ bool meets(int t, int s) const {
    if (half >= 16) return (t & half) != 0 && (s & half) == 0 && (t ^ s) < 2 * half;
    return t == s;
  }
  // The token to whose right lies the edge of t's group.
  __device__ int edge(int t) const { return (t & ~(2 * half - 1)) + half - 1; }
};
// Calls f(level) for each, the first with level 0.
template <int C, class F>
__device__ __forceinline__ void for_levels(F f) {
#pragma unroll 1
  for (int half = 0; half < C; half = half == 0 ? 1 : 2 * half) f(Level{half});
}

// Which parts of a product of all pairs a level has: sums over pairs, and products that sum over one of the
// two tokens.
struct PairsOf {
  Level level;
  __device__ bool sums(int t, int s) const { return level.meets(t, s); }
  __device__ bool terms(int, int) const { return true; }
};
struct EarlierOf {  // rows t, terms s
  Level level;
  __device__ bool sums(int, int) const { return true; }
  __device__ bool terms(int t, int s) const { return level.meets(t, s); }
};
struct LaterOf {  // rows s, terms t
  Level level;
  __device__ bool sums(int, int) const { return true; }
  __device__ bool terms(int s, int t) const { return level.meets(t, s); }
};
// All pairs s <= t.
struct Lower {
  __device__ bool sums(int t, int s) const { return s <= t; }
  __device__ bool terms(int, int) const { return true; }
};
struct Upper {  // rows s, terms t
  __device__ bool sums(int, int) const { return true; }
  __device__ bool terms(int s, int t) const { return s <= t; }
};
struct LowerTerms {  // rows t, terms s
  __device__ bool sums(int, int) const { return true; }
  __device__ bool terms(int t, int s) const { return s <= t; }
};

// Each row of `rows` elements times factor(row, column), into another tile or the same.
template <int rows, class T, int columns, class F>
__device__ inline void scale(const Tile<T, columns>& from, const Tile<T, columns>& into, F factor) {
#pragma unroll 4
  for (int at = thread(); at < rows * columns / 2; at += gated_threads) {
    const int row = at / (columns / 2), column = at % (columns / 2) * 2;
    const float2 two = get_two(from.at(row, column));
    put_two(into.at(row, column), two.x * factor(row, column), two.y * factor(row, column + 1));
  }
}
template <int rows, class T, int columns, class F>
__device__ inline void scale_to_scratch(const Tile<T, columns>& from, T* into, F factor) {
#pragma unroll 4
  for (int at = thread(); at < rows * columns / 2; at += gated_threads) {
    const int row = at / (columns / 2), column = at % (columns / 2) * 2;
    const float2 two = get_two(from.at(row, column));
    put_two(into + row * columns + column, two.x * factor(row, column), two.y * factor(row, column + 1));
  }
}

// Rows of a level at the edges of their groups: of keys, and of queries where there are any. Not for level 0,
// whose rows stay what they are.
template <class T, int D, bool column>
__device__ inline void scale_to_edges(const Gates<T, D, column>& gates, Level level, const Tile<T, D>& k,
                                      const Tile<T, D>& scaled_k, const Tile<T, D>& q,
                                      const Tile<T, D>& scaled_q, bool queries) {
  if (level.half == 0) return;
#pragma unroll 4
  for (int at = thread(); at < tokens_of<T> * D / 2; at += gated_threads) {
    const int t = at / (D / 2), d = at % (D / 2) * 2;
    const float2 sum = gates.two(t, d), edge = gates.two(level.edge(t), d);
    const float2 factor = {power<T>(-fabsf(sum.x - edge.x)), power<T>(-fabsf(sum.y - edge.y))};
    const float2 key = get_two(k.at(t, d));
    put_two(scaled_k.at(t, d), key.x * factor.x, key.y * factor.y);
    if (!queries) continue;
    const float2 query = get_two(q.at(t, d));
    put_two(scaled_q.at(t, d), query.x * factor.x, query.y * factor.y);
  }
}

}  // namespace cplab::kernels::cuda::gated
