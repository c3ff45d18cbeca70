// Linear attention in double; see linear_recurrence.hpp for the formulas.
#include "reference/linear_recurrence.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>

#include "reference/workers.hpp"

namespace cplab::reference {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstRow = Eigen::Map<const Eigen::VectorXd>;
using Row = Eigen::Map<Eigen::VectorXd>;

// What belongs to token t of one head, of a tensor [S, heads, width].
struct HeadRows {
  std::int64_t heads, head;

  ConstRow operator()(std::span<const double> tensor, std::int64_t t, std::int64_t width) const {
    return {tensor.data() + (t * heads + head) * width, width};
  }
  Row operator()(std::vector<double>& tensor, std::int64_t t, std::int64_t width) const {
    return {tensor.data() + (t * heads + head) * width, width};
  }
};

// The recurrence of one head. A state is D x E.
class Head {
 public:
  Head(const LinearShape& shape, const LinearInputs& inputs, std::int64_t head,
       std::span<const std::int64_t> edges, LinearResult& result)
      : shape_(shape), inputs_(inputs), row_{shape.H, head}, edges_(edges), result_(result) {
    if (decays()) lambda_ = std::exp(-inputs.slopes[static_cast<std::size_t>(head)]);
  }

  // out, dq and the states of keys; keeps a state now and then where the way back needs them.
  void forward() {
    Matrix state = Matrix::Zero(shape_.D, shape_.E);
    for (std::int64_t t = 0; t < shape_.S; ++t) {
      if (keeps_states() && t % stride() == 0) kept_.push_back(state);
      keep_at_edge(t, lambda_, state, result_.key_states);
      advance(t, state);
      row_(result_.out, t, shape_.E).noalias() = state.transpose() * row_(inputs_.q, t, shape_.D);
      if (has_backward()) row_(result_.dq, t, shape_.D).noalias() = state * row_(inputs_.dout, t, shape_.E);
    }
    keep_at_edge(shape_.S, lambda_, state, result_.key_states);
  }

  // dk, dv, dlog_decay, dbeta and the states of queries.
  void backward() {
    Matrix m = Matrix::Zero(shape_.D, shape_.E);  // dL / d(the state that token t leaves), from later tokens
    keep_at_edge(shape_.S, 1, m, result_.query_states);
    for (std::int64_t t = shape_.S - 1; t >= 0; --t) {
      if (decays()) m *= lambda_;
      m.noalias() += row_(inputs_.q, t, shape_.D) * row_(inputs_.dout, t, shape_.E).transpose();
      if (decays()) {
        row_(result_.dk, t, shape_.D).noalias() = m * row_(inputs_.v, t, shape_.E);
        row_(result_.dv, t, shape_.E).noalias() = m.transpose() * row_(inputs_.k, t, shape_.D);
      } else {
        differentiate(t, factors(t).asDiagonal() * state_before(t), m);
      }
      keep_at_edge(t, 1, m, result_.query_states);
    }
  }

 private:
  bool decays() const { return shape_.transition == Transition::decay; }
  bool has_beta() const { return shape_.transition == Transition::matrix; }
  bool has_backward() const { return !inputs_.dout.empty(); }
  bool keeps_states() const { return has_backward() && !decays(); }

  // Tokens between two kept states: as many as there are kept states.
  std::int64_t stride() const {
    return std::max<std::int64_t>(1, std::llround(std::sqrt(static_cast<double>(shape_.S))));
  }

  double beta(std::int64_t t) const { return row_(inputs_.beta, t, 1)(0); }
  Eigen::VectorXd factors(std::int64_t t) const {
    const ConstRow gates = row_(inputs_.log_decay, t, shape_.gates());
    if (shape_.gate == Gate::column) return gates.array().exp().matrix();
    return Eigen::VectorXd::Constant(shape_.D, gates(0)).array().exp().matrix();
  }

  // From S_{t-1} to S_t.
  void advance(std::int64_t t, Matrix& state) const {
    const ConstRow k = row_(inputs_.k, t, shape_.D);
    const ConstRow v = row_(inputs_.v, t, shape_.E);
    if (decays())
      state *= lambda_;
    else
      state.array().colwise() *= factors(t).array();
    if (!has_beta()) {
      state.noalias() += k * v.transpose();
      return;
    }
    const Eigen::VectorXd u = v - state.transpose() * k;
    state.noalias() += beta(t) * k * u.transpose();
  }

  // Gradients of token t from x = diag(exp g_t) S_{t-1} and m = dL/dS_t, which becomes dL/dS_{t-1}.
  void differentiate(std::int64_t t, const Matrix& x, Matrix& m) {
    const ConstRow k = row_(inputs_.k, t, shape_.D);
    const ConstRow v = row_(inputs_.v, t, shape_.E);
    const Eigen::VectorXd from_k = m.transpose() * k;
    if (has_beta()) {
      const Eigen::VectorXd u = v - x.transpose() * k;
      row_(result_.dk, t, shape_.D) = beta(t) * (m * u - x * from_k);
      row_(result_.dv, t, shape_.E) = beta(t) * from_k;
      row_(result_.dbeta, t, 1)(0) = from_k.dot(u);
      m.noalias() -= beta(t) * k * from_k.transpose();
    } else {
      row_(result_.dk, t, shape_.D).noalias() = m * v;
      row_(result_.dv, t, shape_.E) = from_k;
    }
    if (shape_.gate == Gate::head)
      row_(result_.dlog_decay, t, 1)(0) = m.cwiseProduct(x).sum();
    else
      row_(result_.dlog_decay, t, shape_.D) = m.cwiseProduct(x).rowwise().sum();
    m.array().colwise() *= factors(t).array();
  }

  // S_{t-1}. Asked from the last token to the first: the states of one stride are computed again at a time.
  const Matrix& state_before(std::int64_t t) {
    const std::int64_t first = t / stride() * stride();
    if (again_.empty() || again_first_ != first) {
      again_first_ = first;
      again_.assign(1, kept_[static_cast<std::size_t>(t / stride())]);
      for (std::int64_t next = first; next < t; ++next) {
        again_.push_back(again_.back());
        advance(next, again_.back());
      }
    }
    return again_[static_cast<std::size_t>(t - first)];
  }

  void keep_at_edge(std::int64_t p, double factor, const Matrix& state, std::vector<double>& into) const {
    for (std::size_t n = 0; n < edges_.size(); ++n) {
      if (edges_[n] != p) continue;
      const std::int64_t place = static_cast<std::int64_t>(n) * shape_.H + row_.head;
      Eigen::Map<Matrix>(into.data() + place * state.size(), shape_.D, shape_.E) = factor * state;
    }
  }

  const LinearShape& shape_;
  const LinearInputs& inputs_;
  HeadRows row_;
  std::span<const std::int64_t> edges_;
  LinearResult& result_;
  double lambda_ = 1;  // 1 too where there are other factors
  std::vector<Matrix> kept_;
  std::vector<Matrix> again_;
  std::int64_t again_first_ = 0;
};

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

void check(const LinearShape& shape, const LinearInputs& inputs, std::span<const std::int64_t> edges) {
  const auto [S, H, D, E, transition, gate] = shape;
  require(S >= 0 && H >= 1 && D >= 1 && E >= 1, "linear_recurrence: sizes must be positive");
  require(std::ssize(inputs.q) == S * H * D, "linear_recurrence: q is not [S,H,D]");
  require(std::ssize(inputs.k) == S * H * D, "linear_recurrence: k is not [S,H,D]");
  require(std::ssize(inputs.v) == S * H * E, "linear_recurrence: v is not [S,H,E]");
  require(inputs.dout.empty() || std::ssize(inputs.dout) == S * H * E,
          "linear_recurrence: dout is not [S,H,E]");
  const bool decays = transition == Transition::decay;
  require(std::ssize(inputs.slopes) == (decays ? H : 0),
          "linear_recurrence: slopes is not [H], or not the decay's");
  for (const double slope : inputs.slopes)
    require(std::isfinite(slope) && slope >= 0, "linear_recurrence: a slope is negative or not finite");
  require(!decays || gate == Gate::column, "linear_recurrence: a decay by slopes has no gates");
  require(std::ssize(inputs.log_decay) == (decays ? 0 : S * H * shape.gates()),
          "linear_recurrence: log_decay is not [S,H,gates], or is given with slopes");
  require(std::ssize(inputs.beta) == (transition == Transition::matrix ? S * H : 0),
          "linear_recurrence: beta is not [S,H], or not the matrix transition's");
  for (const std::int64_t p : edges)
    require(p >= 0 && p <= S, "linear_recurrence: an edge lies outside the sequence");
}

}  // namespace

LinearResult linear_recurrence(const LinearShape& shape, const LinearInputs& inputs,
                               std::span<const std::int64_t> edges,
                               const std::function<void(std::int64_t)>& after_head) {
  check(shape, inputs, edges);
  const auto [S, H, D, E, transition, gate] = shape;
  const auto zeros = [](std::int64_t count) { return std::vector<double>(static_cast<std::size_t>(count)); };
  LinearResult result;
  result.out = zeros(S * H * E);
  result.key_states = zeros(std::ssize(edges) * H * D * E);
  const bool backward = !inputs.dout.empty();
  if (backward) {
    result.dq = zeros(S * H * D);
    result.dk = zeros(S * H * D);
    result.dv = zeros(S * H * E);
    if (transition != Transition::decay) result.dlog_decay = zeros(S * H * shape.gates());
    if (transition == Transition::matrix) result.dbeta = zeros(S * H);
    result.query_states = zeros(std::ssize(edges) * H * D * E);
  }
  for_each_unit(
      H,
      [&](std::int64_t h, int) {
        Head head(shape, inputs, h, edges, result);
        head.forward();
        if (backward) head.backward();
      },
      after_head);
  return result;
}

}  // namespace cplab::reference
