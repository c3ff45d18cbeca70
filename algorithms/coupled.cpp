// Receive, compute, send; see coupled.hpp.
#include "algorithms/coupled.hpp"

namespace cplab {

void Coupled::pass(const LinearTensors& t, bool reverse) {
  if (s.pieces.states() == 0) return;  // a replica without sequences
  StateScan scan(s, reverse, linear_lane);
  const int i = scan.index();
  before_receive(reverse);
  Box& carry = reverse ? dcarry_ : carry_;
  carry = s.carry(reverse);
  const Box entered = clones(reverse) ? s.states("entered", s.pieces.states()) : carry;
  if (scan.needed(i - 1))
    scan.hop(i - 1, {}, entered);
  else
    b.fill(linear_lane, entered, 0);
  if (clones(reverse)) b.copy(linear_lane, entered, carry);
  const Box leaving = scan.needed(i) ? s.states(reverse ? "dleaving" : "leaving", s.pieces.states()) : Box();
  kernels(t, reverse, entered, leaving);
  scan.hop(i, leaving, {});
}

void Coupled::pass_on(const Box& entered, const Box& leaving, bool reverse) const {
  if (!leaving.given()) return;
  const StateScan scan(s, reverse, linear_lane);
  scan.combine(entered, leaving, {scan.index(), scan.index()});
}

}  // namespace cplab
