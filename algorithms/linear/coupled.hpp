// LASP as published: a rank first receives what enters, on the stream that computes, then runs its kernels
// over tokens, then sends what leaves. P kernels and P - 1 messages follow each other. One class; an
// algorithm adds its kernels.
#pragma once

#include "algorithms/linear/linear.hpp"
#include "algorithms/linear/state_scan.hpp"

namespace cplab {

class Coupled : public LinearAlgorithm {
 public:
  explicit Coupled(const LinearScope& scope) : s(scope) {}
  void forward(const LinearTensors& t) final { pass(t, false); }
  void backward(const LinearTensors& t) final { pass(t, true); }
  Lane comm() const final { return linear_lane; }

 protected:
  // What the rank's kernels do with what entered (zero where nothing did), in the forward or in the backward;
  // `leaving` (not given where no rank waits for it) takes what leaves. carry_ and dcarry_ are what entered.
  virtual void kernels(const LinearTensors&, bool reverse, const Box& entered, const Box& leaving) = 0;
  virtual void before_receive(bool /*reverse*/) {}
  // The kernels update what entered in place: what the backward needs of it is a copy.
  virtual bool clones(bool /*reverse*/) const { return false; }

  // leaving += what entered, decayed by the rank's tokens.
  void pass_on(const Box& entered, const Box& leaving, bool reverse) const;

  const LinearScope& s;
  Builder& b = s.b;
  Box carry_, dcarry_;

 private:
  void without_tokens(const LinearTensors&, bool reverse);
  void pass(const LinearTensors&, bool reverse);
};

}  // namespace cplab
