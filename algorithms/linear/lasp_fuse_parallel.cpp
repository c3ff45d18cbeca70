// LASP with four kernels each way (OpenNLPLab/LASP, lasp_fuse_parallel.py): diagonal blocks, block states,
// their scan in the rank, off-diagonal blocks with what entered. The first three do not need what enters, but
// are issued behind the receive, as in the source, which also has a barrier before it.
#include <algorithm>

#include "algorithms/linear/coupled.hpp"

namespace cplab {
namespace {

using enum Operand;

class FuseParallel final : public Coupled {
 public:
  using Coupled::Coupled;

 private:
  void before_receive(bool reverse) override {
    if (!reverse && s.P() > 1) b.barrier(linear_lane, s.transport, b.everyone());
  }

  void kernels(const LinearTensors& t, bool reverse, const Box& entered, const Box& leaving) override {
    const auto count = std::ssize(blocks_);
    const Box states = reverse ? s.states("dstate", count) : s.saved_states("state", count);
    const Operand name = reverse ? dstate : Operand::state;
    const Builder::OnChunks on{blocks_, ChunkWork::blocked, reverse};
    const bool empty = blocks_.empty();  // a rank of padding alone: rows of zero
    if (!reverse) {
      state_ = states;
      b.linear(linear_lane, OpKind::local, {{q, t.q}, {k, t.k}, {v, t.v}}, {{out, t.out}}, on);
      if (!empty) b.linear(linear_lane, OpKind::state, {{k, t.k}, {v, t.v}}, {{name, states}}, on);
    } else {
      b.linear(linear_lane, OpKind::local_backward, {{q, t.q}, {k, t.k}, {v, t.v}, {dout, t.dout}},
               {{dq, t.dq}, {dk, t.dk}, {dv, t.dv}}, on);
      if (!empty) b.linear(linear_lane, OpKind::state, {{q, t.q}, {dout, t.dout}}, {{name, states}}, on);
    }
    if (empty) return;
    b.linear(linear_lane, OpKind::scan, {}, {{name, states, WriteMode::add}, {final_state, leaving}}, on);
    if (!reverse)
      b.linear(linear_lane, OpKind::inter, {{q, t.q}, {name, states}, {Operand::carry, entered}},
               {{out, t.out, WriteMode::add}}, on);
    else
      b.linear(linear_lane, OpKind::inter,
               {{k, t.k},
                {v, t.v},
                {dout, t.dout},
                {Operand::state, state_},
                {Operand::carry, carry_},
                {dstate, states},
                {dcarry, entered}},
               {{dq, t.dq, WriteMode::add}, {dk, t.dk, WriteMode::add}, {dv, t.dv, WriteMode::add}}, on);
    pass_on(entered, leaving, reverse);
  }

  // The source's blocks: 256 tokens, or all of them where there are 128 or fewer.
  static std::int64_t block(std::int64_t tokens) {
    return tokens > 128 ? 256 : std::max<std::int64_t>(tokens, 1);
  }

  const std::vector<Chunk> blocks_ = s.chunks(block(s.stretches.longest()));
  Box state_;
};

}  // namespace

Algorithm lasp_fuse_parallel_algorithm() {
  Algorithm a;
  a.name = "lasp_fuse_parallel";
  a.summary = "linear attention, a chain of ranks with kernels over blocks (LASP)";
  a.placements = {"contiguous", "stream"};
  a.options = {state_wire_option()};
  a.validate = [](const Scenario& s) { require_linear(s, {Transition::decay}); };
  a.build = run_linear_algorithm<FuseParallel>;
  return a;
}

}  // namespace cplab
