// The row-wise kernels; see elementwise.hpp for what they do and row_groups.cuh for how rows are distributed.
#include "kernels/families/elementwise/elementwise.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <stdexcept>
#include <vector>

#include "kernels/families/elementwise/operations.cuh"
#include "kernels/families/elementwise/row_groups.cuh"
#include "kernels/families/parts/launch.cuh"
#include "kernels/tiles/measured_constants.hpp"

namespace cplab::kernels::cuda {
namespace {

// Launches an operation on rows of `width` elements, per_lane of them a lane at a time. `leading` is a view
// that is written: whether rows or heads are closer together in it decides which of them neighbouring groups
// take.
template <class Operation>
void launch(const Operation& operation, const DeviceView& leading, std::int32_t width, int per_lane,
            CUstream_st* stream) {
  RowGrid grid{.rows_times_heads = static_cast<std::uint64_t>(leading.rows) * leading.heads,
               .rows = static_cast<std::uint32_t>(leading.rows),
               .heads = static_cast<std::uint32_t>(leading.heads),
               .heads_first = std::abs(leading.head_stride) <= std::abs(leading.row_stride)};
  if (grid.rows_times_heads == 0 || width == 0) return;
  // As many lanes as take the row at once, but not fewer than four, if it has four pieces: together they read
  // whole sectors.
  const std::int64_t pieces = (std::int64_t{width} + per_lane - 1) / per_lane;
  const std::int64_t lanes =
      std::max((pieces + Operation::packs - 1) / Operation::packs, std::min<std::int64_t>(pieces, 4));
  while (grid.log2_lanes < 5 && (1 << grid.log2_lanes) < lanes) ++grid.log2_lanes;
  const std::uint64_t groups_per_block = group_threads >> grid.log2_lanes;
  const std::uint64_t blocks = (grid.rows_times_heads + groups_per_block - 1) / groups_per_block;
  constexpr auto most_blocks = static_cast<std::uint64_t>(measured("elementwise_most_blocks"));
  launch_dependent(row_groups<Operation>, static_cast<unsigned>(std::min(blocks, most_blocks)), group_threads,
                   0, stream, operation, grid);
}

std::int64_t element_bytes(DType dtype) {
  return static_cast<std::int64_t>(bytes_of(dtype));
}

// Whether rows of all views can be moved in pieces of `elements` elements and 16 bytes.
bool in_pieces(std::initializer_list<const DeviceView*> views, std::int64_t bytes, std::int64_t elements) {
  for (const DeviceView* view : views) {
    const std::int64_t size = element_bytes(view->dtype);
    if (reinterpret_cast<std::uintptr_t>(view->data) % static_cast<std::uintptr_t>(bytes) != 0) return false;
    if (view->row_stride * size % bytes != 0 || view->head_stride * size % bytes != 0) return false;
    if (view->width % elements != 0) return false;
  }
  return true;
}

bool any_fp64(std::initializer_list<const DeviceView*> views) {
  return std::any_of(views.begin(), views.end(),
                     [](const DeviceView* view) { return view->dtype == DType::fp64; });
}

// Launches Operation<T, N>: T by the dtypes of all views, N by what the row views allow.
template <template <class, int> class Operation, class... Arguments>
void launch_by(bool fp64, bool vector, const DeviceView& leading, std::int32_t width, CUstream_st* stream,
               const Arguments&... arguments) {
  if (fp64 && vector) return launch(Operation<double, 8>{arguments...}, leading, width, 8, stream);
  if (fp64) return launch(Operation<double, 1>{arguments...}, leading, width, 1, stream);
  if (vector) return launch(Operation<float, 8>{arguments...}, leading, width, 8, stream);
  launch(Operation<float, 1>{arguments...}, leading, width, 1, stream);
}

// The same memory counted in units of `bytes`.
DeviceView in_units(DeviceView view, std::int64_t bytes) {
  const std::int64_t size = element_bytes(view.dtype);
  view.width = static_cast<std::int32_t>(view.width * size / bytes);
  view.row_stride = view.row_stride * size / bytes;
  view.head_stride = view.head_stride * size / bytes;
  return view;
}

// The widest unit, of at most 16 bytes, in which the rows of all views, of one dtype, can be moved.
std::int64_t unit_bytes(std::initializer_list<const DeviceView*> views) {
  const std::int64_t size = element_bytes((*views.begin())->dtype);
  for (std::int64_t bytes = 16; bytes > size; bytes /= 2)
    if (in_pieces(views, bytes, bytes / size)) return bytes;
  return size;
}

template <class Unit>
void launch_move(const DeviceView& from, const DeviceView& into, CUstream_st* stream) {
  const DeviceView target = in_units(into, sizeof(Unit));
  launch(MoveBits<Unit>{in_units(from, sizeof(Unit)), target}, target, target.width, 1, stream);
}

template <class Unit>
void launch_fill_bits(const DeviceView& into, const std::uint64_t (&bits)[2], CUstream_st* stream) {
  const DeviceView target = in_units(into, sizeof(Unit));
  launch(FillBits<Unit>{target, *reinterpret_cast<const Unit*>(bits)}, target, target.width, 1, stream);
}

template <class T, int N>
using WideRowDot = RowDot<T, N, sizeof(T)>;

template <class Operation>
KernelFunction kernel_of() {
  return kernel_function<row_groups<Operation>>({.threads = group_threads});
}

}  // namespace

static void launch_row_dot(const DeviceView& a, const DeviceView& b, const DeviceView& into,
                           CUstream_st* stream) {
  // A width of 0 still has results: an empty sum is 0.
  const std::int32_t width = std::max(a.width, 1);
  const bool fp64 = any_fp64({&a, &b, &into}), vector = in_pieces({&a, &b}, 16, 8);
  const bool narrow = element_bytes(a.dtype) == 2 && element_bytes(b.dtype) == 2;
  if (!fp64 && vector && narrow) return launch(RowDot<float, 8, 2>{a, b, into}, into, width, 8, stream);
  launch_by<WideRowDot>(fp64, vector, into, width, stream, a, b, into);
}

void launch_merge(const MergeParams& p, CUstream_st* stream) {
  const bool fp64 = any_fp64({&p.part_out, &p.part_lse, &p.into_out, &p.into_lse});
  const std::int32_t width = std::max(p.into_out.width, 1);  // the lse is merged for a width of 0, too
  launch_by<MergeRows>(fp64, in_pieces({&p.part_out, &p.into_out}, 16, 8), p.into_out, width, stream, p);
}

void launch_merge_lse(const DeviceView& part, const DeviceView& into, CUstream_st* stream) {
  if (any_fp64({&part, &into})) return launch(MergeLseRows<double>{part, into}, into, 1, 1, stream);
  launch(MergeLseRows<float>{part, into}, into, 1, 1, stream);
}

void launch_rescale(const RescaleParams& p, CUstream_st* stream) {
  const bool fp64 = any_fp64({&p.part_out, &p.part_lse, &p.final_lse, &p.into_out});
  launch_by<RescaleRows>(fp64, in_pieces({&p.part_out, &p.into_out}, 16, 8), p.into_out, p.into_out.width,
                         stream, p);
}

static void launch_copy(const DeviceView& from, const DeviceView& into, CUstream_st* stream) {
  if (from.dtype != into.dtype) {
    launch_by<Cast>(any_fp64({&from, &into}), in_pieces({&from, &into}, 16, 8), into, into.width, stream,
                    from, into);
    return;
  }
  // Copies bits, not values: a NaN keeps its payload, and memory that was never written may be copied.
  switch (unit_bytes({&from, &into})) {
    case 16: return launch_move<uint4>(from, into, stream);
    case 8: return launch_move<std::uint64_t>(from, into, stream);
    case 4: return launch_move<std::uint32_t>(from, into, stream);
    default: return launch_move<std::uint16_t>(from, into, stream);
  }
}

static void launch_add(const DeviceView& from, const DeviceView& into, CUstream_st* stream) {
  launch_by<Add>(any_fp64({&from, &into}), in_pieces({&from, &into}, 16, 8), into, into.width, stream, from,
                 into);
}

static void launch_maximum(const DeviceView& from, const DeviceView& into, CUstream_st* stream) {
  if (any_fp64({&from, &into})) return launch(Maximum<double>{from, into}, into, into.width, 1, stream);
  launch(Maximum<float>{from, into}, into, into.width, 1, stream);
}

static void queue_fill(const DeviceView& into, double value, CUstream_st* stream) {
  alignas(16) std::uint64_t bits[2] = {};
  for (std::int64_t i = 0; i < 16 / element_bytes(into.dtype); ++i) store_element(bits, into.dtype, i, value);
  switch (unit_bytes({&into})) {
    case 16: return launch_fill_bits<uint4>(into, bits, stream);
    case 8: return launch_fill_bits<std::uint64_t>(into, bits, stream);
    case 4: return launch_fill_bits<std::uint32_t>(into, bits, stream);
    default: return launch_fill_bits<std::uint16_t>(into, bits, stream);
  }
}

const char* rowwise_name(const Rowwise& call) {
  switch (call.kind) {
    case Rowwise::Kind::row_dot: return "row_dot";
    case Rowwise::Kind::copy: return call.a.dtype == call.into.dtype ? "copy" : "cast";
    case Rowwise::Kind::add: return "add";
    case Rowwise::Kind::maximum: return "maximum";
    case Rowwise::Kind::fill: return "fill";
  }
  return "";
}

static void require_all_rows(std::initializer_list<const DeviceView*> views) {
  if (std::any_of(views.begin(), views.end(), [](const DeviceView* view) { return view->in_space; }))
    throw std::logic_error("a row-wise kernel was given rows that are not all the call's");
}

void launch_rowwise(const RowwiseParams& p, CUstream_st* stream) {
  require_all_rows({&p.a, &p.b, &p.into});
  switch (p.kind) {
    case Rowwise::Kind::row_dot: return launch_row_dot(p.a, p.b, p.into, stream);
    case Rowwise::Kind::copy: return launch_copy(p.a, p.into, stream);
    case Rowwise::Kind::add: return launch_add(p.a, p.into, stream);
    case Rowwise::Kind::maximum: return launch_maximum(p.a, p.into, stream);
    case Rowwise::Kind::fill: return queue_fill(p.into, p.value, stream);
  }
}

static bool zeroed_in_pieces(const DeviceView& zeroed) {
  return zeroed.width == 0 || unit_bytes({&zeroed}) == 16;
}

bool prepares_at_once(const PreparationParams& p) {
  const bool narrow = element_bytes(p.dout.dtype) == 2 && element_bytes(p.out.dtype) == 2;
  return p.delta.rows > 0 && p.delta.heads > 0 && p.delta.dtype == DType::fp32 && p.dout.width > 0 &&
         narrow && in_pieces({&p.dout, &p.out}, 16, 8) && zeroed_in_pieces(p.zeroed) &&
         zeroed_in_pieces(p.zeroed_dk) && zeroed_in_pieces(p.zeroed_dv);
}

void launch_preparation(const PreparationParams& p, CUstream_st* stream) {
  require_all_rows({&p.dout, &p.out, &p.delta, &p.zeroed, &p.zeroed_dk, &p.zeroed_dv});
  const bool zeros = p.zeroed.width + p.zeroed_dk.width + p.zeroed_dv.width > 0;
  if (prepares_at_once(p) && (zeros || p.waits_first)) {  // else row_dot alone is 0.5 us faster
    const RowDot<float, 8, 2> dot{p.dout, p.out, p.delta};
    const Preparation all{dot, in_units(p.zeroed, 16), in_units(p.zeroed_dk, 16), in_units(p.zeroed_dv, 16),
                          p.waits_first};
    return launch(all, p.delta, p.dout.width, 8, stream);
  }
  launch_rowwise({Rowwise::Kind::row_dot, p.dout, p.out, p.delta, 0}, stream);
  for (const DeviceView* zeroed : {&p.zeroed, &p.zeroed_dk, &p.zeroed_dv}) launch_fill(*zeroed, 0, stream);
}

std::span<const NamedKernel> elementwise_kernels() {
  static const std::vector<NamedKernel> kernels = [] {
    std::vector<NamedKernel> all{
        {"row_dot", "fp32", kernel_of<WideRowDot<float, 1>>()},
        {"row_dot", "fp32 vector", kernel_of<WideRowDot<float, 8>>()},
        {"row_dot", "2 bytes vector", kernel_of<RowDot<float, 8, 2>>()},
        {"row_dot", "2 bytes vector, and zeros", kernel_of<Preparation>()},
        {"row_dot", "fp64", kernel_of<WideRowDot<double, 1>>()},
        {"row_dot", "fp64 vector", kernel_of<WideRowDot<double, 8>>()},
        {"merge", "fp32", kernel_of<MergeRows<float, 1>>()},
        {"merge", "fp32 vector", kernel_of<MergeRows<float, 8>>()},
        {"merge", "fp64", kernel_of<MergeRows<double, 1>>()},
        {"merge", "fp64 vector", kernel_of<MergeRows<double, 8>>()},
        {"merge_lse", "fp32", kernel_of<MergeLseRows<float>>()},
        {"merge_lse", "fp64", kernel_of<MergeLseRows<double>>()},
        {"rescale", "fp32", kernel_of<RescaleRows<float, 1>>()},
        {"rescale", "fp32 vector", kernel_of<RescaleRows<float, 8>>()},
        {"rescale", "fp64", kernel_of<RescaleRows<double, 1>>()},
        {"rescale", "fp64 vector", kernel_of<RescaleRows<double, 8>>()},
        {"copy", "2 bytes", kernel_of<MoveBits<std::uint16_t>>()},
        {"copy", "4 bytes", kernel_of<MoveBits<std::uint32_t>>()},
        {"copy", "8 bytes", kernel_of<MoveBits<std::uint64_t>>()},
        {"copy", "16 bytes", kernel_of<MoveBits<uint4>>()},
        {"cast", "fp32", kernel_of<Cast<float, 1>>()},
        {"cast", "fp32 vector", kernel_of<Cast<float, 8>>()},
        {"cast", "fp64", kernel_of<Cast<double, 1>>()},
        {"cast", "fp64 vector", kernel_of<Cast<double, 8>>()},
        {"add", "fp32", kernel_of<Add<float, 1>>()},
        {"add", "fp32 vector", kernel_of<Add<float, 8>>()},
        {"add", "fp64", kernel_of<Add<double, 1>>()},
        {"add", "fp64 vector", kernel_of<Add<double, 8>>()},
        {"maximum", "fp32", kernel_of<Maximum<float>>()},
        {"maximum", "fp64", kernel_of<Maximum<double>>()},
        {"fill", "2 bytes", kernel_of<FillBits<std::uint16_t>>()},
        {"fill", "4 bytes", kernel_of<FillBits<std::uint32_t>>()},
        {"fill", "8 bytes", kernel_of<FillBits<std::uint64_t>>()},
        {"fill", "16 bytes", kernel_of<FillBits<uint4>>()},
    };
    for (const NamedKernel& kernel : sink_gradient_kernels()) all.push_back(kernel);
    for (const NamedKernel& kernel : convolution_kernels()) all.push_back(kernel);
    return all;
  }();
  return kernels;
}

}  // namespace cplab::kernels::cuda
