// How a row of the forward is finished: its lse, and what is written to out, stored or merged.
#pragma once

#include "kernels/families/parts/output_rows.cuh"
#include "kernels/families/parts/softmax.cuh"

namespace cplab::kernels::cuda {

struct FinishedRow {
  RowUpdate update;
  float lse = -infinity();
};

// Of a row whose sum is of exp2(score - shift), 0 if it saw no key. `there`: else nothing is written. A merge
// reads the lse that is held, so it must not be overwritten before all threads of the row have come by.
__device__ __forceinline__ FinishedRow finish_row(const AttendParams& params, int head, int row, bool there,
                                                  float sum, float shift) {
  const bool merge = params.write == Write::merge;
  const bool empty = sum == 0;
  FinishedRow row_of_call;
  RowUpdate& update = row_of_call.update;
  update.write = there && !(merge && empty);
  FinishedSum finished = sum_without_keys(params, head);
  if (!empty) finished = finish_sum(params, head, sum, shift);
  update.factor = finished.factor;
  row_of_call.lse = finished.lse;
  if (!update.write || !merge) return row_of_call;
  const float held = *row_of<const float>(params.lse, head, row);
  if (held == -infinity()) return row_of_call;
  const float merged = merged_lse(held, finished.lse);
  update.old_factor = expf(held - merged);
  update.factor *= expf(finished.lse - merged);
  row_of_call.lse = merged;
  return row_of_call;
}

}  // namespace cplab::kernels::cuda
