// What must not be rounded to the problem's dtype on its way; see check/contents.hpp.
#include "check/contents.hpp"

namespace cplab::checking {

// Nominal has fewer digits than sums have.
bool Contents::narrow() const {
  const DType dtype = model_.plan->scenario.problem.dtype;
  return dtype == DType::bf16 || dtype == DType::fp16;
}

// What a buffer of the nominal dtype may not hold. LSEs, deltas and max_logit are wide in every dtype. Gates,
// transitions and their gradients are so where nominal has fewer digits, and so are states that pass through
// transitions: no roundings are counted for them (cli/verify/linear_tolerance.hpp), as they are for states
// that decay by a slope.
bool Contents::kept_wide(Holds holds) const {
  const Problem& p = model_.plan->scenario.problem;
  switch (holds) {
    case Holds::lse:
    case Holds::delta:
    case Holds::max_logit: return true;
    case Holds::log_decay:
    case Holds::beta:
    case Holds::dlog_decay:
    case Holds::dbeta:
    case Holds::transition: return narrow();
    case Holds::state:
    case Holds::dstate: return narrow() && p.transition != Transition::decay;
    default: return false;
  }
}

// dbias of keys is summed over the ranks as dk and dv are, in a column beside theirs, and roundings are
// counted for the three together (cli/verify/roundings.hpp): one that it alone goes through would not be. A
// bias of pairs has one contribution to each number, which rounding again leaves as it is.
bool Contents::rounds_bias_alone(Site s, const Box& box, Holds holds) const {
  if (holds != Holds::dbias || !of_keys(holds) || !narrow() || box.width() > 1) return false;
  const RankPlan& plan = *model_.ranks[s.rank].plan;
  const Operation& op = plan.operations[s.operation];
  const auto is_nominal = [&](Operand operand) {
    const Access* access = plan.find(op, operand);
    return access && plan.buffers[plan.views[access->view].buffer].role == Role::nominal;
  };
  switch (op.kind) {
    case OpKind::attend_backward: return !is_nominal(Operand::dk) && !plan.find(op, Operand::rounded_dk);
    case OpKind::copy:
    case OpKind::cast: return !is_nominal(Operand::from);
    case OpKind::fill:
    case OpKind::exchange:
    case OpKind::all_gather:
    case OpKind::all_to_all: return false;  // the bits that were sent
    default: return true;                   // sums
  }
}

}  // namespace cplab::checking
