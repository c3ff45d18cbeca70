// What kernels on tensor cores need of a call; see fits.hpp.
#include "kernels/families/fits.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/families/hopper_backward/turns.hpp"
#include "kernels/tiles/measured_constants.hpp"
#include "kernels/tiles/row_space.hpp"
#include "kernels/tiles/work_list.hpp"

namespace cplab::kernels::cuda {
namespace {

constexpr std::int64_t chunk_elements = 8;  // 16 bytes
constexpr std::int64_t most_heads = 65535;  // the y extent of a grid

const char* dtype_condition(DType dtype) {
  return dtype == DType::bf16 ? "is not bf16" : dtype == DType::fp16 ? "is not fp16" : "is not fp32";
}

// Rows of one dtype and width, in chunks of 16 bytes.
Unmet in_chunks(const char* name, const View& view, DType dtype, std::int64_t width) {
  if (view.dtype != dtype) return Misfit{name, dtype_condition(dtype)};
  if (view.width != width) return Misfit{name, "has width #", view.width};
  if (reinterpret_cast<std::uintptr_t>(view.data) % 16 != 0)
    return Misfit{name, "does not begin at a multiple of 16 bytes"};
  if (view.row_stride % chunk_elements != 0)
    return Misfit{name, "has rows # elements apart, not a multiple of 16 bytes", view.row_stride};
  if (view.heads > 1 && view.head_stride % chunk_elements != 0)
    return Misfit{name, "has heads # elements apart, not a multiple of 16 bytes", view.head_stride};
  return {};
}

Unmet has_dtype(const char* name, const View& view, DType dtype) {
  if (view.dtype != dtype) return Misfit{name, dtype_condition(dtype)};
  return {};
}

Unmet is_result(const char* name, const View& view) {
  if (view.dtype == DType::fp64) return Misfit{name, "is fp64"};
  return {};
}

// The first of them that is not met. Later ones are asked only where all before are.
template <class... Conditions>
Unmet first_unmet(const Conditions&... conditions) {
  Unmet unmet;
  (void)((unmet = conditions(), !unmet) && ...);
  return unmet;
}

// The kernels compute with scale * log2(e) in fp32, which must be neither 0 nor infinite.
Unmet is_plain(double scale) {
  const double magnitude = std::abs(scale);
  if (magnitude < 1e30 && magnitude > 1e-30) return {};
  return Misfit{"", "the scale is beyond what fp32 holds"};
}

Unmet is_launchable(const View& q) {
  if (q.heads > most_heads) return Misfit{"q", "has # heads", q.heads};
  return {};
}

}  // namespace

std::string Misfit::text() const {
  std::string all = *view == '\0' ? "" : std::string(view) + " ";
  for (const char* c = condition; *c != '\0'; ++c)
    all += *c == '#' ? std::to_string(number) : std::string(1, *c);
  return all;
}

Unmet unmet_forward_mma(const Attend& call, DType dtype, std::int64_t width, std::int64_t value_width) {
  return first_unmet(
      [&] { return in_chunks("q", call.q, dtype, width); },
      [&] { return in_chunks("k", call.k, dtype, width); },
      [&] { return in_chunks("v", call.v, dtype, value_width); }, [&] { return is_result("out", call.out); },
      [&] { return has_dtype("lse", call.lse, DType::fp32); }, [&] { return is_launchable(call.q); },
      [&] {
        return call.scale > 0 ? Unmet() : Misfit{"", "the scale is not positive"};
      },
      [&] { return is_plain(call.scale); });
}

Unmet unmet_backward_mma(const AttendBackward& call, DType dtype, std::int64_t width,
                         std::int64_t value_width) {
  return first_unmet([&] { return in_chunks("q", call.q, dtype, width); },
                     [&] { return in_chunks("k", call.k, dtype, width); },
                     [&] { return in_chunks("v", call.v, dtype, value_width); },
                     [&] { return in_chunks("dout", call.dout, dtype, value_width); },
                     [&] { return has_dtype("lse", call.lse, DType::fp32); },
                     [&] { return has_dtype("delta", call.delta, DType::fp32); },
                     [&] { return is_result("dq", call.dq); }, [&] { return is_result("dk", call.dk); },
                     [&] { return is_result("dv", call.dv); }, [&] { return is_launchable(call.q); },
                     [&] { return is_plain(call.scale); });
}

namespace hopper {

namespace {

// How many runs of rows a view has, runs that go on where the last one ends counted as one.
std::int64_t run_count(const View& view) {
  std::int64_t count = 0, end = 0;
  for (const RowRun& run : view.runs) {
    if (run.count == 0) continue;
    count += count == 0 || run.begin != end;
    end = run.begin + run.count * run.step;
  }
  return count;
}

Unmet mapped(const char* name, const View& view) {
  if (has_tensor_map(view)) return {};
  if (!row_map(view).rows.empty()) return Misfit{name, "has rows in # runs", run_count(view)};
  return Misfit{name, "is not laid out in multiples of 16 bytes"};
}

// The same in a row space. `elsewhere`: what a view is that does not lie as the space's first one does.
Unmet mapped(const char* name, const View& view, const std::optional<RowSpace>& space,
             const char* elsewhere = "") {
  if (!space) return Misfit{name, "has rows in # runs at no one distance", run_count(view)};
  const SpacedView spaced = in_space(view, *space);
  if (!spaced.map.empty()) return Misfit{name, elsewhere};
  if (!has_tensor_map(spaced.device)) return Misfit{name, "is not laid out in multiples of 16 bytes"};
  return {};
}

// Whether the heads are those that a kernel for `sizes` pads.
Unmet are_padded(const View& q, const View& v, const HeadSizes& sizes) {
  if (are_padded_to(sizes, head_sizes(q, v))) return {};
  const bool of_values = are_padded_to(sizes, {static_cast<int>(q.width), sizes.value});
  return of_values ? Misfit{"v", "has width #", v.width} : Misfit{"q", "has width #", q.width};
}
Unmet are_padded(const View& q, const View& v, std::int64_t width) {
  return are_padded(q, v, HeadSizes{static_cast<int>(width), static_cast<int>(width)});
}

// What is left once all views are mapped.
template <class Call>
Unmet few_segments(const Call& call) {
  if (row_spaces(call)) return {};
  return Misfit{"", "segments and runs of rows meet in more than a million pieces"};
}

}  // namespace

Unmet unmet_forward_hopper(const Attend& call, DType dtype, const HeadSizes& sizes) {
  if (const Unmet unmet = are_padded(call.q, call.v, sizes)) return unmet;
  if (const Unmet unmet = unmet_forward_mma(call, dtype, call.q.width, call.v.width)) return unmet;
  const std::optional<RowSpace> q = row_space(call.q, {}), k = row_space(call.k, {});
  return first_unmet([&] { return mapped("q", call.q, q); }, [&] { return mapped("k", call.k, k); },
                     [&] { return mapped("v", call.v, k, "has its rows elsewhere than k"); },
                     [&] { return few_segments(call); });
}

namespace {

Unmet unmet_backward_hopper(const AttendBackward& call, DType dtype) {
  if (const Unmet unmet = unmet_backward_mma(call, dtype, call.q.width, call.v.width)) return unmet;
  const std::optional<RowSpace> q = row_space(call.q, {}), k = row_space(call.k, {});
  return first_unmet([&] { return mapped("q", call.q, q); }, [&] { return mapped("k", call.k, k); },
                     [&] { return mapped("v", call.v, k, "has its rows elsewhere than k"); },
                     [&] { return mapped("dout", call.dout, q, "has its rows elsewhere than q"); },
                     [&] { return few_segments(call); });
}

}  // namespace

Unmet unmet_backward_deterministic_hopper(const AttendBackward& call, DType dtype, const HeadSizes& sizes) {
  if (const Unmet unmet = are_padded(call.q, call.v, sizes)) return unmet;
  return unmet_backward_hopper(call, dtype);
}

bool writes_out_by_tma(const AttendParams& call) {
  DeviceView out = call.out;
  if (out.consecutive) out.map = nullptr;
  return out.dtype == call.q.dtype && has_tensor_map(out);
}

bool loads_lse_delta_by_tma(const AttendBackwardParams& call) {
  const auto has_heads_map = [](const DeviceView& view) {
    constexpr std::int64_t four = 4, most_stride = (std::int64_t{1} << 40) / 4;  // floats
    return view.dtype == DType::fp32 && view.map == nullptr &&
           reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 &&
           (view.heads <= 1 || view.head_stride == 1) &&
           (view.rows <= 1 ||
            (view.row_stride >= view.heads && view.row_stride % four == 0 && view.row_stride < most_stride));
  };
  return has_heads_map(call.lse) && has_heads_map(call.delta);
}

bool adds_dq_by_tma(const AttendBackwardParams& call) {
  return call.dq.dtype == DType::fp32 && has_tensor_map(call.dq);
}

bool adds_every_row(const AttendBackwardParams& call) {
  return adds_dq_by_tma(call) && call.dq.listed == call.dq.rows && !stores_first_dq(call);
}

bool stores_first_dq(const AttendBackwardParams& call) {
  return call.turns.whole && call.write_dq == Write::store && adds_dq_by_tma(call);
}

bool writes_dkv_by_tma(const AttendBackwardParams& call) {
  const bool sums = call.dk.dtype == DType::fp32, rounded = call.dk.dtype == call.k.dtype;
  return call.dk.dtype == call.dv.dtype && (sums || rounded) && has_tensor_map(call.dk) &&
         has_tensor_map(call.dv);
}

bool stores_dq_tiles(const AttendBackwardParams& call) {
  const bool sums = call.dq.dtype == DType::fp32 && call.dq.width == 128;  // what there is room to stage
  const bool rounded = call.dq.dtype == call.q.dtype;
  return call.write_dq == Write::store && (sums || rounded) && has_tensor_map(call.dq);
}

bool stores_dkv_tiles(const AttendBackwardParams& call) {
  return call.write_dk == Write::store && call.dk.dtype == call.k.dtype && writes_dkv_by_tma(call);
}

bool splits_query_heads(const AttendBackwardParams& call) {
  return call.q.heads > call.k.heads && writes_dkv_by_tma(call) && call.dk.dtype == DType::fp32;
}

bool needs_zeroed_dkv(const AttendBackwardParams& call) {
  return call.write_dk == Write::store && (splits_query_heads(call) || call.by_k.live < call.by_k.count);
}

Unmet unmet_backward_fused_hopper(const AttendBackward& call, DType dtype, std::int64_t width) {
  constexpr std::int64_t four = 4;  // floats
  const bool in_fours = reinterpret_cast<std::uintptr_t>(call.dq.data) % 16 == 0 &&
                        call.dq.row_stride % four == 0 &&
                        (call.dq.heads <= 1 || call.dq.head_stride % four == 0);
  return first_unmet([&] { return are_padded(call.q, call.v, width); },
                     [&] { return unmet_backward_hopper(call, dtype); },
                     [&] { return has_dtype("dq", call.dq, DType::fp32); },
                     [&] {
                       return in_fours ? Unmet() : Misfit{"dq", "is not laid out in multiples of 16 bytes"};
                     });
}

Unmet unmet_backward_chains_hopper(const AttendBackward& call, DType dtype, std::int64_t width) {
  const std::optional<RowSpace> q = row_space(call.q, {});
  return first_unmet(
      [&] { return are_padded(call.q, call.v, width); }, [&] { return unmet_backward_hopper(call, dtype); },
      [&] {
        return call.rounded_dq ? Unmet() : Misfit{"dq", "is not to be rounded"};
      },
      [&] {
        return call.write_dq == Write::store ? Unmet() : Misfit{"dq", "is added to"};
      },
      [&] { return has_dtype("dq", call.dq, DType::fp32); },
      [&] { return mapped("dq", call.dq, q, "has its rows elsewhere than q"); },
      [&] { return has_dtype("rounded_dq", *call.rounded_dq, dtype); },
      [&] { return mapped("rounded_dq", *call.rounded_dq, q, "has its rows elsewhere than q"); },
      [&] {
        const bool sums = call.q.heads > call.k.heads && call.dk.dtype == DType::fp32;
        return sums ? Misfit{"dk", "is added to by the query heads of a key head"} : Unmet();
      });
}

float scale_log2(double scale) {
  return static_cast<float>(scale * 1.44269504088896340736);
}

namespace {

Unmet is_operand(const char* name, const View& view, DType dtype, std::int64_t width) {
  if (view.dtype != dtype) return Misfit{name, dtype_condition(dtype)};
  if (view.width != width) return Misfit{name, "has width #", view.width};
  return mapped(name, view);
}
Unmet holds_states(const char* name, const std::optional<View>& view) {
  if (!view) return {};
  if (view->dtype != DType::fp32) return Misfit{name, "is not fp32"};
  return mapped(name, *view);
}
Unmet is_blocked(const Chunks& chunks) {
  if (chunks.work != ChunkWork::blocked) return Misfit{"", "the work is not cut into blocks"};
  // log2 of a decay factor is held in fp32, and times 0 it must be 0.
  if (std::all_of(chunks.slopes.begin(), chunks.slopes.end(), [](double slope) { return slope < 1e30; }))
    return {};
  return Misfit{"", "a slope is beyond what fp32 holds"};
}
Unmet is_absent(const char* name, bool there) {
  if (there) return Misfit{name, "is asked for"};
  return {};
}

}  // namespace

Unmet unmet_linear_hopper(const LinearLocal& call, DType dtype, std::int64_t D, std::int64_t E) {
  return first_unmet(
      [&] { return is_operand("q", call.q, dtype, D); }, [&] { return is_operand("k", call.k, dtype, D); },
      [&] { return is_operand("v", call.v, dtype, E); }, [&] { return is_blocked(call.chunks); },
      [&] { return is_absent("log_decay", call.log_decay.has_value()); },
      [&] { return is_absent("final_state", call.final_state.has_value()); },
      [&] { return is_result("out", call.out); }, [&] { return holds_states("state", call.state); },
      [&] { return holds_states("carry", call.carry); });
}

Unmet unmet_linear_hopper(const LinearLocalBackward& call, DType dtype, std::int64_t D, std::int64_t E) {
  return first_unmet(
      [&] { return is_operand("q", call.q, dtype, D); }, [&] { return is_operand("k", call.k, dtype, D); },
      [&] { return is_operand("v", call.v, dtype, E); },
      [&] { return is_operand("dout", call.dout, dtype, E); }, [&] { return is_blocked(call.chunks); },
      [&] { return is_absent("log_decay", call.log_decay.has_value()); },
      [&] { return is_absent("final_state", call.final_state.has_value()); },
      [&] { return is_result("dq", call.dq); }, [&] { return is_result("dk", call.dk); },
      [&] { return is_result("dv", call.dv); }, [&] { return holds_states("state", call.state); },
      [&] { return holds_states("carry", call.carry); }, [&] { return holds_states("dstate", call.dstate); },
      [&] { return holds_states("dcarry", call.dcarry); });
}

Unmet unmet_linear_hopper(const LinearState& call, DType dtype, std::int64_t D, std::int64_t E) {
  return first_unmet([&] { return is_operand("k", call.rows, dtype, D); },
                     [&] { return is_operand("v", call.columns, dtype, E); },
                     [&] { return is_blocked(call.chunks); },
                     [&] { return is_absent("log_decay", call.log_decay.has_value()); },
                     [&] { return is_absent("transition", call.transition.has_value()); },
                     [&] { return holds_states("state", call.state); });
}

}  // namespace hopper
}  // namespace cplab::kernels::cuda
