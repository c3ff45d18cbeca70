// The gather and the folds of affine states; see affine.hpp.
#include "algorithms/affine.hpp"

#include "algorithms/state_scan.hpp"

namespace cplab {
namespace {

using enum Operand;

class Affine final : public LinearAlgorithm {
 public:
  explicit Affine(const LinearScope& scope) : s(scope) {}

  void forward(const LinearTensors& t) override {
    enter(t, false, carry_);
    b.linear(linear_lane, OpKind::local,
             {{q, t.q}, {k, t.k}, {v, t.v}, {log_decay, t.log_decay}, {beta, t.beta}, {carry, carry_}},
             {{out, t.out}}, {all_});
  }

  void backward(const LinearTensors& t) override {
    enter(t, true, dcarry_);
    b.linear(linear_lane, OpKind::local_backward,
             {{q, t.q},
              {k, t.k},
              {v, t.v},
              {dout, t.dout},
              {log_decay, t.log_decay},
              {beta, t.beta},
              {carry, carry_},
              {dcarry, dcarry_}},
             {{dq, t.dq}, {dk, t.dk}, {dv, t.dv}, {dlog_decay, t.dlog_decay}, {dbeta, t.dbeta}}, {all_});
  }

 private:
  // The states of all ranks, folded in the scan's order up to this one.
  void enter(const LinearTensors& t, bool reverse, Box& entered) {
    if (s.P() == 1 || s.pieces.states() == 0) return;
    const StateScan scan(s, reverse);
    const Box states = slots(reverse ? "dstates" : "states", s.problem().value_size, Category::working);
    if (!reverse) {
      const std::int64_t columns = s.problem().transition == Transition::matrix ? s.problem().head_size : 1;
      transitions_ = slots("transitions", columns, b.between_layers() ? Category::saved : Category::working);
    }
    own(t, reverse, states.slot(s.place()));
    gather(states);
    if (!reverse) gather(transitions_);
    if (!s.enters(reverse)) return;
    for (int i = 1; i < scan.index(); ++i) {
      const int place = scan.place_of(i);
      scan.combine(states.slot(scan.place_of(i - 1)), states.slot(place), {i, i}, transitions_.slot(place));
    }
    entered = s.carry(reverse);
    b.copy(linear_lane, states.slot(scan.place_of(scan.index() - 1)), entered);
  }

  // This rank's share: the pieces that leave it, from zero.
  void own(const LinearTensors& t, bool reverse, const Box& into) {
    std::vector<Chunk> leaving;
    for (Chunk c : all_) {
      c.state = reverse ? c.left : c.right;
      if (c.state >= 0) leaving.push_back(c);
    }
    const Box passed = transitions_.slot(s.place());
    if (leaving.empty()) {
      b.fill(linear_lane, into, 0);
      if (!reverse) b.fill(linear_lane, passed, 0);
    } else if (reverse) {
      const Box keys = t.beta.given() ? t.k : Box();
      b.linear(linear_lane, OpKind::state,
               {{q, t.q}, {dout, t.dout}, {k, keys}, {log_decay, t.log_decay}, {beta, t.beta}},
               {{dstate, into}}, {leaving, ChunkWork::blocked, true});
    } else {
      b.linear(linear_lane, OpKind::state, {{k, t.k}, {v, t.v}, {log_decay, t.log_decay}, {beta, t.beta}},
               {{state, into}, {transition, passed}}, {leaving});
    }
  }

  Box slots(std::string_view name, std::int64_t columns, Category category) const {
    BufferSpec spec{name, Role::wide, category, s.P(), s.pieces.states() * s.problem().head_size};
    spec.heads = s.problem().heads;
    spec.width = columns;
    return b.buffer(spec);
  }
  void gather(const Box& all) const {
    std::vector<Box> into;
    for (int place = 0; place < s.P(); ++place) into.push_back(all.slot(place));
    b.all_gather(state_lane, s.transport, b.everyone(), all.slot(s.place()), into);
  }

  const LinearScope& s;
  Builder& b = s.b;
  const std::vector<Chunk> all_ = s.chunks(INT64_MAX);
  Box transitions_, carry_, dcarry_;
};

}  // namespace

void run_affine_gather(Builder& b) {
  run_linear_algorithm<Affine>(b);
}

}  // namespace cplab
