// Encodes tensor maps. The driver's function is looked up through the runtime, so that nothing links libcuda.
#include "kernels/families/parts/hopper/tensor_map.cuh"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/families/parts/cuda_error.hpp"
#include "kernels/tiles/row_space.hpp"

namespace cplab::kernels::cuda::hopper {

namespace {

constexpr std::int64_t group_bytes = 128;  // a row of the 128-byte swizzle

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode encode_function() {
  static const Encode function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    require_cuda(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result),
        "cudaGetDriverEntryPointByVersion");
    if (result != cudaDriverEntryPointSuccess || found == nullptr)
      throw std::runtime_error("this driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<Encode>(found);
  }();
  return function;
}

void require_encoded(CUresult result) {
  if (result != CUDA_SUCCESS)
    throw std::runtime_error("cuTensorMapEncodeTiled: error " + std::to_string(static_cast<int>(result)));
}

// A map whose box has `rows` rows and `columns` columns, in groups of columns of 128 bytes; or one group of
// them, where the view ends within a group.
CUtensorMap make_map(const DeviceView& view, CUtensorMapDataType type, int rows, std::int64_t columns) {
  CUtensorMap map{};
  if (view.rows == 0 || view.heads == 0) return map;
  const auto bytes = static_cast<std::int64_t>(bytes_of(view.dtype));
  const std::int64_t group = group_bytes / bytes;
  const auto width = static_cast<std::int64_t>(view.width);
  const bool single = has_single_groups(view);
  const cuuint64_t sizes[] = {
      static_cast<cuuint64_t>(single ? width : group), static_cast<cuuint64_t>(view.rows),
      static_cast<cuuint64_t>(single ? 1 : width / group), static_cast<cuuint64_t>(view.heads)};
  // With a single row or head the stride is never used, but must be legal.
  const std::int64_t row_bytes = bytes * (view.rows > 1 ? view.row_stride : width);
  const std::int64_t head_bytes = bytes * (view.heads > 1 ? view.head_stride : width);
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(row_bytes), group_bytes,
                                static_cast<cuuint64_t>(head_bytes)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(group), static_cast<cuuint32_t>(rows),
                            static_cast<cuuint32_t>(single ? 1 : columns / group), 1};
  const cuuint32_t steps[] = {1, 1, 1, 1};
  require_encoded(encode_function()(&map, type, 4, view.data, sizes, strides, box, steps,
                                    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

CUtensorMapDataType type_of(DType dtype) {
  switch (dtype) {
    case DType::bf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::fp16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::fp32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::fp64: break;
  }
  throw std::logic_error("a tensor map of fp64");
}

}  // namespace

CUtensorMap tensor_map(const DeviceView& view, int rows) {
  return padded_map(view, rows, view.width);
}

CUtensorMap padded_map(const DeviceView& view, int rows, int columns) {
  return make_map(view, type_of(view.dtype), rows, columns);
}

CUtensorMap group_map(const DeviceView& view, int rows) {
  return make_map(view, type_of(view.dtype), rows,
                  group_bytes / static_cast<std::int64_t>(bytes_of(view.dtype)));
}

CUtensorMap accumulator_map(const DeviceView& view, int rows) {
  return make_map(view, type_of(view.dtype), rows, 64);
}

CUtensorMap heads_map(const DeviceView& view, int rows) {
  CUtensorMap map{};
  if (view.rows == 0 || view.heads == 0) return map;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(view.heads), static_cast<cuuint64_t>(view.rows)};
  // With a single row the stride is never used, but must be legal.
  const std::int64_t stride = view.rows > 1 ? view.row_stride : (view.heads + 3) / 4 * 4;
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride) * sizeof(float)};
  const cuuint32_t box[] = {heads_of_map, static_cast<cuuint32_t>(rows)};
  const cuuint32_t steps[] = {1, 1};
  require_encoded(encode_function()(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, view.data, sizes, strides, box,
                                    steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                    CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

}  // namespace cplab::kernels::cuda::hopper
