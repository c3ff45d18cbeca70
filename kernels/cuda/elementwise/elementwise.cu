// The row-wise kernels; see elementwise.hpp for what they do and row_groups.cuh for how rows are distributed.
#include "kernels/cuda/elementwise/elementwise.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <stdexcept>

#include "kernels/cuda/elementwise/row_groups.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/work/measured_constants.hpp"

namespace cplab::kernels::cuda {
namespace {

// into = from, with one rounding.
template <class T, int N>
struct Cast {
  DeviceView from, into;

  __device__ void run(const Group& group) const {
    if (!group.active) return;
    const std::int64_t source = row_offset(from, group.row, group.head);
    const std::int64_t target = row_offset(into, group.row, group.head);
    for (std::int32_t x = group.lane * N; x < into.width; x += group.lanes * N)
      store_pack(load_pack<T, N>(from, source + x), into, target + x);
  }
};

// into += from, with one rounding.
template <class T, int N>
struct Add {
  DeviceView from, into;

  __device__ void run(const Group& group) const {
    if (!group.active) return;
    const std::int64_t source = row_offset(from, group.row, group.head);
    const std::int64_t target = row_offset(into, group.row, group.head);
    for (std::int32_t x = group.lane * N; x < into.width; x += group.lanes * N) {
      Pack<T, N> sum = load_pack<T, N>(into, target + x);
      const Pack<T, N> addend = load_pack<T, N>(from, source + x);
#pragma unroll
      for (int i = 0; i < N; ++i) sum.value[i] += addend.value[i];
      store_pack(sum, into, target + x);
    }
  }
};

// into = max(into, from); NaN if either is.
template <class T>
struct Maximum {
  DeviceView from, into;

  __device__ void run(const Group& group) const {
    if (!group.active) return;
    const std::int64_t source = row_offset(from, group.row, group.head);
    const std::int64_t target = row_offset(into, group.row, group.head);
    for (std::int32_t x = group.lane; x < into.width; x += group.lanes) {
      const T other = load_element_as<T>(from.data, from.dtype, source + x);
      const T held = load_element_as<T>(into.data, into.dtype, target + x);
      if (other > held || other != other) store_element_as<T>(other, into.data, into.dtype, target + x);
    }
  }
};

// Views whose widths and strides count elements of type Unit, whatever dtype they hold.
template <class Unit>
struct MoveBits {
  DeviceView from, into;

  __device__ void run(const Group& group) const {
    if (!group.active) return;
    const Unit* source = static_cast<const Unit*>(from.data) + row_offset(from, group.row, group.head);
    Unit* target = static_cast<Unit*>(into.data) + row_offset(into, group.row, group.head);
    for (std::int32_t x = group.lane; x < into.width; x += group.lanes) target[x] = source[x];
  }
};

template <class Unit>
struct FillBits {
  DeviceView into;
  Unit bits;

  __device__ void run(const Group& group) const {
    if (!group.active) return;
    Unit* target = static_cast<Unit*>(into.data) + row_offset(into, group.row, group.head);
    for (std::int32_t x = group.lane; x < into.width; x += group.lanes) target[x] = bits;
  }
};

template <class T, int N>
struct RowDot {
  DeviceView a, b, into;

  __device__ void run(const Group& group) const {
    T sum = 0;
    if (group.active) {
      const std::int64_t a_row = row_offset(a, group.row, group.head);
      const std::int64_t b_row = row_offset(b, group.row, group.head);
      for (std::int32_t x = group.lane * N; x < a.width; x += group.lanes * N) {
        const Pack<T, N> left = load_pack<T, N>(a, a_row + x);
        const Pack<T, N> right = load_pack<T, N>(b, b_row + x);
#pragma unroll
        for (int i = 0; i < N; ++i) sum += left.value[i] * right.value[i];
      }
    }
    for (std::int32_t distance = group.lanes / 2; distance > 0; distance /= 2)
      sum += __shfl_xor_sync(~0U, sum, distance);
    if (group.active && group.lane == 0)
      store_element_as<T>(sum, into.data, into.dtype, row_offset(into, group.row, group.head));
  }
};

template <class T, int N>
struct MergeRows {
  MergeParams p;

  __device__ void run(const Group& group) const {
    T part = 0;
    T held = 0;
    if (group.active) {
      part = load_first<T>(p.part_lse, group.row, group.head);
      held = load_first<T>(p.into_lse, group.row, group.head);
    }
    __syncwarp();  // all lanes have read the lse that one of them writes below
    const bool no_part = part == minus_infinity<T>();
    const bool holds = held != minus_infinity<T>();
    if (!group.active || (no_part && holds)) return;
    const T merged = holds ? merged_lse(held, part) : part;
    const T held_weight = exp(held - merged);
    const T part_weight = exp(part - merged);
    const std::int64_t source = row_offset(p.part_out, group.row, group.head);
    const std::int64_t target = row_offset(p.into_out, group.row, group.head);
    for (std::int32_t x = group.lane * N; x < p.into_out.width; x += group.lanes * N) {
      Pack<T, N> out = {};
      if (!no_part) out = load_pack<T, N>(p.part_out, source + x);
      if (holds) {
        const Pack<T, N> old = load_pack<T, N>(p.into_out, target + x);
#pragma unroll
        for (int i = 0; i < N; ++i) out.value[i] = old.value[i] * held_weight + out.value[i] * part_weight;
      }
      store_pack(out, p.into_out, target + x);
    }
    if (group.lane == 0 && !no_part)
      store_element_as<T>(merged, p.into_lse.data, p.into_lse.dtype,
                          row_offset(p.into_lse, group.row, group.head));
  }
};

template <class T>
struct MergeLseRows {
  DeviceView part_lse, into_lse;

  __device__ void run(const Group& group) const {
    if (!group.active || group.lane != 0) return;
    const T part = load_first<T>(part_lse, group.row, group.head);
    if (part == minus_infinity<T>()) return;
    const std::int64_t target = row_offset(into_lse, group.row, group.head);
    const T held = load_element_as<T>(into_lse.data, into_lse.dtype, target);
    const T merged = held == minus_infinity<T>() ? part : merged_lse(held, part);
    store_element_as<T>(merged, into_lse.data, into_lse.dtype, target);
  }
};

template <class T, int N>
struct RescaleRows {
  RescaleParams p;

  __device__ void run(const Group& group) const {
    if (!group.active) return;
    const T lse = load_first<T>(p.part_lse, group.row, group.head);
    const bool empty = lse == minus_infinity<T>();
    const bool add = p.write == Write::add;
    if (empty && add) return;
    const T weight = empty ? T(0) : exp(lse - load_first<T>(p.final_lse, group.row, group.head));
    const std::int64_t source = row_offset(p.part_out, group.row, group.head);
    const std::int64_t target = row_offset(p.into_out, group.row, group.head);
    for (std::int32_t x = group.lane * N; x < p.into_out.width; x += group.lanes * N) {
      Pack<T, N> sum = {};
      if (add) sum = load_pack<T, N>(p.into_out, target + x);
      if (!empty) {
        const Pack<T, N> part = load_pack<T, N>(p.part_out, source + x);
#pragma unroll
        for (int i = 0; i < N; ++i) sum.value[i] += part.value[i] * weight;
      }
      store_pack(sum, p.into_out, target + x);
    }
  }
};

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
  const std::int64_t pieces = (std::int64_t{width} + per_lane - 1) / per_lane;
  while (grid.log2_lanes < 5 && (1 << grid.log2_lanes) < pieces) ++grid.log2_lanes;
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

template <class Operation>
const void* kernel_of() {
  return reinterpret_cast<const void*>(&row_groups<Operation>);
}

}  // namespace

static void launch_row_dot(const DeviceView& a, const DeviceView& b, const DeviceView& into,
                           CUstream_st* stream) {
  // A width of 0 still has results: an empty sum is 0.
  const std::int32_t width = std::max(a.width, 1);
  launch_by<RowDot>(any_fp64({&a, &b, &into}), in_pieces({&a, &b}, 16, 8), into, width, stream, a, b, into);
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

void launch_rowwise(const RowwiseParams& p, CUstream_st* stream) {
  if (p.a.in_space || p.b.in_space || p.into.in_space)
    throw std::logic_error("a row-wise kernel was given rows that are not all the call's");
  switch (p.kind) {
    case Rowwise::Kind::row_dot: return launch_row_dot(p.a, p.b, p.into, stream);
    case Rowwise::Kind::copy: return launch_copy(p.a, p.into, stream);
    case Rowwise::Kind::add: return launch_add(p.a, p.into, stream);
    case Rowwise::Kind::maximum: return launch_maximum(p.a, p.into, stream);
    case Rowwise::Kind::fill: return queue_fill(p.into, p.value, stream);
  }
}

std::span<const NamedKernel> elementwise_kernels() {
  static const NamedKernel kernels[] = {
      {"row_dot fp32", "row_dot", kernel_of<RowDot<float, 1>>()},
      {"row_dot fp32 vector", "row_dot", kernel_of<RowDot<float, 8>>()},
      {"row_dot fp64", "row_dot", kernel_of<RowDot<double, 1>>()},
      {"row_dot fp64 vector", "row_dot", kernel_of<RowDot<double, 8>>()},
      {"merge fp32", "merge", kernel_of<MergeRows<float, 1>>()},
      {"merge fp32 vector", "merge", kernel_of<MergeRows<float, 8>>()},
      {"merge fp64", "merge", kernel_of<MergeRows<double, 1>>()},
      {"merge fp64 vector", "merge", kernel_of<MergeRows<double, 8>>()},
      {"merge_lse fp32", "merge_lse", kernel_of<MergeLseRows<float>>()},
      {"merge_lse fp64", "merge_lse", kernel_of<MergeLseRows<double>>()},
      {"rescale fp32", "rescale", kernel_of<RescaleRows<float, 1>>()},
      {"rescale fp32 vector", "rescale", kernel_of<RescaleRows<float, 8>>()},
      {"rescale fp64", "rescale", kernel_of<RescaleRows<double, 1>>()},
      {"rescale fp64 vector", "rescale", kernel_of<RescaleRows<double, 8>>()},
      {"copy 2 bytes", "copy", kernel_of<MoveBits<std::uint16_t>>()},
      {"copy 4 bytes", "copy", kernel_of<MoveBits<std::uint32_t>>()},
      {"copy 8 bytes", "copy", kernel_of<MoveBits<std::uint64_t>>()},
      {"copy 16 bytes", "copy", kernel_of<MoveBits<uint4>>()},
      {"cast fp32", "copy", kernel_of<Cast<float, 1>>()},
      {"cast fp32 vector", "copy", kernel_of<Cast<float, 8>>()},
      {"cast fp64", "copy", kernel_of<Cast<double, 1>>()},
      {"cast fp64 vector", "copy", kernel_of<Cast<double, 8>>()},
      {"add fp32", "add", kernel_of<Add<float, 1>>()},
      {"add fp32 vector", "add", kernel_of<Add<float, 8>>()},
      {"add fp64", "add", kernel_of<Add<double, 1>>()},
      {"add fp64 vector", "add", kernel_of<Add<double, 8>>()},
      {"maximum fp32", "maximum", kernel_of<Maximum<float>>()},
      {"maximum fp64", "maximum", kernel_of<Maximum<double>>()},
      {"fill 2 bytes", "fill", kernel_of<FillBits<std::uint16_t>>()},
      {"fill 4 bytes", "fill", kernel_of<FillBits<std::uint32_t>>()},
      {"fill 8 bytes", "fill", kernel_of<FillBits<std::uint64_t>>()},
      {"fill 16 bytes", "fill", kernel_of<FillBits<uint4>>()},
  };
  return kernels;
}

}  // namespace cplab::kernels::cuda
