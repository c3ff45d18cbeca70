// What must not be rounded to the problem's dtype on its way; see check/contents.hpp.
#include "check/contents.hpp"

namespace cplab::checking {

// What a buffer of the nominal dtype may not hold. LSEs, deltas and max_logit are wide in every dtype. Gates,
// transitions and their gradients are so where nominal has fewer digits, and so are states that pass through
// transitions: no roundings are counted for them (cli/verify/linear_tolerance.hpp), as they are for states
// that decay by a slope.
bool Contents::kept_wide(Holds holds) const {
  const Problem& p = model_.plan->scenario.problem;
  const bool narrow = p.dtype == DType::bf16 || p.dtype == DType::fp16;
  switch (holds) {
    case Holds::lse:
    case Holds::delta:
    case Holds::max_logit: return true;
    case Holds::log_decay:
    case Holds::beta:
    case Holds::dlog_decay:
    case Holds::dbeta:
    case Holds::transition: return narrow;
    case Holds::state:
    case Holds::dstate: return narrow && p.transition != Transition::decay;
    default: return false;
  }
}

}  // namespace cplab::checking
