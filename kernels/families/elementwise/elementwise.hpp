// The row-wise kernels: row_dot, merge, merge_lse, rescale, copy and cast, add, maximum, fill. Views are of
// one shape (of width 1 for lse and results of row_dot) and may be of any dtype, layout and alignment; memory
// is moved in 16-byte pieces where widths, strides and addresses allow it. They compute in fp32, in fp64 if a
// view is fp64. Beside them what sums over rows: the gradient of sinks, short convolutions.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/kernel_function.hpp"
#include "kernels/tiles/linear_params.hpp"
#include "kernels/tiles/params.hpp"

struct CUstream_st;

namespace cplab::kernels::cuda {

struct MergeParams {
  DeviceView part_out, part_lse, into_out, into_lse;
};

struct RescaleParams {
  DeviceView part_out, part_lse, final_lse, into_out;
  Write write = Write::add;
};

struct RowwiseParams {
  Rowwise::Kind kind = Rowwise::Kind::copy;
  DeviceView a, b, into;
  double value = 0;
};

struct SinkGradientParams {
  DeviceView sink, lse, delta, dsink;
};

// Convolutions (kernels/linear.hpp), of at most so many factors a column. tiles: chunks in short parts; the
// halo has no memory where no chunk names rows of it.
inline constexpr int most_taps = 8;
struct ConvolveParams {
  DeviceView from, filter, halo, into;
  const DeviceChunk* tiles = nullptr;
  std::int32_t count = 0;
  std::int32_t taps = 0;
  bool reverse = false;
};
struct FilterGradientParams {
  DeviceView from, dout, halo, dfilter;
  const DeviceChunk* tiles = nullptr;
  std::int32_t count = 0;
  std::int32_t taps = 0;
};

// "row_dot", "copy", "cast", ...
const char* rowwise_name(const Rowwise&);

// Each queues one kernel, or nothing if the views are empty; cudaGetLastError says whether it went. Views in
// a row space are refused (std::logic_error): some of their rows are not the call's.
void launch_merge(const MergeParams& params, CUstream_st* stream);
void launch_merge_lse(const DeviceView& part, const DeviceView& into, CUstream_st* stream);
void launch_rescale(const RescaleParams& params, CUstream_st* stream);
void launch_rowwise(const RowwiseParams& params, CUstream_st* stream);
void launch_sink_gradient(const SinkGradientParams& params, CUstream_st* stream);
void launch_convolve(const ConvolveParams& params, CUstream_st* stream);
void launch_filter_gradient(const FilterGradientParams& params, CUstream_st* stream);
inline void launch_fill(const DeviceView& into, double value, CUstream_st* stream) {
  launch_rowwise({Rowwise::Kind::fill, {}, {}, into, value}, stream);
}

// What a backward call needs before its tiles: delta = rowsum(dout * out), and zeros, in `zeroed`, which has
// the rows and heads of delta, and in dk and dv. dout, out and delta are empty where the caller has delta,
// the others where nothing is to be set to 0.
struct PreparationParams {
  DeviceView dout, out, delta, zeroed, zeroed_dk, zeroed_dv;
  // Where it is one launch: the next kernel may begin only when all that came before this one has ended.
  bool waits_first = false;
};
// Whether launch_preparation() can do it in one launch; else it takes one for each, or none.
bool prepares_at_once(const PreparationParams& params);
void launch_preparation(const PreparationParams& params, CUstream_st* stream);  // refuses what those do

struct NamedKernel {
  const char* name;  // as rowwise_name()
  const char* part;  // "fp32 vector": memory is moved in 16-byte pieces
  KernelFunction function;
};
std::span<const NamedKernel> elementwise_kernels();  // all of them
std::span<const NamedKernel> sink_gradient_kernels();
std::span<const NamedKernel> convolution_kernels();

}  // namespace cplab::kernels::cuda
