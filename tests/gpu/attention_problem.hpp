// Attention problems in device memory, of random values, for programs that time kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda.hpp"
#include "tests/gpu/device_memory.hpp"
#include "tests/kernels/sequences.hpp"
#include "tests/kernels/tensor.hpp"

namespace cplab::testing {

// [rows, heads, width] of standard normal values, as the peers' operands are, in memory of its own.
class Operand {
 public:
  Operand(DType dtype, std::int64_t rows, std::int64_t heads, std::int64_t width, unsigned seed = 1);
  const View& view() const { return view_; }

 private:
  kernels::DeviceMemory memory_;
  View view_;
};

struct AttentionShape {
  std::int64_t q_rows = 0, k_rows = 0;
  std::int64_t heads = 0, kv_heads = 0;
  std::int64_t width = 0;  // of q and k
  DType dtype = DType::bf16;
  DType gradients = DType::bf16;  // dq, dk, dv
  // Where not empty: the rows that the calls have of tensors of q_rows, of k_rows; out is of these alone.
  std::vector<kernels::RowRun> q_runs = {}, k_runs = {};
  std::int64_t value_width = width;  // of v and out
};

// All tensors of one problem, and the calls on them. The spans in a call are this object's.
class AttentionProblem {
 public:
  AttentionProblem(const AttentionShape& shape, std::vector<kernels::Segment> segments);

  kernels::Attend forward() const;  // stores
  // Stores dk and dv. delta is noise, which costs the same as what row_dot would write there.
  kernels::AttendBackward backward(kernels::Write write_dq = kernels::Write::store) const;

  // Of the forward's two products, and of the backward's five (2.5 times as many, where keys and values have
  // one width); live pairs alone.
  double flops() const;
  double backward_flops() const;

 private:
  AttentionShape shape_;
  std::vector<kernels::Segment> segments_;
  Operand q_, k_, v_, out_, lse_, dout_, delta_, dq_, dk_, dv_;
};

}  // namespace cplab::testing
