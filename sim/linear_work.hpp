// What a call of linear attention gives a GPU to do: thread blocks, tokens that each walks over, bytes,
// FLOPs. How long that takes: linear_cost.hpp.
#pragma once

#include <cstdint>

#include "plan/plan.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// Of one operation, local to inter: sizes, and its operands read and written once. D and E are 0 where no
// operand has them.
struct LinearWork {
  OpKind kind = OpKind::local;
  ChunkWork cut = ChunkWork::blocked;
  DType dtype = DType::bf16;  // of rows of tokens
  std::int64_t heads = 0, D = 0, E = 0;
  std::int64_t tokens = 0, chunks = 0;  // of the list: all of them, and how many
  std::int64_t longest = 0;             // tokens of the longest chunk
  std::int64_t longest_run = 0;         // chunks between one that resets and the next
  int of_values = 0, of_keys = 0;       // results with the width of v (out, dv), of q (dq, dk)
  double bytes = 0;                     // read plus written; what is added to counts twice
  double flops = 0;
};
LinearWork linear_work(const RankPlan&, const Operation&, DType nominal);

// One kernel: `blocks` thread blocks, of which the longest walks over `steps` times 64 tokens.
struct LinearLaunch {
  DType dtype = DType::bf16;
  double blocks = 1;
  double steps = 0;
  double bytes = 0;  // that it moves, what several thread blocks read or write counted for each
  double flops = 0;
};
// As the kernels of kernels/cuda cut it (kernels/linear.hpp, ChunkWork). Blocked: a thread block for every
// chunk, head and 64 columns of one result; serial: 32 columns of E; sliced: 64 columns of E and 64 rows of
// D, which read their share of the operands and add their partial results. inter and scan read no pairs of
// tokens: inter has a thread block for every 64 tokens, scan one for every 1024 elements of a state.
LinearLaunch linear_launch(const LinearWork&);

// The operation that a point of a table of local, local_backward, state or inter was measured on, alone in a
// rank: the operands of its class with table.states, `sequence` tokens in chunks of table.chunk,
// table.sequences of them alike. The operation is the first of the rank.
RankPlan linear_point(const KernelTable&, const KernelPoint&);

}  // namespace cplab
