// What the algorithms for linear attention have in common: the tensors of the problem, the stretches of
// sequences that a rank holds, states and their options. What states, edges and chunks are:
// kernels/linear.hpp.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "algorithms/core/builder.hpp"
#include "algorithms/core/options.hpp"
#include "algorithms/core/scope.hpp"
#include "algorithms/linear/stretches.hpp"

namespace cplab {

inline constexpr Lane linear_lane{LaneKind::compute, 0};
inline constexpr Lane state_lane{LaneKind::comm, 0};

// Buffers of the scope's rows and heads. kv and dkv: K in front, V behind (Scope::kv_buffer); k, v, dk and dv
// are their columns.
struct LinearTensors {
  // Of convolutions (Problem::convolution), which WithConvolution alone reads.
  struct Filters {
    Box q, k, v;
  };
  Box q, kv, k, v, out, log_decay, beta;
  Box dout, dq, dkv, dk, dv, dlog_decay, dbeta;  // given in the backward
  Filters filters, dfilters;
  void take_kv(const Builder& b, const Box& both) { kv = both, k = keys(b, kv), v = values(b, kv); }
  void take_dkv(const Builder& b, const Box& both) { dkv = both, dk = keys(b, dkv), dv = values(b, dkv); }
};

// Where an algorithm runs, seen by one rank: the whole group of a linear problem, or what an outer algorithm
// leaves to an inner one.
class LinearScope {
 public:
  explicit LinearScope(Builder&);  // the whole group
  // Of a scope whose members hold consecutive tokens of every sequence, the earlier ones at earlier places.
  explicit LinearScope(const Scope&);

  Builder& b;
  const Scope scope;
  const Stretches stretches;
  const TransportChoice transport;

  const Problem& problem() const { return b.problem(); }
  const Schedule& options() const { return b.scenario().schedule; }
  const Team& team() const { return scope.team; }
  int P() const { return scope.P(); }
  int place() const { return scope.place(); }
  std::vector<Chunk> chunks(std::int64_t rows) const { return stretches.chunks(place(), rows); }
  // States [rows = count D, H, columns], E columns unless said. `saved`: crosses to the backward.
  Box states(std::string_view name, std::int64_t count, Category category = Category::working,
             Role role = Role::wide, std::int64_t columns = 0) const;
  Box saved_states(std::string_view name, std::int64_t count) const;
  // What enters this rank, from the left or (reverse) from the right: of the whole group an output, which
  // verify compares.
  Box carry(bool reverse) const;
  // Some state enters this rank (leaves it for another).
  bool enters(bool reverse) const;
  bool leaves(bool reverse) const;

 private:
  const bool whole_group_;
};

class LinearAlgorithm {
 public:
  virtual ~LinearAlgorithm() = default;
  virtual void forward(const LinearTensors&) = 0;
  virtual void backward(const LinearTensors&) = 0;
  virtual Lane comm() const { return state_lane; }  // of its messages
  // The backward reads what the forward was given, not what it has made of that.
  virtual bool rereads() const { return true; }
};

// Declares the tensors of the problem, of all heads and this rank's rows, and runs the algorithm over them,
// with the convolutions that the problem has before Q, K and V.
void run_linear(const Scope& whole, LinearAlgorithm&);

template <class Whole>
void run_linear_algorithm(Builder& b) {
  const LinearScope scope(b);
  Whole algorithm(scope);
  run_linear(scope.scope, algorithm);
}

// Throws ScenarioError for other kinds of attention, or for other transitions than these.
void require_linear(const Scenario&, std::initializer_list<Transition> transitions);

// "fp32" or "nominal": the dtype of states on their way.
OptionInfo state_wire_option();

}  // namespace cplab
