// LASP with one kernel each way (OpenNLPLab/LASP, lasp_fuse.py): pairs, what entered, and what leaves. The
// kernel starts when the state has been received, cuts D and E in slices of 64, and updates the state in
// place: the backward's copy of it is made before.
#include "algorithms/linear/coupled.hpp"

namespace cplab {
namespace {

using enum Operand;

class Fuse final : public Coupled {
 public:
  using Coupled::Coupled;

 private:
  bool clones(bool reverse) const override { return !reverse; }

  void kernels(const LinearTensors& t, bool reverse, const Box& entered, const Box& leaving) override {
    const Builder::OnChunks sliced{stretches_, ChunkWork::sliced};
    if (!reverse)
      b.linear(linear_lane, OpKind::local, {{q, t.q}, {k, t.k}, {v, t.v}, {Operand::carry, entered}},
               {{out, t.out}, {final_state, leaving}}, sliced);
    else
      b.linear(linear_lane, OpKind::local_backward,
               {{q, t.q}, {k, t.k}, {v, t.v}, {dout, t.dout}, {Operand::carry, carry_}, {dcarry, entered}},
               {{dq, t.dq}, {dk, t.dk}, {dv, t.dv}, {final_state, leaving}}, sliced);
  }

  const std::vector<Chunk> stretches_ = s.chunks(INT64_MAX);
};

}  // namespace

Algorithm lasp_fuse_algorithm() {
  Algorithm a;
  a.name = "lasp_fuse";
  a.summary = "linear attention, a chain of ranks with one fused kernel each (LASP)";
  a.placements = {"contiguous", "stream"};
  a.options = {state_wire_option()};
  a.validate = [](const Scenario& s) { require_linear(s, {Transition::decay}); };
  a.build = run_linear_algorithm<Fuse>;
  return a;
}

}  // namespace cplab
