// Random problems of linear attention: one sequence, of which a rank holds a piece, cut in chunks of any
// length at any rows; with the exact result and how far tiles may be from it. For every device's tests.
//
// Tolerances of a decay: a term of a result is a product of inputs and one power; majorants are the same sums
// of magnitudes. On its way it is rounded by the dtype of q at most three times (P or dS; or a row scaled by
// its power, and the state), by the sums n = D + E + 2 * 64 + 4 (blocks + chunks) + 32 times, u each (the
// power is one rounding of exp; a state is stored once per chunk and passes all blocks and chunks behind it).
// Sliced: the parts are rounded to the dtype of out, r_out of the sum of their magnitudes, which is at most
// the majorant. At the end r_out of the result. Second order: everything times 1 + 8 r. fp16 and bf16 lose at
// most 2^-25 of a scaled row, a P or a dS: a floor of tokens * max(D, E) * 2^-24.
//
// Transitions: beta k^T k has norm at most 1, so no step amplifies an error, and each adds at most
// (2 D + 2 E + 16) u of (1 + s)(1 + m), where s and m are the largest norms of a state of keys and of
// queries. A result multiplies it by at most 2 (1 + |row|): 8 S (2 D + 2 E + 16) u (1 + s)(1 + m)(1 + |row|)
// in all.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/linear.hpp"
#include "reference/linear_recurrence.hpp"
#include "tests/kernels/oracle.hpp"
#include "tests/kernels/random_tile.hpp"
#include "tests/kernels/tensor.hpp"

namespace cplab::testing {

using kernels::Chunk;
using kernels::Chunks;
using kernels::ChunkWork;
using reference::Gate;
using reference::Transition;

struct TransitionKind {
  Transition transition;
  Gate gate = Gate::column;
};
inline constexpr TransitionKind all_transitions[] = {{Transition::decay},
                                                     {Transition::column},
                                                     {Transition::column, Gate::head},
                                                     {Transition::matrix},
                                                     {Transition::matrix, Gate::head}};

struct LinearCase {
  reference::LinearShape shape;  // of the whole sequence
  DType nominal = DType::fp64;
  std::int64_t begin = 0, end = 0;  // the tokens of the rank
  // They have states 0, 1, ... and name 0 at both edges, as far as the sequence goes on there.
  std::vector<Chunk> chunks;
  std::int64_t rows = 0;  // of the rank's tensors: up to 3 unused ones before every chunk and at the end

  std::vector<double> slopes, q, k, v, dout, log_decay, beta;  // of the whole sequence
  // States at the left edge of chunk c at [c,H,D,E], and at the right edge of the last one behind them.
  reference::LinearResult exact, majorant;  // majorant: of a decay

  bool decays() const { return shape.transition == Transition::decay; }
  std::int64_t count() const { return std::ssize(chunks); }
  Chunks with(ChunkWork work = ChunkWork::blocked) const { return {chunks, slopes, work}; }

  // The rank's part of a tensor of the whole sequence, in a random layout; rows in no chunk are NaN.
  Tensor tokens(std::mt19937& generator, DType dtype, const std::vector<double>& values) const;
  // The rank's tensor for a result, all NaN.
  Tensor result(std::mt19937& generator, DType dtype, std::int64_t width) const;
  // What the rank's tensor holds, and what it should: [tokens of the rank, H, width].
  std::vector<double> read(const Tensor& tensor) const;
  std::vector<double> expected(const std::vector<double>& values) const;

  Tolerance tolerance(DType out, ChunkWork work = ChunkWork::blocked) const;
  // Of the rank's tensor `computed` against the tensor of the whole sequence.
  double share(const Tensor& computed, const std::vector<double>& exact_values,
               const std::vector<double>& majorant_values, ChunkWork work = ChunkWork::blocked) const;

  // Room for states in a random layout, all NaN. Of width E, or another.
  Tensor states(std::mt19937& generator, DType dtype, std::int64_t count, std::int64_t width = 0) const;
  // State number `state` of a tensor from, or against, state `at` of [n,H,D,E].
  void set_state(Tensor& tensor, std::int64_t state, const std::vector<double>& values,
                 std::int64_t at) const;
  double state_share(const Tensor& tensor, std::int64_t state, const std::vector<double>& exact_values,
                     const std::vector<double>& majorant_values, std::int64_t at) const;
};

// `before` and `after` tokens of the sequence lie outside the rank. Inputs are uniform in [-1, 1] and of
// dtype `nominal`; with matrix, keys have norm at most 1.
LinearCase linear_case(std::mt19937& generator, const reference::LinearShape& sizes,
                       const std::vector<double>& slopes, DType nominal, std::int64_t before,
                       const std::vector<std::int64_t>& lengths, std::int64_t after);

std::string describe(const LinearCase&);

}  // namespace cplab::testing
