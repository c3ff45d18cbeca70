// Receive, compute, send; see coupled.hpp.
#include "algorithms/linear/coupled.hpp"

namespace cplab {

void Coupled::pass(const LinearTensors& t, bool reverse) {
  if (s.stretches.states() == 0) return without_tokens(t, reverse);
  StateScan scan(s, reverse, linear_lane);
  const int i = scan.index();
  before_receive(reverse);
  Box& carry = reverse ? dcarry_ : carry_;
  carry = s.carry(reverse);
  const Box entered = clones(reverse) ? s.states("entered", s.stretches.states()) : carry;
  if (scan.needed(i - 1))
    scan.hop(i - 1, {}, entered);
  else
    b.fill(linear_lane, entered, 0);
  if (clones(reverse)) b.copy(linear_lane, entered, carry);
  const Box leaving =
      scan.needed(i) ? s.states(reverse ? "dleaving" : "leaving", s.stretches.states()) : Box();
  kernels(t, reverse, entered, leaving);
  scan.hop(i, leaving, {});
}

// A replica without sequences: outputs of no rows.
void Coupled::without_tokens(const LinearTensors& t, bool reverse) {
  using enum Operand;
  const std::vector<Chunk> none;
  if (reverse)
    b.linear(linear_lane, OpKind::local_backward, {{q, t.q}, {k, t.k}, {v, t.v}, {dout, t.dout}},
             {{dq, t.dq}, {dk, t.dk}, {dv, t.dv}}, {none});
  else
    b.linear(linear_lane, OpKind::local, {{q, t.q}, {k, t.k}, {v, t.v}}, {{out, t.out}}, {none});
}

void Coupled::pass_on(const Box& entered, const Box& leaving, bool reverse) const {
  if (!leaving.given()) return;
  const StateScan scan(s, reverse, linear_lane);
  scan.combine(entered, leaving, {scan.index(), scan.index()});
}

}  // namespace cplab
