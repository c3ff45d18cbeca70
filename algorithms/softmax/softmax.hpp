// What softmax algorithms are: forward and backward over a scope. The whole group's inputs and outputs are
// declared in one place; an outer algorithm hands its inner one buffers of its own.
#pragma once

#include "algorithms/core/algorithm.hpp"
#include "algorithms/core/builder.hpp"
#include "algorithms/core/scope.hpp"
#include "algorithms/softmax/latents.hpp"
#include "algorithms/softmax/max_logit.hpp"

namespace cplab {

// Buffers of the scope's rows and heads. kv: K in front, V behind (Scope::kv_buffer); an algorithm that
// projects() is given latents instead.
struct Forward {
  Box q, kv, out, lse;
  MaxLogit* max_logit = nullptr;  // of all heads
  Box bias = {}, keep = {};       // where they are of pairs: [rows, heads, columns]
  Box sink = {}, table = {};      // parameters, of all query heads of the problem
  Latents latents = {};
};
// delta = rowsum(dout * out), as lse. Where `out` is given it has yet to be computed from it: an algorithm's
// backward begins with delta_by_first_tile(). Where `rounded_dq` is given, each tile stores its rows of dq
// there too, rounded.
struct Backward {
  Box q, kv, lse, dout, delta, dq, dkv;
  Box bias = {}, keep = {}, dbias = {};
  Box table = {}, dtable = {};
  Box out = {}, rounded_dq = {};
  Latents latents = {};
  LatentGradients dlatents = {};
};

inline PairBoxes pairs_of(const Backward& g) {
  return {g.bias, g.keep, g.dbias, WriteMode::store, g.table, g.dtable};
}

// The lane of everything that computes, unless an algorithm has more of them; and of communication.
inline constexpr Lane compute_lane{LaneKind::compute, 0};
inline constexpr Lane comm_lane{LaneKind::comm, 0};

class SoftmaxAlgorithm {
 public:
  virtual ~SoftmaxAlgorithm() = default;
  virtual void forward(const Forward&) = 0;
  virtual void backward(const Backward&) = 0;
  // The lane of its communication, for what is added at its end.
  virtual Lane comm() const { return comm_lane; }
  // The backward reads the K and V that the forward was given, not what the forward made of them.
  virtual bool rereads_kv() const { return true; }
  // K and V come from latents where the algorithm says so: it is given no kv and no dkv.
  virtual bool projects() const { return false; }
  // Every row of dq, with all heads, is stored by one tile of the backward, on compute_lane: none adds to it.
  virtual bool stores_dq_once() const { return false; }
};

// Computes delta before the first operation of a backward, unless it is there. Where that operation will be
// a tile on compute_lane with all queries and all their heads, which stores dq (`first_has_all`), and
// schedule.row_dot leaves it to tiles, nothing is emitted: the box that is returned is what this tile
// computes delta from (Builder::AttendBackward::out). A kernel that sets dq to 0 computes delta beside that.
Box delta_by_first_tile(Builder&, const Backward&, bool first_has_all);

// Around an algorithm: its dq is fp32 where schedule.accumulator asks for that and it is another dtype, and
// is rounded at the end. Sums of many tiles keep their digits, and the fast backward kernels of GPUs add to
// an fp32 dq.
class WithQuerySum final : public SoftmaxAlgorithm {
 public:
  WithQuerySum(const Scope& scope, SoftmaxAlgorithm& inner) : s_(scope), inner_(inner) {}
  void forward(const Forward& f) override { inner_.forward(f); }
  void backward(const Backward&) override;
  Lane comm() const override { return inner_.comm(); }
  bool rereads_kv() const override { return inner_.rereads_kv(); }
  bool projects() const override { return inner_.projects(); }
  bool stores_dq_once() const override { return inner_.stores_dq_once(); }

 private:
  const Scope& s_;
  SoftmaxAlgorithm& inner_;
};

// Around an algorithm that knows no latents: K and V of this rank's rows are made of them before it, and what
// comes home of their gradients goes through the weights behind it.
class WithProjection final : public SoftmaxAlgorithm {
 public:
  WithProjection(const Scope& scope, SoftmaxAlgorithm& inner) : s_(scope), inner_(inner) {}
  void forward(const Forward&) override;
  void backward(const Backward&) override;
  Lane comm() const override { return inner_.comm(); }
  bool projects() const override { return true; }
  bool stores_dq_once() const override { return inner_.stores_dq_once(); }

 private:
  Box projected(const Latents&, std::string_view name) const;

  const Scope& s_;
  SoftmaxAlgorithm& inner_;
  Box kv_;
};

// The scope's rows of queries that are no padding, whose gradients may be anything.
Rows rows_of_tokens(const Scope&);

// Declares the tensors of the problem, of all heads and this rank's rows, and runs the algorithm over them.
void run_whole(const Scope& whole, SoftmaxAlgorithm&);
// The same, its dq summed as schedule.accumulator asks.
inline void run_summed(const Scope& whole, SoftmaxAlgorithm& algorithm) {
  WithQuerySum with_sum(whole, algorithm);
  run_whole(whole, with_sum);
}

// Algorithm::build of one that is made from a scope alone.
template <class Whole>
void run_over_whole_group(Builder& b) {
  const Scope whole(b);
  Whole algorithm(whole);
  run_summed(whole, algorithm);
}

// Which of latents and what they are projected to goes from rank to rank, of algorithms that know both.
OptionInfo travels_option();

// Throws ScenarioError for kinds of attention that the scenario's algorithm does not compute.
void require_softmax(const Scenario&);

}  // namespace cplab
