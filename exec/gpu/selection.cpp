// Selections of keys as kernel calls; see selection.hpp.
#include "exec/gpu/selection.hpp"

#include <cuda_runtime.h>

#include <algorithm>

#include "calls/selection.hpp"
#include "kernels/masked.hpp"
#include "plan/layout.hpp"

namespace cplab {
namespace {

using kernels::RowRun;
using kernels::SelectKeys;
using kernels::View;

class DeviceBytes {
 public:
  DeviceBytes(std::size_t bytes, int rank) {
    cuda_require(cudaMalloc(&data_, std::max<std::size_t>(bytes, 1)), "cudaMalloc", rank);
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

class Selection {
 public:
  Selection(const GpuRank& rank, const Problem& problem) : rank_(rank), p_(problem) {}

  // A bias for each pair: rows of one sequence that lie together have as many keys.
  void of_pairs(std::span<const KeySelection::Row> rows) {
    const Buffer &bias = buffer("bias"), &keep = buffer("keep");
    for (std::size_t first = 0, end = 0; first < rows.size(); first = end) {
      while (end < rows.size() && rows[end].sequence == rows[first].sequence) ++end;
      if (rows[first].sequence < 0) continue;
      SelectKeys call = selection_call(p_);
      call.keys = p_.lengths[static_cast<std::size_t>(rows[first].sequence)];
      const auto row = static_cast<std::int64_t>(first), count = static_cast<std::int64_t>(end - first);
      call.bias = columns(bias, 0, bias.width, row, count);
      call.keep = columns(keep, 0, keep.width, row, count);
      add(call);
    }
    launch();
  }

  // One for each key: selected among all of a sequence, then those of the rank go to their rows.
  void of_keys(std::span<const KeySelection::Row> rows, std::span<const double> biases) {
    const Buffer& kv = buffer("kv");
    const kernels::DType dtype = kernel_dtype(kv.role, p_.dtype);
    const auto size = static_cast<std::int64_t>(kernels::bytes_of(dtype));
    const std::int64_t G = p_.kv_heads;
    std::vector<std::byte> image(biases.size() * static_cast<std::size_t>(size));
    for (std::size_t n = 0; n < biases.size(); ++n)
      kernels::store_element(image.data(), dtype, static_cast<std::int64_t>(n), biases[n]);
    const DeviceBytes all(2 * image.size(), rank_.plan().rank);
    cuda_require(cudaMemcpy(all.data(), image.data(), image.size(), cudaMemcpyHostToDevice), "cudaMemcpy",
                 rank_.plan().rank);
    const auto tokens = [&](std::int64_t tensor, std::int64_t first, std::int64_t count) {
      return View{.data = all.data() + tensor * std::ssize(image) + first * G * size,
                  .dtype = dtype,
                  .rows = count,
                  .heads = G,
                  .width = 1,
                  .row_stride = G,
                  .head_stride = 1,
                  .runs = {}};
    };
    std::int64_t first = 0;
    for (std::size_t b = 0; b < p_.lengths.size(); first += p_.padded_lengths[b++]) {
      SelectKeys call = selection_call(p_);
      call.keys = p_.lengths[b];
      call.bias = tokens(0, first, call.keys);
      call.keep = tokens(1, first, call.keys);
      if (call.keys > 0) add(call);
    }
    std::vector<RowRun> from, into;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (rows[row].sequence < 0) continue;
      from.push_back({rows[row].token, 1, 1});
      into.push_back({static_cast<std::int64_t>(row), 1, 1});
    }
    const std::int64_t behind = p_.head_size + p_.value_size;
    for (std::int64_t tensor = 0; tensor < 2; ++tensor) {  // bias, keep
      View source = tokens(tensor, 0, std::ssize(from)),
           target = columns(kv, behind + tensor, 1, 0, std::ssize(into));
      source.runs = from;
      target.runs = into;
      if (!from.empty()) numbers_.push_back(calls_.add_copy(source, target));
    }
    launch();
  }

 private:
  const Buffer& buffer(std::string_view name) const {
    const std::vector<Buffer>& all = rank_.plan().buffers;
    return *std::find_if(all.begin(), all.end(), [&](const Buffer& b) { return b.name == name; });
  }

  // `count` rows of some columns of a plane.
  View columns(const Buffer& b, std::int64_t column, std::int64_t width, std::int64_t first,
               std::int64_t count) const {
    const kernels::DType dtype = kernel_dtype(b.role, p_.dtype);
    const std::int64_t at = element_of(b, 0, 0, 0, column);
    const std::int64_t row_stride = element_of(b, 0, 1, 0, column) - at;
    return {.data = rank_.address(b) +
                    (at + first * row_stride) * static_cast<std::int64_t>(kernels::bytes_of(dtype)),
            .dtype = dtype,
            .rows = count,
            .heads = b.heads,
            .width = width,
            .row_stride = row_stride,
            .head_stride = element_of(b, 0, 0, 1, column) - at,
            .runs = {}};
  }

  void add(const SelectKeys& call) { numbers_.push_back(calls_.add(call)); }

  void launch() {
    const DeviceBytes tables(calls_.table_bytes(), rank_.plan().rank);
    calls_.upload(tables.data());
    for (const std::size_t number : numbers_) calls_.launch(number, nullptr);
    cuda_require(cudaDeviceSynchronize(), "selection of keys", rank_.plan().rank);
  }

  const GpuRank& rank_;
  const Problem& p_;
  kernels::CudaCalls calls_;
  std::vector<std::size_t> numbers_;
};

}  // namespace

void select_keys(const GpuRank& rank, const Problem& problem, std::span<const KeySelection::Row> rows,
                 std::span<const double> biases) {
  rank.use_device();
  Selection selection(rank, problem);
  if (problem.bias == BiasForm::full)
    selection.of_pairs(rows);
  else
    selection.of_keys(rows, biases);
}

}  // namespace cplab
