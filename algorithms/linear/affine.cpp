// The two passes of affine linear attention; see affine.hpp.
#include "algorithms/linear/affine.hpp"

namespace cplab {
namespace {

using enum Operand;

class Affine final : public LinearAlgorithm {
 public:
  Affine(const LinearScope& scope, const AffineChoices& choices) : s(scope), choices_(choices) {}

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
  // What the scan over ranks brings.
  void enter(const LinearTensors& t, bool reverse, Box& entered) {
    if (s.P() == 1 || s.stretches.states() == 0) return;
    StateScan scan(s, reverse);
    AffineMap map;
    if (choices_.every_rank || s.leaves(reverse))
      map.state = slots(reverse ? "dstates" : "states", s.problem().value_size, Category::working);
    if (!reverse && (asks(scan) || (b.backward() && asks(StateScan(s, true))))) {
      const std::int64_t columns = s.problem().transition == Transition::matrix ? s.problem().head_size : 1;
      transitions_ = slots("transitions", columns, b.between_layers() ? Category::saved : Category::working);
    }
    map.transition = transitions_;
    const int slot = choices_.every_rank ? s.place() : 0;
    if (map.state.given())
      own(t, reverse, map.state.slot(slot), transitions_.given() ? transitions_.slot(slot) : Box());
    if (s.enters(reverse)) entered = s.carry(reverse);
    choices_.scan(s, scan, map, entered);
  }
  bool asks(const StateScan& scan) const {
    return !choices_.asks_transition || choices_.asks_transition(s, scan);
  }

  // This rank's share: the stretches that leave it, from zero.
  void own(const LinearTensors& t, bool reverse, const Box& into, const Box& passed) {
    std::vector<Chunk> leaving;
    for (Chunk c : all_) {
      c.state = reverse ? c.left : c.right;
      if (c.state >= 0) leaving.push_back(c);
    }
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
    BufferSpec spec{name, Role::wide, category, choices_.every_rank ? s.P() : 1,
                    s.stretches.states() * s.problem().head_size};
    spec.heads = s.scope.heads().count();
    spec.first_head = s.scope.heads().begin;
    spec.width = columns;
    return b.buffer(spec);
  }

  const LinearScope& s;
  const AffineChoices& choices_;
  Builder& b = s.b;
  const std::vector<Chunk> all_ = s.chunks(INT64_MAX);
  Box transitions_, carry_, dcarry_;
};

}  // namespace

std::unique_ptr<LinearAlgorithm> affine(const LinearScope& scope, const AffineChoices& choices) {
  return std::make_unique<Affine>(scope, choices);
}

void run_affine(Builder& b, const AffineChoices& choices) {
  const LinearScope scope(b);
  Affine algorithm(scope, choices);
  run_linear(scope.scope, algorithm);
}

void validate_affine(const Scenario& s) {
  require_linear(s, {Transition::head, Transition::column, Transition::matrix});
}

}  // namespace cplab
