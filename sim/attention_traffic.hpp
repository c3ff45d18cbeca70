// What an operation of attention moves through memory. Internal to sim/.
#pragma once

#include "plan/plan.hpp"

namespace cplab {

// How often each byte of what attention reads and of what it writes is moved.
struct Moves {
  int read = 1, written = 1;
};

// Bytes of the rows that its segments name, each operand so often: q, k, v and out (in the backward q, out,
// dout, k, v and the three gradients), all in the problem's dtype.
double attention_bytes(const Plan&, const RankPlan&, const Operation&, const Moves&, bool out_of_backward);

// What an operation moves at least: each operand once, and in the backward not out, of which delta may be
// there.
double attention_bytes(const Plan&, const RankPlan&, const Operation&);

}  // namespace cplab
