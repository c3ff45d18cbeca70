// Calls beyond squares: attention in the forms that plans issue, and copies of rows in pieces; see loads.hpp.
#include <cmath>

#include "calibrate/loads.hpp"

namespace cplab::measure {
namespace {

using kernels::View;

// Rows in so many runs, with a gap as long as a run behind each.
std::vector<kernels::RowRun> runs_of(std::int64_t rows, std::int64_t runs) {
  std::vector<kernels::RowRun> all;
  if (runs <= 1) return all;
  const std::int64_t each = rows / runs;
  for (std::int64_t run = 0; run < runs; ++run) all.push_back({2 * run * each, each, 1});
  return all;
}

}  // namespace

Load::Load(const DeviceMemory& arena, std::int64_t l2_bytes, const FormShape& shape, int reserved_sms)
    : arena_(arena), calls_(kernels::KernelChoice::best, reserved_sms) {
  const std::int64_t rows = shape.batch * shape.queries, keys = shape.batch * shape.keys;
  const std::int64_t stored = shape.row_runs > 1 ? 2 * rows : rows, width = shape.head_size;
  const std::vector<kernels::RowRun> runs = runs_of(rows, shape.row_runs);
  std::vector<kernels::Segment> segments;
  for (std::int64_t b = 0; b < shape.batch; ++b)
    segments.push_back({b * shape.queries, shape.queries, b * shape.keys, shape.keys, 0, shape.window,
                        shape.causal ? 0 : -1});
  const auto tensor = [&](kernels::DType dtype, bool of_keys) {
    const std::int64_t heads = of_keys ? shape.kv_heads : shape.heads, count = of_keys ? keys : stored;
    View view = rows_first(nullptr, dtype, count, heads, width);
    view.data = take(bytes_of(view));
    if (of_keys) return view;
    view.rows = rows;
    view.runs = runs;
    return view;
  };
  const auto numbers = [&] {  // lse, delta: heads first
    View view{nullptr, kernels::DType::fp32, rows, shape.heads, 1, 1, stored, runs};
    view.data = take(4 * stored * shape.heads);
    return view;
  };
  constexpr auto bf16 = kernels::DType::bf16, fp32 = kernels::DType::fp32;
  const std::int64_t set_bytes =
      2 * width *
      (stored * shape.heads * (shape.backward ? 7 : 4) + keys * shape.kv_heads * (shape.backward ? 6 : 2));
  constexpr std::int64_t paddings = 16 * 256;
  const int sets = sets_for(set_bytes + 8 * stored * shape.heads + paddings, set_bytes, l2_bytes);
  for (int set = 0; set < sets; ++set) {
    kernels::Attend forward;
    forward.q = tensor(bf16, false);
    forward.k = tensor(bf16, true);
    forward.v = tensor(bf16, true);
    forward.out = tensor(shape.updates && !shape.backward ? fp32 : bf16, false);
    forward.lse = numbers();
    forward.segments = segments;
    forward.scale = 1 / std::sqrt(static_cast<double>(width));
    if (shape.updates && !shape.backward) forward.write = kernels::Write::merge;
    const std::size_t first = calls_.add(forward);
    if (!shape.backward) {
      timed_.push_back(first);
      continue;
    }
    before_.push_back(first);
    kernels::AttendBackward gradients;
    gradients.q = forward.q;
    gradients.k = forward.k;
    gradients.v = forward.v;
    gradients.lse = forward.lse;
    gradients.dout = tensor(bf16, false);
    gradients.dq = tensor(fp32, false);
    gradients.dk = tensor(fp32, true);
    gradients.dv = tensor(fp32, true);
    gradients.delta = numbers();
    if (shape.updates) gradients.write_dq = gradients.write_dk = kernels::Write::add;
    if (shape.rounded) gradients.rounded_dq = tensor(bf16, false);
    if (shape.delta_inside)
      gradients.out = forward.out;
    else
      before_.push_back(calls_.add_row_dot(gradients.dout, forward.out, gradients.delta));
    gradients.segments = segments;
    gradients.scale = forward.scale;
    timed_.push_back(calls_.add(gradients));
  }
}

Load::Load(const DeviceMemory& arena, std::int64_t l2_bytes, const PiecesShape& shape) : arena_(arena) {
  constexpr std::int64_t heads = 16, width = 128, row_bytes = 2 * heads * width;
  const std::int64_t rows = shape.bytes / (2 * row_bytes) / shape.pieces * shape.pieces;
  bytes_ = static_cast<double>(2 * rows * row_bytes);
  const std::vector<kernels::RowRun> runs = runs_of(rows, shape.pieces);
  const std::int64_t set_bytes = 3 * rows * row_bytes + 1024;
  const int sets = sets_for(set_bytes, 2 * rows * row_bytes, l2_bytes);
  for (int set = 0; set < sets; ++set) {
    View from = rows_first(nullptr, kernels::DType::bf16, 2 * rows, heads, width);
    from.data = take(bytes_of(from));
    from.rows = rows;
    from.runs = runs;
    View into = rows_first(nullptr, kernels::DType::bf16, rows, heads, width);
    into.data = take(bytes_of(into));
    timed_.push_back(calls_.add_copy(from, into));
  }
}

}  // namespace cplab::measure
