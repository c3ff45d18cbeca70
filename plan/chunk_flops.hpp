// How many floating-point operations the operations of linear attention ask for.
#pragma once

#include <cstdint>

#include "plan/plan.hpp"

namespace cplab {

// Tokens whose pairs are computed one by one; what is further apart goes through a state. Kernels choose
// blocks of their own: this is the work that is counted, as fla-org/flash-linear-attention and LASP cut it.
inline constexpr std::int64_t pair_block = 64;

// Of one operation, local to inter, of one rank whose form is good; all heads of its views. A product of a
// row with a state, or a row's share in one, is 2DE; a pair within a block 2(D+E) (backward 2(3D+2E)); a
// state that is decayed and added 2DE; a transition applied 2DDE (2DE where it has one column). Of a
// convolution two for each product of a number with a factor; there are none with tokens that are not there.
double chunk_flops(const RankPlan&, const Operation&);

}  // namespace cplab
