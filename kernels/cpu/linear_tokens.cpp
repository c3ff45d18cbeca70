// Chunks of linear attention whose transition is a factor for each column or a delta rule: token by token, as
// the recurrence stands (gated linear attention, 2312.06635; gated delta rules, 2412.06464). Sums and states
// in T, rounded where they are written.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/cpu/linear_parts.hpp"
#include "kernels/cpu/linear_tiles.hpp"

namespace cplab::kernels {
namespace {

template <class T>
using Vector = std::vector<T>;

// What does not enter is 0.
template <class T>
RowMatrix<T> entered(std::optional<RowMatrix<T>> state, std::int64_t D, std::int64_t E) {
  return state ? std::move(*state) : RowMatrix<T>(D, E);
}

template <class T>
T dot(const T* a, const T* b, std::int64_t count) {
  return std::inner_product(a, a + count, b, T{0});
}

// m v
template <class T>
Vector<T> times(const RowMatrix<T>& m, const Vector<T>& v) {
  Vector<T> product;
  for (std::int64_t i = 0; i < m.rows(); ++i) product.push_back(dot(m.row(i), v.data(), m.cols()));
  return product;
}

// v^T m
template <class T>
Vector<T> times(const Vector<T>& v, const RowMatrix<T>& m) {
  Vector<T> product(static_cast<std::size_t>(m.cols()));
  for (std::int64_t i = 0; i < m.rows(); ++i)
    add_scaled(product.data(), v[static_cast<std::size_t>(i)], m.row(i), m.cols());
  return product;
}

// m += factor a b^T
template <class T>
void add_outer(RowMatrix<T>& m, T factor, const Vector<T>& a, const Vector<T>& b) {
  for (std::int64_t i = 0; i < m.rows(); ++i)
    add_scaled(m.row(i), factor * a[static_cast<std::size_t>(i)], b.data(), m.cols());
}

template <class T>
void scale_rows(RowMatrix<T>& m, const Vector<T>& factors) {
  for (std::int64_t i = 0; i < m.rows(); ++i)
    for (std::int64_t j = 0; j < m.cols(); ++j) m.row(i)[j] *= factors[static_cast<std::size_t>(i)];
}

// v -= w
template <class T>
void subtract(Vector<T>& v, const Vector<T>& w) {
  for (std::size_t i = 0; i < v.size(); ++i) v[i] -= w[i];
}
template <class T>
Vector<T> scaled(T factor, Vector<T> v) {
  for (T& value : v) value *= factor;
  return v;
}

template <class T>
Vector<T> load_row(const ViewRows& rows, std::int64_t row, std::int64_t head) {
  Vector<T> values(static_cast<std::size_t>(rows.width()));
  rows.load(row, head, values.data());
  return values;
}

template <class T>
void write_row(const ViewRows& into, std::int64_t row, std::int64_t head, const Vector<T>& values,
               Write write) {
  RowMatrix<T> line(1, std::ssize(values));
  std::copy(values.begin(), values.end(), line.data());
  write_rows(into, row, head, line, write);
}

// What one token does to a state of keys that passes to its right, and to one of queries that passes to its
// left: T = (I - beta k^T k) diag(factors), and its transpose.
template <class T>
struct Token {
  Vector<T> factors, k;  // k where there is a beta
  T beta = 0;

  void pass_keys(RowMatrix<T>& state) const {
    scale_rows(state, factors);
    if (!k.empty()) add_outer(state, -beta, k, times(k, state));
  }
  void pass_queries(RowMatrix<T>& state) const {
    if (!k.empty()) add_outer(state, -beta, k, times(k, state));
    scale_rows(state, factors);
  }
};

template <class T>
class Transitions {
 public:
  Transitions(const View& log_decay, const std::optional<View>& beta, const View& k)
      : log_decay_(log_decay), D_(static_cast<std::size_t>(k.width)) {
    if (!beta) return;
    beta_.emplace(*beta);
    k_.emplace(k);
  }

  Token<T> at(std::int64_t row, std::int64_t head) const {
    Token<T> token;
    token.factors = load_row<T>(log_decay_, row, head);
    for (T& factor : token.factors) factor = std::exp(factor);
    token.factors.resize(D_, token.factors.front());  // one gate is that of every column
    if (!beta_) return token;
    token.k = load_row<T>(*k_, row, head);
    token.beta = beta_->load_first<T>(row, head);
    return token;
  }

 private:
  ViewRows log_decay_;
  std::size_t D_;
  std::optional<ViewRows> beta_, k_;
};

// From the state before a token to that after it.
template <class T>
void advance(const Token<T>& token, const Vector<T>& k, const Vector<T>& v, RowMatrix<T>& state) {
  token.pass_keys(state);
  add_outer(state, token.k.empty() ? T{1} : token.beta, k, v);
}

template <class T>
void local(const LinearLocal& call) {
  const ViewRows q(call.q), k(call.k), v(call.v), out(call.out);
  const Transitions<T> transitions(*call.log_decay, call.beta, call.k);
  const std::int64_t D = call.q.width;
  const States<T> own(call.state, D), carry(call.carry, D), final_states(call.final_state, D);
  for (std::int64_t head = 0; head < call.q.heads; ++head) {
    final_states.clear(head);
    for (const Chunk& chunk : call.chunks.list) {
      RowMatrix<T> state =
          entered(entering(own, chunk.state, carry, chunk.left, T{1}, head), D, call.v.width);
      for (std::int64_t row = chunk.row; row < chunk.row + chunk.count; ++row) {
        advance(transitions.at(row, head), load_row<T>(k, row, head), load_row<T>(v, row, head), state);
        write_row<T>(out, row, head, times(load_row<T>(q, row, head), state), call.write);
      }
      if (final_states.given() && chunk.right >= 0) final_states.store(chunk.right, head, state);
    }
  }
  if (call.write == Write::store) clear_other_rows(call.out, call.chunks.list);
}

template <class T>
class TokensBackward {
 public:
  explicit TokensBackward(const LinearLocalBackward& call)
      : call_(call),
        q_(call.q),
        k_(call.k),
        v_(call.v),
        dout_(call.dout),
        dq_(call.dq),
        dk_(call.dk),
        dv_(call.dv),
        transitions_(*call.log_decay, call.beta, call.k),
        own_(call.state, call.q.width),
        carry_(call.carry, call.q.width),
        dstate_(call.dstate, call.q.width),
        dcarry_(call.dcarry, call.q.width),
        final_(call.final_state, call.q.width) {
    if (call.dlog_decay) dlog_decay_.emplace(*call.dlog_decay);
    if (call.dbeta) dbeta_.emplace(*call.dbeta);
  }

  void run() {
    for (std::int64_t head = 0; head < call_.q.heads; ++head) {
      final_.clear(head);
      for (const Chunk& chunk : call_.chunks.list) walk(chunk, head);
    }
    const auto clear = [&](const View& view) { clear_other_rows(view, call_.chunks.list); };
    if (call_.write == Write::store)
      for (const View* view : {&call_.dq, &call_.dk, &call_.dv}) clear(*view);
    for (const auto* view : {&call_.dlog_decay, &call_.dbeta})
      if (*view) clear(**view);
  }

 private:
  void walk(const Chunk& chunk, std::int64_t head) {
    const std::int64_t D = call_.q.width, E = call_.v.width;
    RowMatrix<T> state = entered(entering(own_, chunk.state, carry_, chunk.left, T{1}, head), D, E);
    // One state in `stride` is kept on the way right; on the way left those between are computed again.
    const auto stride = std::max<std::int64_t>(1, std::llround(std::sqrt(static_cast<double>(chunk.count))));
    std::vector<RowMatrix<T>> kept;
    for (std::int64_t t = 0; t < chunk.count; ++t) {
      if (t % stride == 0) kept.push_back(state);
      step(chunk.row + t, head, state);
      write_row<T>(dq_, chunk.row + t, head, times(state, load_row<T>(dout_, chunk.row + t, head)),
                   call_.write);
    }
    RowMatrix<T> m = entered(entering(dstate_, chunk.state, dcarry_, chunk.right, T{1}, head), D, E);
    for (auto group = std::ssize(kept) - 1; group >= 0; --group) {
      const std::int64_t begin = group * stride, end = std::min(begin + stride, chunk.count);
      std::vector<RowMatrix<T>> before = {kept[static_cast<std::size_t>(group)]};
      for (std::int64_t t = begin; t + 1 < end; ++t) {
        before.push_back(before.back());
        step(chunk.row + t, head, before.back());
      }
      for (std::int64_t t = end - 1; t >= begin; --t)
        differentiate(chunk.row + t, head, before[static_cast<std::size_t>(t - begin)], m);
    }
    if (final_.given() && chunk.left >= 0) final_.store(chunk.left, head, m);
  }

  void step(std::int64_t row, std::int64_t head, RowMatrix<T>& state) const {
    advance(transitions_.at(row, head), load_row<T>(k_, row, head), load_row<T>(v_, row, head), state);
  }

  // m: from dL / d(state after the token), but for the token's own query, to dL / d(state before it).
  // With x = diag(factors) S and the state after it S' = x + beta k (v - k x), or x + k v.
  void differentiate(std::int64_t row, std::int64_t head, const RowMatrix<T>& before, RowMatrix<T>& m) {
    const Token<T> token = transitions_.at(row, head);
    const Vector<T> k = load_row<T>(k_, row, head), v = load_row<T>(v_, row, head);
    add_outer(m, T{1}, load_row<T>(q_, row, head), load_row<T>(dout_, row, head));
    RowMatrix<T> x = before;
    scale_rows(x, token.factors);
    const Vector<T> dv = times(k, m);
    if (token.k.empty()) {
      write_row<T>(dk_, row, head, times(m, v), call_.write);
      write_row<T>(dv_, row, head, dv, call_.write);
    } else {
      Vector<T> u = v;
      subtract(u, times(k, x));
      Vector<T> dk = times(m, u);
      subtract(dk, times(x, dv));
      write_row<T>(dk_, row, head, scaled(token.beta, dk), call_.write);
      write_row<T>(dv_, row, head, scaled(token.beta, dv), call_.write);
      if (dbeta_) dbeta_->store_first(row, head, dot(dv.data(), u.data(), std::ssize(u)));
      add_outer(m, -token.beta, k, dv);
    }
    if (dlog_decay_) {
      Vector<T> of_decay;
      for (std::int64_t d = 0; d < m.rows(); ++d) of_decay.push_back(dot(m.row(d), x.row(d), m.cols()));
      if (dlog_decay_->width() == 1) of_decay = {std::accumulate(of_decay.begin(), of_decay.end(), T{0})};
      write_row<T>(*dlog_decay_, row, head, of_decay, Write::store);
    }
    scale_rows(m, token.factors);
  }

  const LinearLocalBackward& call_;
  ViewRows q_, k_, v_, dout_, dq_, dk_, dv_;
  Transitions<T> transitions_;
  States<T> own_, carry_, dstate_, dcarry_, final_;
  std::optional<ViewRows> dlog_decay_, dbeta_;
};

// T of a chunk: what it does to a state of keys that is the identity.
template <class T>
RowMatrix<T> transition_of(const Chunk& chunk, std::int64_t head, const Transitions<T>& transitions,
                           std::int64_t D, bool column) {
  RowMatrix<T> product(D, column ? 1 : D, column ? T{1} : T{0});
  if (!column)
    for (std::int64_t d = 0; d < D; ++d) product.row(d)[d] = T{1};
  for (std::int64_t row = chunk.row; row < chunk.row + chunk.count; ++row)
    transitions.at(row, head).pass_keys(product);
  return product;
}

template <class T>
void own_states_by_tokens(const LinearState& call) {
  const ViewRows rows(call.rows), columns(call.columns);
  const std::int64_t D = call.rows.width;
  // Of keys, k is `rows`; without beta nobody reads it.
  const Transitions<T> transitions(*call.log_decay, call.beta, call.reverse && call.k ? *call.k : call.rows);
  const States<T> into(call.state, D), into_transition(call.transition, D);
  for (std::int64_t head = 0; head < call.rows.heads; ++head) {
    for (const Chunk& chunk : call.chunks.list) {
      RowMatrix<T> state(D, call.columns.width);
      for (std::int64_t t = 0; t < chunk.count; ++t) {
        const std::int64_t row = chunk.row + (call.reverse ? chunk.count - 1 - t : t);
        const Vector<T> a = load_row<T>(rows, row, head), b = load_row<T>(columns, row, head);
        if (call.reverse) {
          add_outer(state, T{1}, a, b);
          transitions.at(row, head).pass_queries(state);
        } else {
          advance(transitions.at(row, head), a, b, state);
        }
      }
      into.store(chunk.state, head, state);
      if (!into_transition.given()) continue;
      into_transition.store(chunk.state, head, transition_of(chunk, head, transitions, D, !call.beta));
    }
  }
}

}  // namespace

void local_by_tokens(const LinearLocal& call) {
  is_fp64(call.q) ? local<double>(call) : local<float>(call);
}

void local_backward_by_tokens(const LinearLocalBackward& call) {
  is_fp64(call.q) ? TokensBackward<double>(call).run() : TokensBackward<float>(call).run();
}

void state_by_tokens(const LinearState& call) {
  is_fp64(call.rows) ? own_states_by_tokens<double>(call) : own_states_by_tokens<float>(call);
}

}  // namespace cplab::kernels
