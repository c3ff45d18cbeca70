// Forward attention for any width and dtype: the online softmax over blocks of 32 keys, as in
// kernels/cpu/attend.cpp. One thread block per work tile and query head.
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/general/general.hpp"
#include "kernels/cuda/general/online_softmax.cuh"
#include "kernels/cuda/general/tile.cuh"

namespace cplab::kernels::cuda {
namespace {

// The maxima of the warp's rows, of the last columns, to max_logit.
template <class T>
__device__ inline void raise_max_logit(const AttendParams& params, std::int32_t head, std::int32_t first,
                                       std::int32_t end, const Online<T>& online) {
  if (params.max_logit == nullptr) return;
  T highest = minus_infinity<T>();
#pragma unroll
  for (std::int32_t i = 0; i < rows_per_warp; ++i)
    if (first + general_warps * i < end && online.maximum[i] > highest) highest = online.maximum[i];
  if (threadIdx.x % 32 == 0 && highest != minus_infinity<T>())
    atomic_max(static_cast<T*>(params.max_logit) + head * params.max_logit_stride, highest);
}

template <class T>
__global__ void __launch_bounds__(general_threads)
    attend_general(const __grid_constant__ AttendParams params) {
  __shared__ ScoreBlock<T> scores;
  __shared__ OperandBlock<T> q_block, k_block;
  __shared__ ColumnBlock<T> values;
  constexpr std::int32_t columns = GeneralShape<T>::columns;
  const WorkTile tile = params.work.tiles[blockIdx.x];
  const auto head = static_cast<std::int32_t>(blockIdx.y);
  const std::int32_t kv_head = head / (params.q.heads / params.k.heads);
  const std::int32_t warp = static_cast<std::int32_t>(threadIdx.x) / 32;
  const std::int32_t lane = static_cast<std::int32_t>(threadIdx.x) % 32;
  const T scale = static_cast<T>(params.scale);
  const RowBlock q_rows{params.q, head, tile.begin, tile.end};

  // Values wider than `columns` take several passes, each with the scores computed opaque.
  for (std::int32_t column = 0; column < params.v.width; column += columns) {
    Online<T> online;
    Accumulator<T> out = {};
#pragma unroll
    for (std::int32_t i = 0; i < rows_per_warp; ++i) {
      online.maximum[i] = minus_infinity<T>();
      online.sum[i] = 0;
    }
    for (std::int32_t s = 0; s < tile.count; ++s) {
      const DeviceSegment segment = params.work.segments[tile.first + s];
      const std::int32_t begin = max(tile.begin, segment.q_begin);
      const std::int32_t end = min(tile.end, segment.q_end);
      if (begin >= end) continue;
      const std::int32_t keys_begin = max(segment.k_begin, begin + segment.low);
      const std::int32_t keys_end = min(segment.k_end, end + segment.high);
      for (std::int32_t key = keys_begin; key < keys_end; key += general_rows) {
        multiply_rows<T>(q_rows, {params.k, kv_head, key, keys_end}, q_block, k_block, scores);
        load_columns<T>({params.v, kv_head, key, keys_end}, column, values, columns);
        __syncthreads();
        std::uint32_t masks[rows_per_warp];
#pragma unroll
        for (std::int32_t i = 0; i < rows_per_warp; ++i) {
          const std::int32_t row = tile.begin + warp + general_warps * i;
          const std::int32_t j = key + lane;
          masks[i] = __ballot_sync(~0U, row >= begin && row < end && j < keys_end && j >= row + segment.low &&
                                            j <= row + segment.high);
        }
        softmax_step<T>(scores, masks, scale, params.v.dtype, online, out);
        accumulate<T>(scores, masks, values, out);
      }
    }
    if (column + columns >= params.v.width)
      raise_max_logit<T>(params, head, tile.begin + warp, tile.end, online);
#pragma unroll
    for (std::int32_t i = 0; i < rows_per_warp; ++i) {
      const std::int32_t row = tile.begin + warp + general_warps * i;
      if (row < tile.end)
        write_row<T>(params, row, head, column + lane, column + columns >= params.v.width, online.maximum[i],
                     online.sum[i], out[i]);
    }
  }
}

template <class T>
void launch_general(const AttendParams& params, CUstream_st* stream) {
  if (params.work.count == 0 || params.q.heads == 0) return;
  const dim3 grid(static_cast<unsigned>(params.work.count), static_cast<unsigned>(params.q.heads));
  attend_general<T><<<grid, general_threads, 0, stream>>>(params);
}

template <class T>
AttendKernel kernel_of(DType accumulator) {
  static const KernelFunction functions[] = {kernel_function<attend_general<T>>(general_shape)};
  return {.name = general_forward_name(accumulator),
          .bind = bind_parameters<launch_general<T>, AttendParams>,
          .functions = functions};
}

}  // namespace

std::vector<AttendKernel> general_forward_kernels() {
  return {
      kernel_of<float>(DType::fp32),
#ifdef CPLAB_FULL_KERNELS
      kernel_of<double>(DType::fp64),
#endif
  };
}

}  // namespace cplab::kernels::cuda
