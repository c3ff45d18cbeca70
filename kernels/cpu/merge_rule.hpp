// The softmax merge of one row, shared by `merge`, `merge_lse` and the fused write of `attend`. A fault
// replaces the rule, not the tiles around it.
#pragma once

#include <cstdint>

#include "kernels/cpu/view_rows.hpp"
#include "kernels/kernels.hpp"

namespace cplab::kernels {

struct MergeRule {
  // log(exp(a) + exp(b)) of two numbers of which neither is -inf.
  float (*lse_fp32)(float a, float b);
  double (*lse_fp64)(double a, double b);
  // Round the merged out to the nominal dtype, whatever the accumulator could hold.
  bool round_to_nominal = false;

  float lse(float a, float b) const { return lse_fp32(a, b); }
  double lse(double a, double b) const { return lse_fp64(a, b); }
};

// max + log1p(exp(min - max)), which neither overflows nor loses a small second term.
const MergeRule& careful_merge();

// Merges one row, part_lse above -inf (or NaN), into (into_out, into_lse). `row_out` holds the row of the
// part, out width numbers, and is overwritten. An into_lse of -inf means into_out is not read.
template <class T>
void merge_row(const MergeRule& rule, DType nominal, T* row_out, T part_lse, const ViewRows& into_out,
               const ViewRows& into_lse, std::int64_t row, std::int64_t head, T* scratch);

// The tiles that contain a merge, under a given rule.
void attend_with(const MergeRule& rule, const Attend& operation);
void merge_with(const MergeRule& rule, const Merge& operation);
void merge_lse_with(const MergeRule& rule, const MergeLse& operation);

}  // namespace cplab::kernels
