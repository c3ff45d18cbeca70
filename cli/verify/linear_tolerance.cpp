// Expected rounding errors of linear attention; see linear_tolerance.hpp for the model.
#include "cli/verify/linear_tolerance.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/verify/block_gates.hpp"
#include "cli/verify/head_rows.hpp"
#include "cli/verify/rounding_errors.hpp"
#include "cli/verify/tracked_state.hpp"
#include "reference/workers.hpp"

namespace cplab {
namespace {

// A tensor of results with its expected error.
struct Result {
  const std::vector<double>& right;
  ExpectedError& error;
  const Roundings& roundings;
};

class Head {
 public:
  Head(DType dtype, const PlanRoundings& roundings, const reference::LinearShape& shape,
       const reference::LinearInputs& in, std::span<const std::int64_t> edges,
       const reference::LinearResult& right, std::int64_t head, LinearErrors& errors, const MadeRows* made)
      : shape_(shape),
        head_(head),
        edges_(edges),
        roundings_(roundings),
        right_(right),
        errors_(errors),
        e2_(rounding_variance(dtype)),
        f2_(std::min(e2_, rounding_variance(DType::fp32))),
        tiny2_(square(underflow(dtype))),
        q_(rows_of(in.q, shape.H, head, shape.D)),
        k_(rows_of(in.k, shape.H, head, shape.D)),
        v_(rows_of(in.v, shape.H, head, shape.E)),
        dout_(rows_of(in.dout, shape.H, head, shape.E)),
        log_decay_(of_columns(rows_of(in.log_decay, shape.H, head, shape.gates()), shape.D)),
        beta_(rows_of(in.beta, shape.H, head, 1)) {
    if (decays()) slope_ = in.slopes[as_index(head)];
    if (made == nullptr) return;
    of_q_ = rows_of(made->q, shape.H, head, shape.D);
    of_k_ = rows_of(made->k, shape.H, head, shape.D);
    of_v_ = rows_of(made->v, shape.H, head, shape.E);
  }

  void run() {
    if (decays()) {
      sweep(false);
      if (has_backward()) sweep(true);
    } else {
      forward_by_tokens();
      if (has_backward()) backward_by_tokens();
    }
  }

 private:
  bool decays() const { return shape_.transition == reference::Transition::decay; }
  bool has_backward() const { return !dout_.values.empty(); }
  bool by_blocks() const { return !decays() && roundings_.by_blocks; }
  double block_e2() const { return by_blocks() ? e2_ : 0; }
  double exponents(std::int64_t t) const { return exponents_.empty() ? 0 : exponents_[as_index(t)]; }
  StateRoundings state_roundings() const {
    if (decays()) return {f2_, e2_};
    return {f2_, block_e2() * (beta_.values.empty() ? 1 : 3), block_e2(),
            by_blocks() ? static_cast<double>(block_tokens) : 1};
  }
  TrackedState zero_state() const { return {shape_.D, shape_.E, state_roundings()}; }
  TokenTransition transition(std::int64_t t) const {
    TokenTransition token{log_decay_[t]};
    if (!beta_.values.empty()) token.k = k_[t], token.beta = *beta_[t], token.k_variance = of_k_.maybe(t);
    return token;
  }

  // One element. `near`: the squares of what is rounded before it is multiplied, `rounds` if it is;
  // `products` in a sum.
  void set(const Result& result, std::int64_t t, std::int64_t width, std::int64_t x, double of_states,
           double near, double terms, double sums, bool rounds) const {
    const std::size_t i = as_index((t * shape_.H + head_) * width + x);
    const double right2 = square(result.right[i]);
    result.error.terms[i] = terms;
    result.error.variance[i] = of_states + (rounds ? e2_ * near : 0) + f2_ * sums * (near + right2) / 2 +
                               e2_ * result_variance(result.roundings, terms, result.right[i]) + tiny2_;
  }

  // Errors of what a state is made of.
  FactorErrors of_key(std::int64_t t) const { return {of_k_.maybe(t), of_v_.maybe(t)}; }
  FactorErrors of_query(std::int64_t t) const { return {of_q_.maybe(t), nullptr}; }
  double key_variance(std::int64_t t, std::int64_t d) const { return of_k_.values.empty() ? 0 : of_k_[t][d]; }

  // Terms of one sum that makes a state: the tokens of a block, the products of a transition matrix.
  std::int64_t summed_at_edge(std::int64_t tokens) const {
    if (decays()) return std::min(tokens, near_tokens);
    return shape_.transition == reference::Transition::matrix ? shape_.D : 1;
  }

  // The state at edge p, made of so many tokens.
  void keep_at_edge(std::int64_t p, std::int64_t tokens, const TrackedState& state,
                    ExpectedError& into) const {
    const double sums = f2_ * static_cast<double>(summed_at_edge(tokens)) / 4;
    for (std::size_t n = 0; n < edges_.size(); ++n) {
      if (edges_[n] != p) continue;
      const std::size_t first = (n * as_index(shape_.H) + as_index(head_)) * state.value.size();
      for (std::size_t i = 0; i < state.value.size(); ++i) {
        into.terms[first + i] = state.terms[i];
        if (tokens == 0) continue;  // exactly 0
        into.variance[first + i] = state.variance[i] + sums * (state.terms[i] + square(state.value[i])) +
                                   e2_ * roundings_.state_casts * state.peak[i] + tiny2_;
      }
    }
  }

  // ---- one factor for every head -------------------------------------------------------------------

  // States of keys to the right, out and dq; `reverse`: of queries to the left, dv and dk.
  void sweep(bool reverse) {
    const HeadRows &a = reverse ? q_ : k_, &b = reverse ? dout_ : v_;
    const double factor = std::exp(-slope_);
    const std::int64_t n = shape_.S;
    TrackedState state = zero_state();
    if (reverse) keep_at_edge(n, 0, state, errors_.query_states);
    for (std::int64_t s = 0; s < n; ++s) {
      const std::int64_t t = reverse ? n - 1 - s : s;
      if (!reverse && std::ranges::count(edges_, t) > 0)
        keep_at_edge(t, t, state.decayed(factor), errors_.key_states);
      state.advance(factor, slope_, a[t], b[t], reverse ? of_query(t) : of_key(t));
      read(state, t, s, reverse);
      if (reverse) keep_at_edge(t, n - t, state, errors_.query_states);
    }
    if (!reverse) keep_at_edge(n, n, state.decayed(factor), errors_.key_states);
  }

  // The two products of token t, `s` tokens after the first of the sweep, with the state.
  void read(const TrackedState& state, std::int64_t t, std::int64_t s, bool reverse) {
    const std::int64_t D = shape_.D, E = shape_.E;
    const Result of_rows = reverse ? Result{right_.dv, errors_.dv, roundings_.dkv}
                                   : Result{right_.out, errors_.out, roundings_.out};
    const Result of_columns = reverse ? Result{right_.dk, errors_.dk, roundings_.dkv}
                                      : Result{right_.dq, errors_.dq, roundings_.dq};
    near_pairs(t, s, reverse);
    state.over_rows(reverse ? k_[t] : q_[t], sums_, (reverse ? of_k_ : of_q_).maybe(t));
    for (std::int64_t x = 0; x < E; ++x) product(of_rows, t, E, x, D, pairs_of_rows_[as_index(x)]);
    if (!has_backward()) return;
    state.over_columns(reverse ? v_[t] : dout_[t], sums_, reverse ? of_v_.maybe(t) : nullptr);
    for (std::int64_t d = 0; d < D; ++d) product(of_columns, t, D, d, E, pairs_of_columns_[as_index(d)]);
  }

  // From the sums of squares for one element of a product over `size` numbers of a state.
  void product(const Result& result, std::int64_t t, std::int64_t width, std::int64_t x, std::int64_t size,
               double pairs) const {
    const double peak = sums_.peak[as_index(x)], casts = e2_ * roundings_.state_casts;
    const double of_blocks = (2 * block_e2() + exponents(t)) * (peak + pairs);
    set(result, t, width, x, sums_.variance[as_index(x)] + casts * peak + of_blocks, std::max(peak, pairs),
        sums_.terms[as_index(x)], static_cast<double>(size + near_tokens) / 2, decays());
  }

  // Squares of pairs with the tokens before (reverse: behind) t that are near, times the squares of rows.
  void near_pairs(std::int64_t t, std::int64_t s, bool reverse) {
    constexpr double next_to_nothing = 1e-12;
    const std::int64_t D = shape_.D, E = shape_.E;
    pairs_of_rows_.assign(as_index(E), 0);
    pairs_of_columns_.assign(as_index(D), 0);
    for (std::int64_t m = 0; m < std::min(near_tokens, s + 1); ++m) {
      const double decay2 = std::exp(-2 * slope_ * static_cast<double>(m));
      if (decay2 < next_to_nothing) break;
      const std::int64_t u = reverse ? t + m : t - m;
      const double *a = reverse ? q_[u] : k_[u], *b = reverse ? dout_[u] : v_[u];
      const double of_rows = decay2 * square(dot(reverse ? k_[t] : q_[t], a, D));
      for (std::int64_t x = 0; x < E; ++x) pairs_of_rows_[as_index(x)] += of_rows * square(b[x]);
      if (!has_backward()) continue;
      const double of_columns = decay2 * square(dot(reverse ? v_[t] : dout_[t], b, E));
      for (std::int64_t d = 0; d < D; ++d) pairs_of_columns_[as_index(d)] += of_columns * square(a[d]);
    }
  }

  // ---- factors for every column, and delta rules ---------------------------------------------------

  void step(std::int64_t t, TrackedState& state) const {
    const TokenTransition token = transition(t);
    state.pass(token);
    state.add_outer(token.beta, k_[t], v_[t], of_key(t));
  }

  void block_pairs(const BlockRows& rows, const double* of_keys, const double* of_values) {
    pairs_of_rows_.assign(as_index(shape_.E), 0);
    pairs_of_columns_.assign(as_index(shape_.D), 0);
    rows.add_pairs(of_keys, of_values, pairs_of_rows_, pairs_of_columns_);
  }
  // Token t joins the rows that later tokens read; `state` has passed it.
  void add_key_to_block(std::int64_t t, const TrackedState& state, BlockRows& rows) const {
    const TokenTransition token = transition(t);
    rows.scale(token.log_factors);
    BlockRow row{{k_[t], k_[t] + shape_.D}, {v_[t], v_[t] + shape_.E}};
    for (std::size_t x = 0; token.k != nullptr && x < row.values.size(); ++x)
      row.values[x] = token.beta * (row.values[x] - state.along()[x]);
    rows.add(std::move(row));
  }

  void forward_by_tokens() {
    if (by_blocks()) exponents_ = exponent_variances(log_decay_, shape_.S, block_tokens, f2_);
    TrackedState state = zero_state();
    BlockRows rows(block_tokens);
    pairs_of_rows_.assign(as_index(shape_.E), 0);
    pairs_of_columns_.assign(as_index(shape_.D), 0);
    if (by_blocks() && has_backward())
      gates_ = BlockGates({shape_.S, shape_.H, head_, shape_.D, shape_.E, shape_.gates(), block_tokens});
    for (std::int64_t t = 0; t < shape_.S; ++t) {
      if (has_backward() && t % stride() == 0) kept_.push_back(state);
      keep_at_edge(t, t, state, errors_.key_states);
      step(t, state);
      if (by_blocks()) {
        add_key_to_block(t, state, rows);
        block_pairs(rows, q_[t], has_backward() ? dout_[t] : nullptr);
      }
      state.over_rows(q_[t], sums_, of_q_.maybe(t));
      for (std::int64_t x = 0; x < shape_.E; ++x)
        product({right_.out, errors_.out, roundings_.out}, t, shape_.E, x, shape_.D,
                pairs_of_rows_[as_index(x)]);
      if (!has_backward()) continue;
      state.over_columns(dout_[t], sums_);
      for (std::int64_t d = 0; d < shape_.D; ++d) {
        const double pairs = pairs_of_columns_[as_index(d)];
        product({right_.dq, errors_.dq, roundings_.dq}, t, shape_.D, d, shape_.E, pairs);
        const double q2 = square(q_[t][d]), dq = right_.dq[as_index((t * shape_.H + head_) * shape_.D + d)];
        if (by_blocks()) gates_.add_query(t, d, {q2 * (sums_.peak[as_index(d)] + pairs), q2 * square(dq)});
      }
    }
    keep_at_edge(shape_.S, shape_.S, state, errors_.key_states);
  }

  std::int64_t stride() const {
    return std::max<std::int64_t>(1, std::llround(std::sqrt(static_cast<double>(shape_.S))));
  }

  // S_{t-1}, asked from the last token to the first: one stride is computed again at a time.
  const TrackedState& state_before(std::int64_t t) {
    const std::int64_t first = t / stride() * stride();
    if (again_.empty() || again_first_ != first) {
      again_first_ = first;
      again_.assign(1, kept_[as_index(t / stride())]);
      for (std::int64_t next = first; next < t; ++next) {
        again_.push_back(again_.back());
        step(next, again_.back());
      }
    }
    return again_[as_index(t - first)];
  }

  void backward_by_tokens() {
    TrackedState m = zero_state();
    BlockRows rows(block_tokens), key_rows(block_tokens);
    keep_at_edge(shape_.S, 0, m, errors_.query_states);
    for (std::int64_t t = shape_.S - 1; t >= 0; --t) {
      m.add_outer(1, q_[t], dout_[t], of_query(t));
      if (by_blocks()) {
        if (t + 1 < shape_.S) rows.scale(log_decay_[t + 1]);
        rows.add({{q_[t], q_[t] + shape_.D}, {dout_[t], dout_[t] + shape_.E}});
        block_pairs(rows, k_[t], nullptr);
      }
      TokenTransition token = transition(t);
      TrackedState x = state_before(t);
      TokenTransition factors = token;
      factors.k = nullptr;
      x.pass(factors);
      const Vectors vectors = vectors_of(t, token, x, m);
      if (by_blocks()) {
        block_pairs(rows, k_[t], vectors.u.data());
        if (gates_.one_gate()) gate_pairs(t, token, vectors, rows, key_rows);
      }
      for (std::int64_t d = 0; d < shape_.D; ++d) key_gradient(t, d, token, x, m, vectors);
      token.log_factors = zeros_.data();
      m.pass_transposed(token);  // M'
      const std::int64_t of_one_gate = shape_.D / shape_.gates();
      for (std::int64_t g = 0; g < shape_.gates(); ++g) decay_gradient(t, g, of_one_gate, x, m);
      m.pass(factors);
      keep_at_edge(t, shape_.S - t, m, errors_.query_states);
    }
    if (by_blocks()) gates_.add_errors(e2_, f2_, log_decay_, right_.dlog_decay, errors_.dlog_decay);
  }

  // What multiplies rows of M and X in the gradients of one token, with variances: v or u, and F = k M.
  struct Vectors {
    std::vector<double> u, u_variance, f, f_variance;  // [E]
  };

  // What is in common to dL/dG of token t and of those behind it in a block.
  void gate_pairs(std::int64_t t, const TokenTransition& token, const Vectors& vectors, const BlockRows& rows,
                  BlockRows& key_rows) {
    const double strength2 = token.k != nullptr ? square(token.beta) : 1;
    gates_.add_pairs(t, k_[t], vectors.u.data(), rows, strength2 * (token.k != nullptr ? 2 : 1));
    if (token.k == nullptr) return;
    if (t + 1 < shape_.S) key_rows.scale(log_decay_[t + 1]);
    BlockRow row{{k_[t], k_[t] + shape_.D}, vectors.f};
    for (double& x : row.values) x *= token.beta;
    key_rows.add(std::move(row));
    gates_.add_pairs(t, k_[t], vectors.u.data(), key_rows, strength2 * 3);
  }

  Vectors vectors_of(std::int64_t t, const TokenTransition& token, const TrackedState& x,
                     const TrackedState& m) {
    const std::int64_t D = shape_.D, E = shape_.E;
    const double products = f2_ * static_cast<double>(D) / 2;
    Vectors vectors{std::vector<double>(v_[t], v_[t] + E), std::vector<double>(as_index(E)),
                    std::vector<double>(as_index(E)), std::vector<double>(as_index(E))};
    const double strength2 = token.k != nullptr ? square(token.beta) : 1;
    double beta_variance = 0, beta_terms = 0;
    for (std::int64_t e = 0; e < E; ++e) {
      double f_terms = 0, f_squares = 0, u_terms = square(v_[t][e]);
      if (const double* of_v = of_v_.maybe(t)) vectors.u_variance[as_index(e)] += of_v[e];
      for (std::int64_t d = 0; d < D; ++d) {
        const std::size_t i = as_index(d * E + e);
        const double k = k_[t][d], k2 = square(k);
        vectors.f[as_index(e)] += k * m.value[i];
        vectors.f_variance[as_index(e)] += k2 * m.variance[i] + key_variance(t, d) * square(m.value[i]);
        f_squares += k2 * square(m.value[i]);
        f_terms += k2 * m.terms[i];
        if (token.k == nullptr) continue;
        vectors.u[as_index(e)] -= k * x.value[i];
        vectors.u_variance[as_index(e)] += k2 * x.variance[i] + key_variance(t, d) * square(x.value[i]);
        u_terms += k2 * square(x.value[i]);
      }
      const double f2 = square(vectors.f[as_index(e)]), u2 = square(vectors.u[as_index(e)]);
      const double pairs = by_blocks() ? pairs_of_rows_[as_index(e)] : 0;
      vectors.f_variance[as_index(e)] += products * (f_squares + f2) / 2 +
                                         block_e2() * (3 * f_squares + pairs + f2) +
                                         exponents(t) * (f_squares + pairs);
      if (token.k != nullptr)
        vectors.u_variance[as_index(e)] += products * (u_terms + u2) / 2 +
                                           block_e2() * (3 * (u_terms - square(v_[t][e])) + u2) +
                                           exponents(t) * (u_terms - square(v_[t][e]));
      set({right_.dv, errors_.dv, roundings_.dkv}, t, E, e, strength2 * vectors.f_variance[as_index(e)], 0,
          strength2 * f_terms, 2, false);
      beta_variance += vectors.f_variance[as_index(e)] * u2 + f2 * vectors.u_variance[as_index(e)] +
                       2 * block_e2() * f2 * u_terms;
      beta_terms += f2 * u2;
    }
    if (token.k != nullptr) wide(right_.dbeta, errors_.dbeta, t, 1, 0, beta_variance, beta_terms, E);
    return vectors;
  }

  void key_gradient(std::int64_t t, std::int64_t d, const TokenTransition& token, const TrackedState& x,
                    const TrackedState& m, const Vectors& vectors) {
    const double strength2 = token.k != nullptr ? square(token.beta) : 1;
    double variance = 0, terms = 0, read = 0, erased = 0;
    for (std::int64_t e = 0; e < shape_.E; ++e) {
      const std::size_t i = as_index(d * shape_.E + e);
      read += m.value[i] * vectors.u[as_index(e)];
      const double u2 = square(vectors.u[as_index(e)]), m2 = square(m.value[i]);
      variance += m.variance[i] * u2 + m2 * vectors.u_variance[as_index(e)];
      terms += m2 * u2;
      if (token.k == nullptr) continue;
      const double f2 = square(vectors.f[as_index(e)]), x2 = square(x.value[i]);
      variance += x.variance[i] * f2 + x2 * vectors.f_variance[as_index(e)];
      terms += x2 * f2;
      erased += x.value[i] * vectors.f[as_index(e)];
    }
    if (by_blocks()) {
      const double squares = terms + pairs_of_columns_[as_index(d)];
      variance += (2 * e2_ + exponents(t)) * squares;
      const double weight = strength2 * square(k_[t][d]);
      gates_.add_key(t, d, {weight * squares, weight * (square(read) + square(erased))});
    }
    set({right_.dk, errors_.dk, roundings_.dkv}, t, shape_.D, d, strength2 * variance, strength2 * terms,
        strength2 * terms, static_cast<double>(shape_.E) / 2 + 2, false);
  }

  // Gate g is that of so many rows of the states.
  void decay_gradient(std::int64_t t, std::int64_t g, std::int64_t rows, const TrackedState& x,
                      const TrackedState& m) const {
    double variance = 0, terms = 0;
    const std::int64_t products = rows * shape_.E;
    const double states = by_blocks() && gates_.one_gate() ? e2_ : 0;
    for (std::size_t i = as_index(g * products); i < as_index((g + 1) * products); ++i) {
      variance += m.variance[i] * square(x.value[i]) + square(m.value[i]) * x.variance[i];
      terms += square(m.value[i] * x.value[i]);
      variance += states * (square(m.value[i]) * x.peak[i] + m.peak[i] * square(x.value[i]));
    }
    const double right = right_.dlog_decay[as_index((t * shape_.H + head_) * shape_.gates() + g)];
    variance += exponents(t) * (terms + square(right));
    wide(right_.dlog_decay, errors_.dlog_decay, t, shape_.gates(), g, variance, terms,
         by_blocks() ? 0 : products);
  }

  // A sum of so many products that is stored in the accumulation dtype.
  void wide(const std::vector<double>& right, ExpectedError& error, std::int64_t t, std::int64_t width,
            std::int64_t x, double variance, double terms, std::int64_t products) const {
    set({right, error, stored_wide_}, t, width, x, variance, terms, terms,
        static_cast<double>(products) / 2 + 2, false);
  }

  const reference::LinearShape& shape_;
  std::int64_t head_;
  std::span<const std::int64_t> edges_;
  const PlanRoundings& roundings_;
  const Roundings stored_wide_;
  const reference::LinearResult& right_;
  LinearErrors& errors_;
  double e2_, f2_, tiny2_;
  HeadRows q_, k_, v_, dout_, log_decay_, beta_;
  HeadRows of_q_, of_k_, of_v_;  // variances that they have; empty: none
  double slope_ = 0;
  TrackedState::Sums sums_;
  std::vector<double> pairs_of_rows_, pairs_of_columns_, exponents_;
  BlockGates gates_;
  std::vector<double> zeros_ = std::vector<double>(as_index(shape_.D));
  std::vector<TrackedState> kept_, again_;
  std::int64_t again_first_ = 0;
};

}  // namespace

LinearErrors expected_linear_errors(DType dtype, const PlanRoundings& roundings,
                                    const reference::LinearShape& shape,
                                    const reference::LinearInputs& inputs,
                                    std::span<const std::int64_t> edges, const reference::LinearResult& right,
                                    const std::function<void(std::int64_t)>& after_head,
                                    const MadeRows* made) {
  LinearErrors errors;
  const auto each = [&](const auto& visit) {
    visit(errors.out, right.out);
    visit(errors.dq, right.dq);
    visit(errors.dk, right.dk);
    visit(errors.dv, right.dv);
    visit(errors.dlog_decay, right.dlog_decay);
    visit(errors.dbeta, right.dbeta);
    visit(errors.key_states, right.key_states);
    visit(errors.query_states, right.query_states);
  };
  each([](ExpectedError& error, const std::vector<double>& of) {
    error.variance.assign(of.size(), 0);
    error.terms.assign(of.size(), 0);
  });
  errors.dlog_decay.rows_alike.assign(as_index(shape.H), 1);
  reference::for_each_unit(
      shape.H,
      [&](std::int64_t h, int) {
        Head(dtype, roundings, shape, inputs, edges, right, h, errors, made).run();
      },
      after_head);
  if (dtype == DType::fp64)
    each([](ExpectedError& error, const std::vector<double>& of) { hold_to_fp64(of, error); });
  return errors;
}

}  // namespace cplab
