// What kernels on tensor cores need of a call; see fits.hpp.
#include "kernels/work/fits.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/work/measured_constants.hpp"
#include "kernels/work/work_list.hpp"

namespace cplab::kernels::cuda {
namespace {

constexpr std::int64_t chunk_elements = 8;  // 16 bytes
constexpr std::int64_t most_heads = 65535;  // the y extent of a grid

bool loads_in_chunks(const View& view, DType dtype, std::int64_t width) {
  return view.dtype == dtype && view.width == width &&
         reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 && view.row_stride % chunk_elements == 0 &&
         (view.heads <= 1 || view.head_stride % chunk_elements == 0);
}

bool is_result(const View& view) {
  return view.dtype == DType::bf16 || view.dtype == DType::fp16 || view.dtype == DType::fp32;
}

// The kernels compute with scale * log2(e) in fp32, which must be neither 0 nor infinite.
bool is_plain(double scale) {
  const double magnitude = std::abs(scale);
  return magnitude < 1e30 && magnitude > 1e-30;
}

}  // namespace

bool fits_forward_mma(const Attend& call, DType dtype, std::int64_t width) {
  return loads_in_chunks(call.q, dtype, width) && loads_in_chunks(call.k, dtype, width) &&
         loads_in_chunks(call.v, dtype, width) && is_result(call.out) && call.lse.dtype == DType::fp32 &&
         call.q.heads <= most_heads && call.scale > 0 && is_plain(call.scale);
}

bool fits_backward_mma(const AttendBackward& call, DType dtype, std::int64_t width) {
  return loads_in_chunks(call.q, dtype, width) && loads_in_chunks(call.k, dtype, width) &&
         loads_in_chunks(call.v, dtype, width) && loads_in_chunks(call.dout, dtype, width) &&
         call.lse.dtype == DType::fp32 && call.delta.dtype == DType::fp32 && is_result(call.dq) &&
         is_result(call.dk) && is_result(call.dv) && call.q.heads <= most_heads && is_plain(call.scale);
}

namespace hopper {

bool has_tensor_map(const DeviceView& view) {
  if (view.dtype == DType::fp64 || view.width % 64 != 0) return false;
  const auto bytes = static_cast<std::int64_t>(bytes_of(view.dtype));
  const std::int64_t most_stride = (std::int64_t{1} << 40) / bytes;
  const auto fits = [&](std::int64_t stride) {
    return stride > 0 && stride * bytes % 16 == 0 && stride < most_stride;
  };
  return view.map == nullptr && reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 &&
         (view.rows <= 1 || fits(view.row_stride)) && (view.heads <= 1 || fits(view.head_stride));
}

bool has_tensor_map(const View& view) {
  const RowMap map = row_map(view);
  return map.rows.empty() && has_tensor_map(device_view(view, map));
}

bool fits_forward_hopper(const Attend& call, DType dtype, std::int64_t width) {
  return fits_forward_mma(call, dtype, width) && has_tensor_map(call.q) && has_tensor_map(call.k) &&
         has_tensor_map(call.v);
}

bool fits_backward_deterministic_hopper(const AttendBackward& call, DType dtype, std::int64_t width) {
  return fits_backward_mma(call, dtype, width) && has_tensor_map(call.q) && has_tensor_map(call.k) &&
         has_tensor_map(call.v) && has_tensor_map(call.dout);
}

bool stores_out_by_tma(const AttendParams& call) {
  return call.write == Write::store && call.out.dtype == call.q.dtype && has_tensor_map(call.out);
}

bool adds_dq_by_tma(const AttendBackwardParams& call) {
  return call.dq.dtype == DType::fp32 && has_tensor_map(call.dq);
}

bool writes_dkv_by_tma(const AttendBackwardParams& call) {
  const bool sums = call.dk.dtype == DType::fp32;
  const bool rounded = call.dk.dtype == call.k.dtype && call.write_dk == Write::store;
  return call.dk.dtype == call.dv.dtype && (sums || rounded) && has_tensor_map(call.dk) &&
         has_tensor_map(call.dv);
}

bool splits_query_heads(const AttendBackwardParams& call) {
  return call.q.heads > call.k.heads && writes_dkv_by_tma(call) && call.dk.dtype == DType::fp32;
}

bool needs_zeroed_dkv(const AttendBackwardParams& call) {
  return call.write_dk == Write::store && (splits_query_heads(call) || call.by_k.live < call.by_k.count);
}

bool fits_backward_fused_hopper(const AttendBackward& call, DType dtype, std::int64_t width) {
  constexpr std::int64_t four = 4;  // floats
  return fits_backward_deterministic_hopper(call, dtype, width) && call.dq.dtype == DType::fp32 &&
         reinterpret_cast<std::uintptr_t>(call.dq.data) % 16 == 0 && call.dq.row_stride % four == 0 &&
         (call.dq.heads <= 1 || call.dq.head_stride % four == 0);
}

float scale_log2(double scale) {
  return static_cast<float>(scale * 1.44269504088896340736);
}

int heads_per_group(int heads, int walked_heads, const DeviceView& walked) {
  constexpr auto cache_bytes = static_cast<std::int64_t>(measured("heads_per_group_cache"));
  const std::int64_t head_bytes = std::int64_t{2} * 2 * std::max(walked.rows, 1) * walked.width;
  const std::int64_t fit = std::max<std::int64_t>(cache_bytes / head_bytes, 1);
  // Query heads share a key head; a key head needs all its query heads.
  const std::int64_t together = heads >= walked_heads
                                    ? fit * (heads / walked_heads)
                                    : std::max<std::int64_t>(fit / (walked_heads / heads), 1);
  return static_cast<int>(std::min<std::int64_t>(together, heads));
}

namespace {

bool is_operand(const View& view, DType dtype, std::int64_t width) {
  return view.dtype == dtype && view.width == width && has_tensor_map(view);
}
bool holds_states(const std::optional<View>& view) {
  return !view || (view->dtype == DType::fp32 && has_tensor_map(*view));
}
// log2 of a decay factor is held in fp32, and times 0 it must be 0.
bool is_blocked(const Chunks& chunks) {
  return chunks.work == ChunkWork::blocked &&
         std::all_of(chunks.slopes.begin(), chunks.slopes.end(), [](double slope) { return slope < 1e30; });
}

}  // namespace

bool fits_linear_hopper(const LinearLocal& call, DType dtype, std::int64_t D, std::int64_t E) {
  return is_blocked(call.chunks) && !call.log_decay && !call.final_state && is_operand(call.q, dtype, D) &&
         is_operand(call.k, dtype, D) && is_operand(call.v, dtype, E) && is_result(call.out) &&
         holds_states(call.state) && holds_states(call.carry);
}

bool fits_linear_hopper(const LinearLocalBackward& call, DType dtype, std::int64_t D, std::int64_t E) {
  return is_blocked(call.chunks) && !call.log_decay && !call.final_state && is_operand(call.q, dtype, D) &&
         is_operand(call.k, dtype, D) && is_operand(call.v, dtype, E) && is_operand(call.dout, dtype, E) &&
         is_result(call.dq) && is_result(call.dk) && is_result(call.dv) && holds_states(call.state) &&
         holds_states(call.carry) && holds_states(call.dstate) && holds_states(call.dcarry);
}

bool fits_linear_hopper(const LinearState& call, DType dtype, std::int64_t D, std::int64_t E) {
  return is_blocked(call.chunks) && !call.log_decay && !call.transition && is_operand(call.rows, dtype, D) &&
         is_operand(call.columns, dtype, E) && holds_states(call.state);
}

}  // namespace hopper
}  // namespace cplab::kernels::cuda
