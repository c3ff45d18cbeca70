// Operands and the calls on them; see attention_problem.hpp.
#include "tests/gpu/attention_problem.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace cplab::testing {
namespace {

using kernels::Segment;
using kernels::Write;

Operand on_queries(const AttentionShape& shape, unsigned number, DType dtype, std::int64_t width) {
  return {dtype, shape.q_rows, shape.heads, width, number};
}

Operand on_keys(const AttentionShape& shape, unsigned number, DType dtype, std::int64_t width) {
  return {dtype, shape.k_rows, shape.kv_heads, width, number};
}

double live_pairs(std::span<const Segment> segments) {
  double pairs = 0;
  for (const Segment& s : segments)
    for (std::int64_t i = 0; i < s.q_count; ++i) {
      const std::int64_t at = i + s.offset;  // the key on row i's diagonal
      const std::int64_t first = s.left < 0 ? 0 : std::max<std::int64_t>(at - s.left, 0);
      const std::int64_t last = s.right < 0 ? s.k_count - 1 : std::min(at + s.right, s.k_count - 1);
      pairs += static_cast<double>(std::max<std::int64_t>(last - first + 1, 0));
    }
  return pairs;
}

// The rows of a tensor that calls have.
View listed(View view, std::span<const kernels::RowRun> runs) {
  if (runs.empty()) return view;
  view.runs = runs;
  view.rows = 0;
  for (const kernels::RowRun& run : runs) view.rows += run.count;
  return view;
}

double scale_of(const AttentionShape& shape) {
  return 1 / std::sqrt(static_cast<double>(shape.width));
}

}  // namespace

Operand::Operand(DType dtype, std::int64_t rows, std::int64_t heads, std::int64_t width, unsigned seed)
    : memory_(static_cast<std::size_t>(rows * heads * width) * kernels::bytes_of(dtype)),
      view_(kernels::rows_first(memory_.data(), dtype, rows, heads, width)) {
  memory_.fill_normal(dtype, seed);
}

AttentionProblem::AttentionProblem(const AttentionShape& shape, std::vector<Segment> segments)
    : shape_(shape),
      segments_(std::move(segments)),
      q_(on_queries(shape, 0, shape.dtype, shape.width)),
      k_(on_keys(shape, 1, shape.dtype, shape.width)),
      v_(on_keys(shape, 2, shape.dtype, shape.value_width)),
      out_(on_queries(shape, 3, shape.dtype, shape.value_width)),
      lse_(on_queries(shape, 4, DType::fp32, 1)),
      dout_(on_queries(shape, 5, shape.dtype, shape.value_width)),
      delta_(on_queries(shape, 6, DType::fp32, 1)),
      dq_(on_queries(shape, 7, shape.gradients, shape.width)),
      dk_(on_keys(shape, 8, shape.gradients, shape.width)),
      dv_(on_keys(shape, 9, shape.gradients, shape.value_width)) {}

kernels::Attend AttentionProblem::forward() const {
  const auto of_q = [&](const Operand& operand) { return listed(operand.view(), shape_.q_runs); };
  const auto of_k = [&](const Operand& operand) { return listed(operand.view(), shape_.k_runs); };
  View out = of_q(out_), lse = of_q(lse_);
  out.runs = lse.runs = {};
  return {.q = of_q(q_),
          .k = of_k(k_),
          .v = of_k(v_),
          .out = out,
          .lse = lse,
          .segments = segments_,
          .scale = scale_of(shape_),
          .write = Write::store};
}

kernels::AttendBackward AttentionProblem::backward(Write write_dq) const {
  const auto of_q = [&](const Operand& operand) { return listed(operand.view(), shape_.q_runs); };
  const auto of_k = [&](const Operand& operand) { return listed(operand.view(), shape_.k_runs); };
  return {.q = of_q(q_),
          .k = of_k(k_),
          .v = of_k(v_),
          .dout = of_q(dout_),
          .lse = of_q(lse_),
          .delta = of_q(delta_),
          .dq = of_q(dq_),
          .dk = of_k(dk_),
          .dv = of_k(dv_),
          .segments = segments_,
          .scale = scale_of(shape_),
          .write_dq = write_dq,
          .write_dk = Write::store};
}

double AttentionProblem::flops() const {
  return 2 * live_pairs(segments_) * static_cast<double>(shape_.heads * (shape_.width + shape_.value_width));
}

double AttentionProblem::backward_flops() const {
  return 2 * live_pairs(segments_) *
         static_cast<double>(shape_.heads * (3 * shape_.width + 2 * shape_.value_width));
}

}  // namespace cplab::testing
