// Serial kernels and framework operations; see lasp_serial.hpp.
#include "algorithms/linear/lasp_serial.hpp"

namespace cplab {

using enum Operand;

void LaspSerial::add(Builder::Named from, Builder::Named state, Builder::Named into) const {
  into.mode = WriteMode::add;
  b.linear(linear_lane, OpKind::inter, {from, state}, {into}, {stretches_, ChunkWork::serial});
}

void LaspSerial::kernels(const LinearTensors& t, bool reverse, const Box& entered, const Box& leaving) {
  const Builder::OnChunks serially{stretches_, ChunkWork::serial};
  if (!reverse) {
    b.linear(linear_lane, OpKind::local, {{q, t.q}, {k, t.k}, {v, t.v}},
             {{out, t.out}, {final_state, leaving}}, serially);
    add({q, t.q}, {Operand::carry, entered}, {out, t.out});
  } else {
    b.linear(linear_lane, OpKind::local_backward, {{q, t.q}, {k, t.k}, {v, t.v}, {dout, t.dout}},
             {{dq, t.dq}, {dk, t.dk}, {dv, t.dv}, {final_state, leaving}}, serially);
    add({dout, t.dout}, {Operand::carry, carry_}, {dq, t.dq});
    add({v, t.v}, {dcarry, entered}, {dk, t.dk});
    add({k, t.k}, {dcarry, entered}, {dv, t.dv});
  }
  pass_on(entered, leaving, reverse);
}

}  // namespace cplab
