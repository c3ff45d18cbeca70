// Operands and prepared calls; see loads.hpp.
#include "calibrate/loads.hpp"

#include <algorithm>
#include <cmath>

namespace cplab::measure {
namespace {

using kernels::DType;
using kernels::View;

constexpr std::int64_t line = 256;
constexpr std::int64_t heads = 16, width = 128;  // of elementwise operands
constexpr std::int64_t most_sets = 256;

std::int64_t padded(std::int64_t bytes) {
  return (bytes + line - 1) / line * line;
}

View row_numbers(std::int64_t rows, std::int64_t head_count) {  // lse, delta: heads first
  return {nullptr, DType::fp32, rows, head_count, 1, 1, rows, {}};
}

}  // namespace

char* Load::take(std::int64_t bytes) {
  char* data = arena_.data() + used_;
  used_ += padded(bytes);
  if (used_ > arena_.bytes()) throw Error("the operands do not fit into the arena");
  return data;
}

int Load::sets_for(std::int64_t set_bytes, std::int64_t touched_bytes, std::int64_t l2_bytes) const {
  const std::int64_t wanted = (2 * l2_bytes + touched_bytes - 1) / touched_bytes;
  return static_cast<int>(
      std::clamp<std::int64_t>(std::min(wanted, arena_.bytes() / set_bytes), 1, most_sets));
}

Load::Load(const DeviceMemory& arena, std::int64_t l2_bytes, const AttentionShape& shape, bool backward)
    : arena_(arena) {
  const std::int64_t rows = shape.batch * shape.sequence;
  const View wide = rows_first(nullptr, DType::bf16, rows, shape.heads, shape.head_size);
  const View sums =
      rows_first(nullptr, DType::fp32, rows, shape.heads, shape.head_size);  // gradients, as in plans
  const View narrow = row_numbers(rows, shape.heads);
  const std::int64_t tensors = backward ? 5 : 4, numbers = backward ? 2 : 1;
  const std::int64_t set_bytes = tensors * padded(bytes_of(wide)) + numbers * padded(bytes_of(narrow)) +
                                 (backward ? 3 * padded(bytes_of(sums)) : 0);
  std::vector<kernels::Segment> segments;
  for (std::int64_t b = 0; b < shape.batch; ++b)
    segments.push_back({b * shape.sequence, shape.sequence, b * shape.sequence, shape.sequence, 0, -1,
                        shape.causal ? 0 : -1});
  const auto place = [&](View v) {
    v.data = take(bytes_of(v));
    return v;
  };
  const int sets = sets_for(set_bytes, set_bytes, l2_bytes);
  for (int set = 0; set < sets; ++set) {
    kernels::Attend forward;
    forward.q = place(wide);
    forward.k = place(wide);
    forward.v = place(wide);
    forward.out = place(wide);
    forward.lse = place(narrow);
    forward.segments = segments;
    forward.scale = 1 / std::sqrt(static_cast<double>(shape.head_size));
    const std::size_t first = calls_.add(forward);
    if (!backward) {
      timed_.push_back(first);
      continue;
    }
    kernels::AttendBackward gradients;
    gradients.q = forward.q;
    gradients.k = forward.k;
    gradients.v = forward.v;
    gradients.lse = forward.lse;
    gradients.dout = place(wide);
    gradients.dq = place(sums);
    gradients.dk = place(sums);
    gradients.dv = place(sums);
    gradients.write_dq = kernels::Write::add;  // as in all steps but the first
    gradients.delta = place(narrow);
    gradients.segments = segments;
    gradients.scale = forward.scale;
    before_.push_back(first);
    before_.push_back(calls_.add_row_dot(gradients.dout, forward.out, gradients.delta));
    timed_.push_back(calls_.add(gradients));
  }
}

Load::Load(const DeviceMemory& arena, std::int64_t l2_bytes, const std::string& kind, std::int64_t bytes)
    : arena_(arena) {
  constexpr std::int64_t n = heads * width;
  // Bytes of one row, read plus written (Operation::bytes), and of its operands in memory.
  struct Row {
    const char* kind;
    const char* operands;
    std::int64_t moved, stored;
  };
  static constexpr Row table[] = {{"row_dot", "bf16, bf16 into fp32", 4 * n + 4 * heads, 4 * n + 4 * heads},
                                  {"merge", "bf16 into fp32", 10 * n + 12 * heads, 6 * n + 8 * heads},
                                  {"copy", "bf16 into bf16", 4 * n, 4 * n},
                                  {"cast", "fp32 into bf16", 6 * n, 6 * n},
                                  {"add", "fp32 into fp32", 12 * n, 8 * n},
                                  {"fill", "fp32", 4 * n, 4 * n}};
  const auto* row =
      std::find_if(std::begin(table), std::end(table), [&](const Row& r) { return kind == r.kind; });
  if (row == std::end(table)) throw Error("no such elementwise kind: " + kind);
  const std::int64_t rows = std::max<std::int64_t>(1, bytes / row->moved);
  bytes_ = static_cast<double>(rows * row->moved);
  operands_ = row->operands;
  const std::int64_t set_bytes = rows * row->stored + 4 * line;  // four operands at most, each padded
  const int sets = sets_for(set_bytes, set_bytes, l2_bytes);
  for (int set = 0; set < sets; ++set) add_elementwise(kind, rows);
}

void Load::add_elementwise(const std::string& kind, std::int64_t rows) {
  const auto tensor = [&](DType dtype) {
    View v = rows_first(nullptr, dtype, rows, heads, width);
    v.data = take(bytes_of(v));
    return v;
  };
  const auto numbers = [&] {
    View v = row_numbers(rows, heads);
    v.data = take(bytes_of(v));
    return v;
  };
  if (kind == "row_dot") {
    const View dout = tensor(DType::bf16), out = tensor(DType::bf16);
    timed_.push_back(calls_.add_row_dot(dout, out, numbers()));
  } else if (kind == "merge") {
    kernels::Merge call;
    call.part_out = tensor(DType::bf16);
    call.part_lse = numbers();
    call.into_out = tensor(DType::fp32);
    call.into_lse = numbers();
    timed_.push_back(calls_.add(call));
  } else if (kind == "copy" || kind == "cast") {
    const View from = tensor(kind == "cast" ? DType::fp32 : DType::bf16);
    timed_.push_back(calls_.add_copy(from, tensor(DType::bf16)));
  } else if (kind == "add") {
    const View from = tensor(DType::fp32);
    timed_.push_back(calls_.add_add(from, tensor(DType::fp32)));
  } else {
    timed_.push_back(calls_.add_fill(tensor(DType::fp32), 0.5));
  }
}

void Load::prepare(std::uint64_t seed, CudaStream stream) {
  if (!tables_) {
    tables_ = std::make_unique<DeviceMemory>(std::max(static_cast<std::int64_t>(calls_.table_bytes()), line));
    calls_.upload(tables_->data());
  }
  arena_.fill_random(seed, used_, stream);
  for (const std::size_t call : before_) calls_.launch(call, stream);
  Event done(false);
  done.record(stream);
  done.synchronize();
}

void Load::queue(std::int64_t index, CudaStream stream) const {
  calls_.launch(timed_[static_cast<std::size_t>(index) % timed_.size()], stream);
}

}  // namespace cplab::measure
