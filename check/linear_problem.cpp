// What operations of linear attention must have in common with the problem: its kind, sizes, heads and
// transition.
#include <algorithm>

#include "check/model.hpp"

namespace cplab::checking {
namespace {

class LinearTest {
 public:
  LinearTest(const Problem& problem, const RankModel& rank, const Operation& op)
      : problem_(problem), rank_(rank), op_(op) {}

  const char* test() const {
    if (op_.head_end > problem_.heads) return "names heads that the problem does not have";
    if (op_.kind == OpKind::combine) return combine();
    if (is_convolution(op_.kind)) return convolution();
    if (op_.kind == OpKind::local && op_.reverse) return "is reversed, which it cannot be";
    for (const Access& a : rank_.plan->reads(op_))
      if (const char* what = operand(a)) return what;
    for (const Access& a : rank_.plan->writes(op_))
      if (const char* what = operand(a)) return what;
    const bool decay = problem_.transition == Transition::decay;
    if ((op_.kind == OpKind::scan || op_.kind == OpKind::inter) && !decay)
      return "decays by a slope, which this problem's transition does not have";
    if (op_.kind == OpKind::scan || op_.kind == OpKind::inter) return numbers();
    const bool matrix = problem_.transition == Transition::matrix;
    if (has(Operand::log_decay) == decay)
      return decay ? "has a log_decay, which the problem does not have" : "lacks the problem's log_decay";
    if (has(Operand::beta) != matrix)
      return matrix ? "lacks the problem's beta" : "has a beta, which the problem does not have";
    return numbers();
  }

 private:
  bool has(Operand operand) const { return rank_.plan->find(op_, operand) != nullptr; }
  const Box& box(Operand operand) const { return rank_.boxes[rank_.plan->find(op_, operand)->view]; }

  const char* operand(const Access& a) const {
    const Box& box = rank_.boxes[a.view];
    if (box.rows > most_tokens) return "has more rows than can be counted exactly";
    switch (a.operand) {
      case Operand::q:
      case Operand::k:
      case Operand::dq:
      case Operand::dk: return box.width() == problem_.head_size ? nullptr : part_of_columns;
      case Operand::log_decay:
      case Operand::dlog_decay: return box.width() == problem_.gate_columns() ? nullptr : part_of_columns;
      case Operand::beta:
      case Operand::dbeta: return box.width() == 1 ? nullptr : part_of_columns;
      case Operand::transition: return transition(box);
      default: return box.width() == problem_.value_size ? nullptr : part_of_columns;
    }
  }
  const char* transition(const Box& box) const {
    const std::int64_t columns = problem_.transition == Transition::matrix ? problem_.head_size : 1;
    return box.width() == columns ? nullptr : "has a transition of another shape than the problem's";
  }

  // The rows of a scan's states are cut by their number.
  const char* numbers() const {
    const auto list = rank_.plan->chunks_of(op_);
    if (op_.kind == OpKind::scan || op_.kind == OpKind::state) {
      std::int32_t last = -1;
      for (const Chunk& c : list) last = std::max(last, c.state);
      const Box& states = box(has(Operand::dstate) ? Operand::dstate : Operand::state);
      if (op_.kind == OpKind::scan && last >= 0 &&
          states.rows != (std::int64_t{last} + 1) * problem_.head_size)
        return "has other states than its chunks name";
      if (op_.kind == OpKind::scan && has(Operand::dstate) != op_.reverse)
        return "goes through its states in the wrong direction";
    }
    return nullptr;
  }

  const char* convolution() const {
    if (!problem_.convolves()) return "convolves, which this problem does not ask for";
    const Box &rows = box(Operand::from),
              &factors = box(op_.kind == OpKind::convolve ? Operand::filter : Operand::dfilter);
    if (rows.rows > most_tokens) return "has more rows than can be counted exactly";
    return factors.width() == rows.width() * problem_.convolution
               ? nullptr
               : "has a filter of another width than the problem's";
  }

  const char* combine() const {
    if (!has(Operand::transition))
      return problem_.transition == Transition::decay
                 ? nullptr
                 : "decays by a slope, which this problem's transition does not have";
    const Box& t = box(Operand::transition);
    if (const char* what = transition(t)) return what;
    if (t.width() > 1 && t.rows != std::ssize(rank_.plan->chunks_of(op_)) * problem_.head_size)
      return "takes part of the rows of a transition that mixes them";
    return nullptr;
  }

  const Problem& problem_;
  const RankModel& rank_;
  const Operation& op_;
};

}  // namespace

const char* wrong_linear_problem(const Scenario& scenario) {
  const Problem& p = scenario.problem;
  if (p.attention != Attention::linear) return nullptr;
  if (!p.causal || p.window.left >= 0 || p.window.right > 0)
    return "linear attention is causal and has no window";
  if (p.kv_heads != p.heads) return "linear attention has a key head for every query head";
  if (p.slopes.size() != (p.transition == Transition::decay ? static_cast<std::size_t>(p.heads) : 0))
    return "there is not one slope for every head, or slopes beside other transitions";
  return nullptr;
}

const char* wrong_linear_operation(const Problem& problem, const RankModel& rank, const Operation& op) {
  const bool linear = problem.attention == Attention::linear;
  if (is_linear(op.kind))
    return linear ? LinearTest(problem, rank, op).test() : "is of linear attention, which the problem is not";
  const bool softmax = op.kind == OpKind::attend || op.kind == OpKind::attend_backward ||
                       op.kind == OpKind::row_dot || op.kind == OpKind::merge;
  return linear && softmax ? "is of softmax attention, which the problem is not" : nullptr;
}

}  // namespace cplab::checking
