// Tensors of a problem in global token order, and their way to and from the local rows of the ranks.
//
// Shapes: dense q, dq [B,S,H,D]; k, dk [B,S,G,D]; v, dv [B,S,G,E]; out, dout [B,S,H,E]; lse [B,H,S]. Packed
// (a problem with lengths): [T,...] and lse [H,T] with T = sum of padded_lengths, sequence after sequence.
// Everything is held in double; inputs are rounded to the problem's dtype.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exec/cpu/executor.hpp"
#include "plan/plan.hpp"

namespace cplab {

struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<double> values;  // C order
};

struct Inputs {
  Tensor q, k, v;
  Tensor dout;  // without values if the direction is forward
};

struct Outputs {
  Tensor out, lse;
  Tensor dq, dk, dv;  // without values if the direction is forward

  // Bit by bit: NaN equals itself, -0 differs from 0.
  bool same_bits(const Outputs& other) const;
};

// Where local row i of a rank lies in global order.
struct LocalRow {
  std::int64_t sequence = 0;  // index into Problem::lengths
  std::int64_t position = 0;  // in its sequence
  std::int64_t token = -1;  // row of the flattened [B,S] or [T] axis; -1: a row that only the placement added
  bool valid = false;       // position < lengths[sequence]; all other rows are padding
};

// The local rows of the rank at `position` of the group of `replica`. Stated again here, apart from
// algorithms/placement, so that a mistake there cannot hide itself. unit = P (contiguous, striped) or 2P
// (zigzag); n_b = ceil(padded_lengths[b] / unit) unit / P.
std::vector<LocalRow> local_rows(const Scenario& scenario, int replica, int position);

// Standard normal values, rounded to the problem's dtype, from a generator that is the same on every platform
// and does not depend on the number of ranks. Padding rows are NaN.
Inputs random_inputs(const Problem& problem, std::uint64_t seed);

// q.npy, k.npy, v.npy and, with gradients, dout.npy of a directory, rounded to the problem's dtype. Throws
// InputError if one is missing, malformed, of another shape, or not finite (given or once rounded) in a row
// that is not padding.
Inputs read_inputs(const Problem& problem, const std::string& directory);

// Loads every rank's q, kv and dout. Padding rows become NaN, whatever the inputs hold there: they must never
// reach a result.
void scatter(const Plan& plan, const Inputs& inputs, Executor& executor);

// Collects out, lse and the gradients. Padding rows are 0 and their lse -inf.
Outputs gather(const Plan& plan, const Executor& executor);

// What save_outputs may write.
inline constexpr std::array<std::string_view, 5> saved_tensors{"out", "lse", "dq", "dk", "dv"};
std::string npy_file(std::string_view tensor);  // "out.npy"

// out.npy, lse.npy, dq.npy, ...: float64 for fp64 problems, else float32. Creates the directory. All files
// are complete before the first takes its name. Throws OutputError.
void save_outputs(const Problem& problem, const Outputs& outputs, const std::string& directory);

// A value as the dtype would hold it: rounded to nearest even.
double rounded(double value, DType dtype);

}  // namespace cplab
