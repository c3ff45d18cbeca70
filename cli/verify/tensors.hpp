// Tensors of a problem in global token order, and their way to and from the local rows of the ranks. Which
// there are, and their shapes, is said by plan/tensors.hpp: dense [B,S,...], packed [T,...] with T = sum of
// padded_lengths, sequence after sequence. Everything is held in double; inputs are rounded to the
// dtype of their role.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/cpu/executor.hpp"
#include "plan/plan.hpp"
#include "plan/tensors.hpp"

namespace cplab {

struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<double> values;  // C order
};

// Tensors by name.
class Tensors {
 public:
  void add(std::string_view name, Tensor tensor);
  const Tensor* find(std::string_view name) const;  // null if there is none
  // Throw std::out_of_range if there is none.
  const Tensor& operator[](std::string_view name) const;
  Tensor& operator[](std::string_view name);

  // Bit by bit: NaN equals itself, -0 differs from 0.
  bool same_bits(const Tensors& other) const;

 private:
  std::map<std::string, Tensor, std::less<>> tensors_;
};
using Inputs = Tensors;   // those of category input that a problem has: no dout if the direction is forward
using Outputs = Tensors;  // those of category output: then no gradients

// Where the element of a token lies in a tensor in C order: the distances along the sequences of a batch, the
// positions of a sequence, the tokens of a packed problem, heads and columns. 0 for axes it does not have.
struct TokenStrides {
  std::int64_t sequence = 0, position = 0, token = 0, head = 0, column = 0;
};
// `axes` has a letter for each extent of `shape` (plan/tensors.hpp).
TokenStrides token_strides(std::string_view axes, std::span<const std::int64_t> shape);

// Where local row i of a rank lies in global order.
struct LocalRow {
  std::int64_t sequence = 0;  // index into Problem::lengths
  std::int64_t position = 0;  // in its sequence
  std::int64_t token = -1;  // row of the flattened [B,S] or [T] axis; -1: a row that only the placement added
  bool valid = false;       // position < lengths[sequence]; all other rows are padding
};

// The local rows of the rank at `position` of the group of `replica`. Stated again here, apart from
// algorithms/placement, so that a mistake there cannot hide itself. unit = P (contiguous, striped) or 2P
// (zigzag); n_b = ceil(padded_lengths[b] / unit) unit / P. stream: the padded sequences one after the other,
// P equal pieces, rows behind the last token are its sequence's. balanced, dynamic: the pieces of the
// scenario. Keys that every rank holds: all of them.
std::vector<LocalRow> local_rows(const Scenario& scenario, int replica, int position,
                                 Side side = Side::queries);

// The same rows as runs: `count` of one sequence, `step` positions apart. Their number follows from that of
// the sequences, not from their lengths: what only counts or looks for edges asks for these.
struct LocalRun {
  std::int64_t sequence = 0, position = 0, count = 0, step = 1;
};
std::vector<LocalRun> local_runs(const Scenario& scenario, int replica, int position,
                                 Side side = Side::queries);
std::int64_t local_row_count(const Scenario& scenario, int replica, int position);

// Values as the table says (plan/tensors.hpp), of transition matrix with the rows of k made as long as 1,
// rounded to the dtype of the tensor's role, from a generator that is the same on every platform
// and does not depend on the number of ranks. Padding rows are NaN.
Inputs random_inputs(const Problem& problem, std::uint64_t seed);

// NAME.npy of a directory for every input of the problem, rounded to the dtype of its role. Throws InputError
// if one is missing, malformed, of another shape, or not finite (given or once rounded) or not a legal value
// of it in a row that is not padding.
Inputs read_inputs(const Problem& problem, const std::string& directory);

// NAME.npy of a directory for every output of the problem, or for those in `only` if there are any, as it is
// stored: what it holds is to be compared. Throws InputError if one is missing, malformed or of another
// shape, or if the problem has no output that is named.
Outputs read_outputs(const Problem& problem, const std::string& directory,
                     const std::vector<std::string>& only = {});

// What a rank's buffer holds of global tensors of a category; rows that are padding, and tensors that are not
// there, are NaN.
std::vector<double> local_values(const Scenario& scenario, const RankPlan& rank, std::string_view buffer,
                                 Category category, const Tensors& global);

// Loads every rank's input buffers. Padding rows become NaN, whatever the inputs hold there: they must never
// reach a result.
void scatter(const Plan& plan, const Inputs& inputs, Executor& executor);

// Collects the outputs of all ranks. Padding rows hold ProblemTensor::padding. A tensor without tokens is the
// maximum over the ranks, thus over the replicas.
Outputs gather(const Plan& plan, const Executor& executor);

std::string npy_file(std::string_view tensor);  // "out.npy"

// NAME.npy for every input or output: float64 for fp64 problems, else float32. Creates the directories. All
// files are complete before the first takes its name. Throws OutputError.
struct SavedTensors {
  std::string directory;
  Category category;
  const Tensors& tensors;
};
void save_tensors(const Problem& problem, const std::vector<SavedTensors>& all);

// A value as the dtype would hold it: rounded to nearest even.
double rounded(double value, DType dtype);

}  // namespace cplab
