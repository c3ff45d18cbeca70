// Cases of dynamic mask attention for tiles of any device, against brute force in double.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/masked.hpp"
#include "tests/kernels/random_tile.hpp"
#include "tests/kernels/tile_cases.hpp"

namespace cplab::testing {

struct MaskedRunner {
  using Tensors = std::span<Tensor* const>;
  std::function<TileRun(Tensors, std::int64_t shift, const kernels::MaskedAttend&, bool skips)> attend;
  std::function<TileRun(Tensors, std::int64_t shift, const kernels::MaskedAttendBackward&, bool skips)>
      attend_backward;
  std::function<TileRun(Tensors, std::int64_t shift, const kernels::SelectKeys&)> select;
  bool tensor_cores_only = false;  // head sizes 64 and 128 of 16 bits, aligned
  bool softcaps_only = false;      // no bias, no keep mask, dq in fp32: what Hopper's own kernels take
  bool has_fp64 = false;
  std::int64_t most_rows = 200;
};

// One of the hard cases, or a random one: forms, columns, heads, selections and layouts drawn; NaN wherever
// nothing counts; stored, merged and added; with and without skipping.
void masked_case(Report& report, const CaseName& name, const MaskedRunner& runner);

// A selection of keys: rules, ties, both signs of 0, -inf and NaN, groups, dtypes and layouts drawn.
void select_case(Report& report, const CaseName& name, const MaskedRunner& runner);

// Bias and keep mask of a problem, and what is right then.
struct MaskedProblem {
  Problem problem;
  bool full = false;
  std::int64_t bias_heads = 1, keep_heads = 1, columns = 1;  // columns: of a row
  std::vector<RowRun> column_runs;                           // full: of the rows of k
  double softcap = 0;
  std::vector<double> bias, keep;  // [nq or nk, heads, columns]

  std::int64_t mask_rows() const { return full ? problem.sizes.nq : problem.sizes.nk; }
  std::int64_t column_of(std::int64_t key) const;
  // Of the number that a pair of query head h has.
  std::size_t index(std::int64_t heads, std::int64_t h, std::int64_t i, std::int64_t j) const;
};

struct MaskedExpected {
  // Majorants leave out the softcap's slope, which is at most 1; score_magnitude has the bias in it.
  Expected attention;
  std::vector<double> dbias, dbias_majorant;
  std::vector<bool> row_counts, key_counts, bias_counts;  // has a pair that counts in any head
};
MaskedExpected expected_of(const MaskedProblem& masked);

// Tolerances of oracle.hpp for a problem whose scores go through more roundings: a bias takes 2, a softcap 6
// (its quotient and product, and tanh, which errs by 2 units at most), units of log2 one; its slope 1 - t^2
// is off by 10 units where 1 is the most.
Problem with_more_roundings(const MaskedProblem& masked);
// Of dbias in this dtype; dz is not rounded before it is summed.
Tolerance dbias_tolerance(const MaskedProblem& masked, const MaskedExpected& expected, DType into,
                          const TileDTypes& dtypes);

}  // namespace cplab::testing
