// The gradients of a block, once S at its left edge, R = dL/dS at its right one, U and dU are known. With X =
// T^T dU = dL / d(diag(beta) (v - (k exp G) S)):
//
//   dv = diag(beta) X                        (without beta dU)
//   dq = (dout S^T) exp G + (dP . w) k       dP = dout U^T, pairs s <= t
//   dk = (U R^T) exp(last - G) - diag(beta) (X S^T) exp G + (dP . w)^T q + (da . w) k + (da . w)^T k
//   dbeta = rows of X . (v - (k exp G) S) - (X U^T) . a      da = -diag(beta) X U^T, pairs s < t
//
// w weighs a pair, exp(G_t - G_s). Where a term has exp(+G_t), dL/dG_t has that term times its own row of q
// or k; where it has exp(-G_t), less that. last = G of the last token, also in diag(exp last) S. A token's
// logarithm is in every G from there on: its gradient is the sum of these of dL/dG.
#pragma once

#include "kernels/families/linear/gated/gates.cuh"

namespace cplab::kernels::cuda::gated {

template <class T, int D, bool column>
class Gradients {
 public:
  static constexpr int C = tokens_of<T>, E = gated_values;
  using Rows = Sums<T, C, D>;
  using Pairs = Sums<T, C, C>;

  __device__ Gradients(const GatedParams& p, int head, int number, Arena arena)
      : p_(p),
        block_(p.blocks[number]),
        head_(head),
        number_(number),
        has_beta_(p.beta.data != nullptr),
        k_(arena.tile<T, D>(C)),
        q_(arena.tile<T, D>(C)),
        v_(arena.tile<T, E>(C)),
        dout_(arena.tile<T, E>(C)),
        u_(arena.tile<T, E>(C)),
        du_(arena.tile<T, E>(C)),
        state_(arena.tile<T, E>(D)),
        dstate_(arena.tile<T, E>(D)),
        inverse_(arena.tile<T, C>(C)),
        pairs_(arena.tile<T, C>(C)),
        dscores_(arena.tile<T, C>(C)),
        dpairs_(arena.tile<T, C>(C)),
        of_last_(arena.take<float>(D)),
        of_rows_(arena.take<float>(2 * C)),
        gates_(arena) {}

  __device__ void run() {
    load_rows<C>(k_, p_.k, head_, block_.row, block_.count, 0);
    load_rows<C>(q_, p_.q, head_, block_.row, block_.count, 0);
    if (has_beta_) {
      load_scratch<C>(inverse_, scratch(p_.cut.scratch.inverse, C * C), C);
      load_scratch<C>(pairs_, scratch(p_.cut.scratch.pairs, C * C), C);
    }
    for (int d = thread(); d < D; d += gated_threads) of_last_[d] = 0;
    for (int t = thread(); t < 2 * C; t += gated_threads) of_rows_[t] = 0;
    gates_.load(p_, head_, block_);
    dq_.clear(), erased_.clear(), of_states_.clear();
    dscores_sums_.clear(), dpairs_sums_.clear();
    for (int first = 0; first < p_.cut.E; first += E) values(first);
    strengths();
    if constexpr (column)
      pairs_by_level();
    else
      pairs();
    write();
  }

 private:
  __device__ T* scratch(std::int64_t offset, std::int64_t elements) const {
    return scratch_of<T>(p_, offset, head_, number_, elements);
  }

  // Everything that sums over columns of v, 64 of them.
  __device__ void values(int first) {
    const GatedScratch& s = p_.cut.scratch;
    const int pitch = p_.cut.E;
    if (has_beta_) load_rows<C>(v_, p_.v, head_, block_.row, block_.count, first);
    load_rows<C>(dout_, p_.dout, head_, block_.row, block_.count, first);
    load_scratch<C>(u_, scratch(s.values, C * pitch) + first, pitch);
    load_scratch<C>(du_, scratch(s.dvalues, C * pitch) + first, pitch);
    load_scratch<D>(state_, scratch(s.states, D * pitch) + first, pitch);
    load_scratch<D>(dstate_, scratch(s.dstates, D * pitch) + first, pitch);
    wait_for_tiles();
    gradient_of_values(first);
    multiply<E, Stored::straight, Stored::turned>(dscores_sums_, dout_, u_, Lower{});
    multiply<E, Stored::straight, Stored::turned>(dq_, dout_, state_);
    multiply<E, Stored::straight, Stored::turned>(of_states_, u_, dstate_);
    if (has_beta_) {  // v_ holds X now
      multiply<E, Stored::straight, Stored::turned>(dpairs_sums_, v_, u_, Lower{});
      multiply<E, Stored::straight, Stored::turned>(erased_, v_, state_);
    }
    for (int d = thread(); d < D; d += gated_threads) {
      float sum = 0;
#pragma unroll 8
      for (int e = 0; e < E; e += 2) {
        const float2 a = get_two(state_.at(d, e)), b = get_two(dstate_.at(d, e));
        sum += a.x * b.x + a.y * b.y;
      }
      of_last_[d] += sum * power<T>(gates_.at(C - 1, d));
    }
    __syncthreads();
  }

  // dv; v_ becomes X.
  __device__ void gradient_of_values(int first) {
    Sums<T, C, E> x;
    x.clear();
    if (!has_beta_) {
      x.each([&](int t, int e, float& a, float& b) {
        const float2 two = get_two(du_.at(t, e));
        a = two.x, b = two.y;
      });
      write_rows(x, p_.dv, head_, block_.row, block_.count, first, p_.write);
      return;
    }
    multiply<C, Stored::turned, Stored::straight>(x, inverse_, du_, Upper{});
    add_to_rows(x, [&](int t, int e) { return get_two(v_.at(t, e)); });
    x.each([&](int t, int e, float& a, float& b) {
      put_two(v_.at(t, e), a, b);
      a *= gates_.strengths[t];
      b *= gates_.strengths[t];
    });
    write_rows(x, p_.dv, head_, block_.row, block_.count, first, p_.write);
    __syncthreads();
  }

  // dbeta += rows of sums . other(row, column), which gives two columns.
  template <int N, class Other>
  __device__ void add_to_rows(Sums<T, C, N>& sums, Other other, int into = 0) const {
    float mine[2] = {0, 0};
    sums.each([&](int t, int x, float& a, float& b) {
      const float2 two = other(t, x);
      mine[(t & 8) / 8] += a * two.x + b * two.y;
    });
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = row_sum(mine[half]);
      const int t = sums.first_row(0) + lane() / 4 + 8 * half;
      // Warps side by side in turn, so that the sum is the same in every run.
      for (int turn = 0; turn < Sums<T, C, N>::warps_n; ++turn) {
        if (warp() / Sums<T, C, N>::warps_m == turn && lane() % 4 == 0) of_rows_[into + t] += sum;
        __syncthreads();
      }
    }
  }

  // dbeta, and what becomes of the sums over values: weights of rows, gradients of scores.
  __device__ void strengths() {
    if (has_beta_) {
      add_to_rows(erased_, [&](int t, int d) {
        const float2 k = get_two(k_.at(t, d));
        return float2{-k.x * gates_.from_left(t, d), -k.y * gates_.from_left(t, d + 1)};
      });
      add_to_rows(dpairs_sums_, [&](int t, int s) {
        const float2 a = get_two(pairs_.at(t, s));
        return float2{s < t ? -a.x : 0.0F, s + 1 < t ? -a.y : 0.0F};
      });
      for (int t = thread(); t < block_.count; t += gated_threads)
        if (p_.dbeta.data != nullptr)
          store_element_as<float>(of_rows_[t], p_.dbeta.data, p_.dbeta.dtype,
                                  row_offset(p_.dbeta, block_.row + t, head_));
    }
    dq_.each([&](int t, int d, float& x, float& y) {
      x *= gates_.from_left(t, d);
      y *= gates_.from_left(t, d + 1);
    });
    erased_.each([&](int t, int d, float& x, float& y) {
      x *= -gates_.strengths[t] * gates_.from_left(t, d);
      y *= -gates_.strengths[t] * gates_.from_left(t, d + 1);
    });
    of_states_.each([&](int t, int d, float& x, float& y) {
      x *= gates_.to_right(t, d);
      y *= gates_.to_right(t, d + 1);
    });
    dscores_sums_.each([&](int t, int s, float& x, float& y) {
      x = s <= t ? x : 0;
      y = s + 1 <= t ? y : 0;
    });
    dpairs_sums_.each([&](int t, int s, float& x, float& y) {
      x = s < t ? -gates_.strengths[t] * x : 0;
      y = s + 1 < t ? -gates_.strengths[t] * y : 0;
    });
    sum_of_last();
  }

  // of_last_ += the sum over tokens of k . (U R^T) exp(last - G).
  __device__ void sum_of_last() {
    float* const rows = row_sums();
    of_states_.each([&](int t, int d, float& x, float& y) {
      const float2 k = get_two(k_.at(t, d));
      rows[t * row_pitch + d] = x * k.x;
      rows[t * row_pitch + d + 1] = y * k.y;
    });
    __syncthreads();
    for (int d = thread(); d < D; d += gated_threads) {
      float sum = 0;
#pragma unroll 8
      for (int t = 0; t < C; ++t) sum += rows[t * row_pitch + d];
      of_last_[d] += sum;
    }
    __syncthreads();
  }
  // [C][D + 4] in fp32, where rows of values were.
  static constexpr int row_pitch = D + 4;
  __device__ float* row_sums() const {
    return reinterpret_cast<float*>(v_.data);
  }
  static_assert(C * row_pitch * 4 <= 4 * gated_tile_bytes(C, E, sizeof(T)));
  static_assert(gated_tile_bytes(C, D, sizeof(T)) <= gated_tile_bytes(D, E, sizeof(T)));  // pairs_by_level()

  // What pairs add; erased_ becomes the part of dk with exp(+G), of_states_ the other.
  __device__ void pairs() {
    const auto weigh = [&](int t, int s, float& x, float& y) {
      x = s <= t ? x * power<T>(gates_.at(t, 0) - gates_.at(s, 0)) : 0;
      y = s < t ? y * power<T>(gates_.at(t, 0) - gates_.at(s + 1, 0)) : 0;
    };
    dscores_sums_.each(weigh);
    dpairs_sums_.each(weigh);
    put_pairs(dscores_, dpairs_);
    __syncthreads();
    multiply<C, Stored::straight, Stored::straight>(dq_, dscores_, k_, LowerTerms{});
    multiply<C, Stored::turned, Stored::straight>(of_states_, dscores_, q_, Upper{});
    if (!has_beta_) return;
    multiply<C, Stored::straight, Stored::straight>(erased_, dpairs_, k_, LowerTerms{});
    multiply<C, Stored::turned, Stored::straight>(of_states_, dpairs_, k_, Upper{});
  }
  // Gradients of scores, rounded, into tiles.
  __device__ void put_pairs(const Tile<T, C>& of_queries, const Tile<T, C>& of_keys) {
    dscores_sums_.each([&](int t, int s, float& x, float& y) { put_two(of_queries.at(t, s), x, y); });
    if (has_beta_)
      dpairs_sums_.each([&](int t, int s, float& x, float& y) { put_two(of_keys.at(t, s), x, y); });
  }
  // Those of a level from such tiles; a thread reads what it put there.
  __device__ void put_level(Level level, const Tile<T, C>& of_queries, const Tile<T, C>& of_keys) {
    const auto take = [&](const Tile<T, C>& from, const Tile<T, C>& into) {
      return [&, from, into](int t, int s, float&, float&) {
        const float2 two = get_two(from.at(t, s));
        put_two(into.at(t, s), level.has(t, s) ? two.x : 0.0F, level.has(t, s + 1) ? two.y : 0.0F);
      };
    };
    dscores_sums_.each(take(of_queries, dscores_));
    if (has_beta_) dpairs_sums_.each(take(of_keys, dpairs_));
  }

  __device__ void pairs_by_level() {
    const Tile<T, D> k_at_edges{state_.data}, q_at_edges{dstate_.data};
    put_pairs(inverse_, pairs_);  // neither is read any more
    for_levels<C>([&](Level level) {
      __syncthreads();
      scale_to_edges(gates_, level, k_, k_at_edges, q_, q_at_edges, true);
      put_level(level, inverse_, pairs_);
      __syncthreads();
      const bool alone = level.half == 0;  // a token with itself
      const Tile<T, D> scaled_k{alone ? k_.data : k_at_edges.data},
          scaled_q{alone ? q_.data : q_at_edges.data};
      add_scaled(dq_, level, [&](Rows& sums) {
        multiply<C, Stored::straight, Stored::straight>(sums, dscores_, scaled_k, EarlierOf{level});
      });
      add_scaled(of_states_, level, [&](Rows& sums) {
        multiply<C, Stored::turned, Stored::straight>(sums, dscores_, scaled_q, LaterOf{level});
        if (has_beta_ && level.half > 0)
          multiply<C, Stored::turned, Stored::straight>(sums, dpairs_, scaled_k, LaterOf{level});
      });
      if (has_beta_ && level.half > 0)
        add_scaled(erased_, level, [&](Rows& sums) {
          multiply<C, Stored::straight, Stored::straight>(sums, dpairs_, scaled_k, EarlierOf{level});
        });
    });
  }
  template <class Multiply>
  __device__ void add_scaled(Rows& into, Level level, Multiply multiply_into) {
    Rows sums;
    sums.clear();
    multiply_into(sums);
    const auto factor = [&](int t, int d) {
      return level.half == 0 ? 1.0F : power<T>(-fabsf(gates_.at(t, d) - gates_.at(level.edge(t), d)));
    };
#pragma unroll
    for (int n = 0; n < Rows::n_tiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        into.value[0][n][e] += sums.value[0][n][e] * factor(Rows::first_row(0) + lane() / 4 + 8 * (e / 2),
                                                            Rows::first_column(n) + lane() % 4 * 2 + e % 2);
  }

  __device__ void write() {
    write_rows(dq_, p_.dq, head_, block_.row, block_.count, 0, p_.write);
    if (p_.dlog_decay.data != nullptr) gradient_of_gates();
#pragma unroll
    for (int n = 0; n < Rows::n_tiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) of_states_.value[0][n][e] += erased_.value[0][n][e];
    write_rows(of_states_, p_.dk, head_, block_.row, block_.count, 0, p_.write);
  }

  // dL/dG of an element: q dq + k ((part of dk with exp(+G)) - (part with exp(-G))).
  template <class F>
  __device__ void of_sums(F f) {
#pragma unroll
    for (int n = 0; n < Rows::n_tiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        const int t = Rows::first_row(0) + lane() / 4 + 8 * (e / 2);
        const int d = Rows::first_column(n) + lane() % 4 * 2;
        const float2 q = get_two(q_.at(t, d)), k = get_two(k_.at(t, d));
        const auto value = [&](float of_q, float of_k, int i) {
          return of_q * dq_.value[0][n][e + i] +
                 of_k * (erased_.value[0][n][e + i] - of_states_.value[0][n][e + i]);
        };
        f(t, d, n, e, value(q.x, k.x, 0), value(q.y, k.y, 1));
      }
  }

  __device__ void gradient_of_gates() {
    __syncthreads();
    if constexpr (column) {
      float* const rows = row_sums();
      of_sums([&](int t, int d, int, int, float x, float y) {
        rows[t * row_pitch + d] = x;
        rows[t * row_pitch + d + 1] = y;
      });
      __syncthreads();
      for (int d = thread(); d < p_.dlog_decay.width; d += gated_threads) {
        float sum = of_last_[d];
        for (int t = C - 1; t >= 0; --t) {
          sum += rows[t * row_pitch + d];
          if (t < block_.count) write_gate(t, d, sum);
        }
      }
    } else {
      Rows all;
      of_sums([&](int, int, int n, int e, float x, float y) {
        all.value[0][n][e] = x;
        all.value[0][n][e + 1] = y;
      });
      add_to_rows(
          all,
          [](int, int) {
            return float2{1, 1};
          },
          C);
      const int t = thread();
      if (t >= block_.count) return;
      float sum = 0;
#pragma unroll 8
      for (int d = 0; d < D; ++d) sum += of_last_[d];
#pragma unroll 8
      for (int later = 0; later < C; ++later) sum += later >= t ? of_rows_[C + later] : 0.0F;
      write_gate(t, 0, sum);
    }
  }
  __device__ void write_gate(int t, int d, float value) const {
    const DeviceView& view = p_.dlog_decay;
    store_element_as<float>(value, view.data, view.dtype, row_offset(view, block_.row + t, head_) + d);
  }

  const GatedParams& p_;
  const DeviceChunk& block_;
  const int head_, number_;
  const bool has_beta_;
  Tile<T, D> k_, q_;
  Tile<T, E> v_, dout_, u_, du_, state_, dstate_;
  Tile<T, C> inverse_, pairs_, dscores_, dpairs_;
  float *of_last_, *of_rows_;
  Gates<T, D, column> gates_;
  // dout S^T, X S^T and U R^T; then dq, and the parts of dk with exp(+G) and exp(-G).
  Rows dq_, erased_, of_states_;
  Pairs dscores_sums_, dpairs_sums_;
};

template <class T, int D, bool column>
__global__ void __launch_bounds__(gated_threads, 1) gated_gradients(const __grid_constant__ GatedParams p) {
  alignas(1024) extern __shared__ unsigned char gradients_shared[];
  wait_on_dependent_grids();
  const int block = static_cast<int>(blockIdx.x);
  Gradients<T, D, column>(p, block % p.heads, block / p.heads, Arena(gradients_shared)).run();
}

}  // namespace cplab::kernels::cuda::gated
