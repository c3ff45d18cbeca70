// What every block of tokens can compute before it knows the state that enters it (GatedScratch): rows scaled
// to its edges, scores of its pairs, and for delta rules the WY form. There, with S the state at the left
// edge, the rows that the tokens write are U = T diag(beta) (v - (k exp G) S), T = (I + diag(beta) a)^-1, a
// the scores of keys with the keys before them: a gated delta rule is then a gated sum of k^T u.
#pragma once

#include "kernels/families/linear/gated/gates.cuh"

namespace cplab::kernels::cuda::gated {

// L of (I + A)^-1 in place of A, [C][C + 4] in fp32, of which only what lies below the diagonal is not 0: by
// substitution in parts of 16 tokens, then of two parts of a size at a time.
template <int C>
class Inverse {
 public:
  static constexpr int pitch = C + 4;
  __device__ explicit Inverse(float* matrix) : matrix_(matrix) {}

  __device__ void run() const {
    substitute();
    join<16>();
    if constexpr (C == 64) join<32>();
  }

 private:
  __device__ float& at(int row, int column) const { return matrix_[row * pitch + column]; }

  __device__ void substitute() const {
    const int column = thread() % 16, first = thread() / 16 * 16;
    float x[16];
    if (first < C) {
#pragma unroll
      for (int t = 0; t < 16; ++t) {
        x[t] = t == column ? 1.0F : 0.0F;
#pragma unroll
        for (int s = 0; s < t; ++s) x[t] -= at(first + t, first + s) * x[s];
      }
    }
    __syncthreads();
    if (first < C)
#pragma unroll
      for (int t = 0; t < 16; ++t) at(first + t, first + column) = x[t];
    __syncthreads();
  }

  // [[X, 0], [L, Y]]^-1 of inverses X and Y: below the diagonal -Y L X. A thread has `width` neighbouring
  // elements.
  template <int size>
  __device__ void join() const {
    constexpr int width = C * size / 2 / gated_threads;
    const int e = thread() * width;
    const int first = e / (size * size) * 2 * size, row = e / size % size, column = e % size;
    float sums[width];
    const auto multiply_rows = [&](int left, int right, float sign) {
#pragma unroll
      for (int i = 0; i < width; ++i) sums[i] = 0;
#pragma unroll 8
      for (int k = 0; k < size; ++k) {
        const float factor = sign * at(first + size + row, first + left + k);
        const float* const others = &at(first + right + k, first + column);
        if constexpr (width == 4) {
          const float4 four = *reinterpret_cast<const float4*>(others);
          sums[0] += factor * four.x, sums[1] += factor * four.y;
          sums[2] += factor * four.z, sums[3] += factor * four.w;
        } else {
#pragma unroll
          for (int i = 0; i < width; ++i) sums[i] += factor * others[i];
        }
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < width; ++i) at(first + size + row, first + column + i) = sums[i];
      __syncthreads();
    };
    multiply_rows(0, 0, 1);
    multiply_rows(size, size, -1);
  }

  float* matrix_;
};

template <class T, int D, bool column>
class Prepare {
 public:
  static constexpr int C = tokens_of<T>;
  // Once k and q are scaled, their tiles hold T and values; the matrix that becomes T lies where q was
  // scaled.
  static constexpr bool shares = gated_prepare_shares(D, column);
  static_assert(gated_tile_bytes(C, C, sizeof(T)) <= gated_tile_bytes(C, D, sizeof(T)) &&
                gated_tile_bytes(C, gated_values, sizeof(T)) <= gated_tile_bytes(C, D, sizeof(T)) &&
                (!shares || C * (C + 4) * 4 <= gated_tile_bytes(C, D, sizeof(T))));

  __device__ Prepare(const GatedParams& p, int head, int number, Arena arena)
      : p_(p),
        block_(p.blocks[number]),
        head_(head),
        number_(number),
        has_keys_(p.k.data != nullptr),
        has_queries_(p.q.data != nullptr),
        has_beta_(p.beta.data != nullptr),
        k_(arena.tile<T, D>(C)),
        q_(arena.tile<T, D>(C)),
        scaled_k_(arena.tile<T, D>(C)),
        scaled_q_(arena.tile<T, D>(C, column)),
        values_{q_.data},
        inverse_{k_.data},
        scores_(arena.tile<T, C>(C)),
        lower_(shares ? reinterpret_cast<float*>(scaled_q_.data) : arena.take<float>(C * Inverse<C>::pitch)),
        gates_(arena) {}

  __device__ void run() {
    if (has_keys_) load_rows<C>(k_, p_.k, head_, block_.row, block_.count, 0);
    if (has_queries_) load_rows<C>(q_, p_.q, head_, block_.row, block_.count, 0);
    gates_.load(p_, head_, block_);
    wait_for_tiles();
    if (has_keys_ && (has_beta_ || has_queries_)) scores();
    scale_rows();
    if (has_beta_) erase();
    values();
  }

 private:
  __device__ T* scratch(std::int64_t offset, std::int64_t elements) const {
    return scratch_of<T>(p_, offset, head_, number_, elements);
  }

  // Scores of keys and of queries with the keys of the block.
  __device__ void scores() {
    Sums<T, C, C> of_keys, of_queries;
    of_keys.clear();
    of_queries.clear();
    if constexpr (column) {
      for_levels<C>([&](Level level) { scores_of(level, of_keys, of_queries); });
      __syncthreads();  // scaled queries are read
    } else {
      if (has_beta_) multiply<D, Stored::straight, Stored::turned>(of_keys, k_, k_, Lower{});
      if (has_queries_) multiply<D, Stored::straight, Stored::turned>(of_queries, q_, k_, Lower{});
      const auto weigh = [&](int t, int s, float& x, float& y) {
        x = s <= t ? x * power<T>(gates_.at(t, 0) - gates_.at(s, 0)) : 0;
        y = s < t ? y * power<T>(gates_.at(t, 0) - gates_.at(s + 1, 0)) : 0;
      };
      of_keys.each(weigh);
      of_queries.each(weigh);
    }
    if (has_beta_) {
      of_keys.each([&](int t, int s, float& x, float& y) {
        x = s < t ? x : 0;  // a key does not see itself
        y = s + 1 < t ? y : 0;
        lower_[t * Inverse<C>::pitch + s] = gates_.strengths[t] * x;
        lower_[t * Inverse<C>::pitch + s + 1] = gates_.strengths[t] * y;
      });
      if (p_.cut.scratch.pairs >= 0) store_scratch(of_keys, scratch(p_.cut.scratch.pairs, C * C), C);
    }
    if (!has_queries_) return;
    of_queries.each([&](int t, int s, float& x, float& y) { put_two(scores_.at(t, s), x, y); });
    if (p_.cut.scratch.scores >= 0) store_scratch(of_queries, scratch(p_.cut.scratch.scores, C * C), C);
  }

  __device__ void scores_of(Level level, Sums<T, C, C>& of_keys, Sums<T, C, C>& of_queries) {
    __syncthreads();  // of the level before
    scale_to_edges(gates_, level, k_, scaled_k_, q_, scaled_q_, has_queries_);
    __syncthreads();
    const bool alone = level.half == 0;  // a token with itself
    const Tile<T, D> keys{alone ? k_.data : scaled_k_.data}, queries{alone ? q_.data : scaled_q_.data};
    const auto take = [&](Sums<T, C, C>& sums, const Tile<T, D>& rows) {
      Sums<T, C, C> all;
      all.clear();
      multiply<D, Stored::straight, Stored::turned>(all, rows, keys, PairsOf{level});
#pragma unroll
      for (int n = 0; n < Sums<T, C, C>::n_tiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int t = sums.first_row(0) + lane() / 4 + 8 * (e / 2);
          const int s = sums.first_column(n) + lane() % 4 * 2 + e % 2;
          if (level.has(t, s)) sums.value[0][n][e] = all.value[0][n][e];
        }
    };
    if (has_beta_ && !alone) take(of_keys, keys);
    if (has_queries_) take(of_queries, queries);
  }

  // To the edges of the block.
  __device__ void scale_rows() {
    const GatedScratch& s = p_.cut.scratch;
    __syncthreads();  // scores of scaled rows
    if (s.keys >= 0)
      scale_to_scratch<C>(k_, scratch(s.keys, C * D), [&](int t, int d) { return gates_.to_right(t, d); });
    if (s.queries >= 0)
      scale_to_scratch<C>(q_, scratch(s.queries, C * D),
                          [&](int t, int d) { return gates_.from_left(t, d); });
    if (has_beta_) scale<C>(k_, scaled_k_, [&](int t, int d) { return gates_.from_left(t, d); });
    float* const decays = scratch_of<float>(p_, s.decays, head_, number_, D);
    for (int d = thread(); d < D; d += gated_threads) decays[d] = gates_.at(C - 1, d);
    __syncthreads();
  }

  // T, and W, which a state loses.
  __device__ void erase() {
    const GatedScratch& s = p_.cut.scratch;
    Inverse<C>(lower_).run();
    for (int at = thread(); at < C * C / 2; at += gated_threads) {
      const int t = at / (C / 2), u = at % (C / 2) * 2;
      const float x = lower_[t * Inverse<C>::pitch + u], y = lower_[t * Inverse<C>::pitch + u + 1];
      put_two(inverse_.at(t, u), x * gates_.strengths[u], y * gates_.strengths[u + 1]);
      if (s.inverse >= 0) put_two(scratch(s.inverse, C * C) + t * C + u, x, y);
    }
    __syncthreads();
    Sums<T, C, D> erased;
    erased.clear();
    multiply<C, Stored::straight, Stored::straight>(erased, inverse_, scaled_k_, LowerTerms{});
    store_scratch(erased, scratch(s.erase, C * D), D);
  }

  // T diag(beta) v, and what dout says of the rows that are written.
  __device__ void values() {
    const GatedScratch& s = p_.cut.scratch;
    for (int first = 0; first < p_.cut.E; first += gated_values) {
      if (s.values >= 0) {
        from_view(p_.v, first);
        T* const into = scratch(s.values, C * p_.cut.E) + first;
        if (has_beta_) {
          Sums<T, C, gated_values> sums;
          sums.clear();
          multiply<C, Stored::straight, Stored::straight>(sums, inverse_, values_, LowerTerms{});
          store_scratch(sums, into, p_.cut.E);
        } else {
          for (int at = thread(); at < C * gated_values / 2; at += gated_threads) {
            const int t = at / (gated_values / 2), x = at % (gated_values / 2) * 2;
            const float2 two = get_two(values_.at(t, x));
            put_two(into + t * p_.cut.E + x, two.x, two.y);
          }
        }
      }
      if (s.dvalues < 0) continue;
      from_view(p_.dout, first);
      Sums<T, C, gated_values> sums;
      sums.clear();
      multiply<C, Stored::turned, Stored::straight>(sums, scores_, values_, Upper{});
      store_scratch(sums, scratch(s.dvalues, C * p_.cut.E) + first, p_.cut.E);
    }
  }
  __device__ void from_view(const DeviceView& view, int first) const {
    __syncthreads();
    load_rows<C>(values_, view, head_, block_.row, block_.count, first);
    wait_for_tiles();
  }

  const GatedParams& p_;
  const DeviceChunk& block_;
  const int head_, number_;
  const bool has_keys_, has_queries_, has_beta_;
  Tile<T, D> k_, q_, scaled_k_, scaled_q_;
  Tile<T, gated_values> values_;
  Tile<T, C> inverse_, scores_;
  float* lower_;
  Gates<T, D, column> gates_;
};

template <class T, int D, bool column>
__global__ void __launch_bounds__(gated_threads, 2) gated_prepare(const __grid_constant__ GatedParams p) {
  alignas(1024) extern __shared__ unsigned char prepare_shared[];
  wait_on_dependent_grids();
  const int block = static_cast<int>(blockIdx.x);
  Prepare<T, D, column>(p, block % p.heads, block / p.heads, Arena(prepare_shared)).run();
}

}  // namespace cplab::kernels::cuda::gated
