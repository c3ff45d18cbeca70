// The frame of the row-wise kernels: a group of lanes, a power of two of them within a warp, does one row of
// one head.
#pragma once

#include <cstdint>

#include "kernels/cuda/parts/element.cuh"
#include "kernels/cuda/parts/primitives.cuh"
#include "kernels/work/params.hpp"

namespace cplab::kernels::cuda {

constexpr int group_threads = 256;

struct RowGrid {
  std::uint64_t rows_times_heads = 0;
  std::uint32_t rows = 0;
  std::uint32_t heads = 0;
  std::int32_t log2_lanes = 0;
  bool heads_first = true;  // neighbouring groups take neighbouring heads, else neighbouring rows
};

// The row that a group is to do. Inactive groups only take part in what a whole warp must do together.
struct Group {
  bool active;
  std::int32_t row, head;
  std::int32_t lane, lanes;
};

// All lanes of a warp call Operation::run together, the same number of times.
template <class Operation>
__global__ void __launch_bounds__(group_threads)
    row_groups(const __grid_constant__ Operation operation, const __grid_constant__ RowGrid grid) {
  wait_on_dependent_grids();
  const std::int32_t lanes = 1 << grid.log2_lanes;
  const std::uint32_t group_of_block = threadIdx.x >> grid.log2_lanes;
  const std::uint32_t first_of_warp = (threadIdx.x & ~31U) >> grid.log2_lanes;
  const std::uint64_t groups_per_block = group_threads >> grid.log2_lanes;
  const std::uint64_t step = gridDim.x * groups_per_block;
  const std::uint32_t inner = grid.heads_first ? grid.heads : grid.rows;
  for (std::uint64_t base = blockIdx.x * groups_per_block; base + first_of_warp < grid.rows_times_heads;
       base += step) {
    const std::uint64_t at = base + group_of_block;
    std::uint32_t outer_index = 0;
    std::uint32_t inner_index = 0;
    if (grid.rows_times_heads <= 0xffffffffU) {  // the shorter division suffices
      outer_index = static_cast<std::uint32_t>(at) / inner;
      inner_index = static_cast<std::uint32_t>(at) - outer_index * inner;
    } else {
      outer_index = static_cast<std::uint32_t>(at / inner);
      inner_index = static_cast<std::uint32_t>(at % inner);
    }
    operation.run(Group{.active = at < grid.rows_times_heads,
                        .row = static_cast<std::int32_t>(grid.heads_first ? outer_index : inner_index),
                        .head = static_cast<std::int32_t>(grid.heads_first ? inner_index : outer_index),
                        .lane = static_cast<std::int32_t>(threadIdx.x) & (lanes - 1),
                        .lanes = lanes});
  }
}

// N consecutive elements in registers: N is 8, in 16-byte pieces, or 1.
template <class T, int N>
struct Pack {
  T value[N];
};

template <class T, int N>
__device__ inline Pack<T, N> load_pack(const DeviceView& view, std::int64_t at) {
  Pack<T, N> pack;
  if constexpr (N == 1) {
    pack.value[0] = load_element_as<T>(view.data, view.dtype, at);
  } else {
    static_assert(N == 8);
    if (view.dtype == DType::fp64) {
      const auto* from = reinterpret_cast<const double2*>(static_cast<const double*>(view.data) + at);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const double2 two = from[i];
        pack.value[2 * i] = static_cast<T>(two.x);
        pack.value[2 * i + 1] = static_cast<T>(two.y);
      }
    } else if (view.dtype == DType::fp32) {
      const auto* from = reinterpret_cast<const float4*>(static_cast<const float*>(view.data) + at);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float4 four = from[i];
        pack.value[4 * i] = static_cast<T>(four.x);
        pack.value[4 * i + 1] = static_cast<T>(four.y);
        pack.value[4 * i + 2] = static_cast<T>(four.z);
        pack.value[4 * i + 3] = static_cast<T>(four.w);
      }
    } else {
      const uint4 bits = *reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(view.data) + at);
      const std::uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float low = 0;
        float high = 0;
        if (view.dtype == DType::bf16) {
          low = __uint_as_float(words[i] << 16);
          high = __uint_as_float(words[i] & 0xffff0000U);
        } else {
          low = __half2float(__ushort_as_half(static_cast<unsigned short>(words[i] & 0xffffU)));
          high = __half2float(__ushort_as_half(static_cast<unsigned short>(words[i] >> 16)));
        }
        pack.value[2 * i] = static_cast<T>(low);
        pack.value[2 * i + 1] = static_cast<T>(high);
      }
    }
  }
  return pack;
}

template <class T, int N>
__device__ inline void store_pack(const Pack<T, N>& pack, const DeviceView& view, std::int64_t at) {
  if constexpr (N == 1) {
    store_element_as<T>(pack.value[0], view.data, view.dtype, at);
  } else {
    static_assert(N == 8);
    if (view.dtype == DType::fp64) {
      auto* into = reinterpret_cast<double2*>(static_cast<double*>(view.data) + at);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        into[i] =
            make_double2(static_cast<double>(pack.value[2 * i]), static_cast<double>(pack.value[2 * i + 1]));
    } else if (view.dtype == DType::fp32) {
      auto* into = reinterpret_cast<float4*>(static_cast<float*>(view.data) + at);
#pragma unroll
      for (int i = 0; i < 2; ++i)
        into[i] =
            make_float4(static_cast<float>(pack.value[4 * i]), static_cast<float>(pack.value[4 * i + 1]),
                        static_cast<float>(pack.value[4 * i + 2]), static_cast<float>(pack.value[4 * i + 3]));
    } else {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        std::uint32_t low = 0;
        std::uint32_t high = 0;
        if (view.dtype == DType::bf16) {
          low = __bfloat16_as_ushort(to_bfloat16(pack.value[2 * i]));
          high = __bfloat16_as_ushort(to_bfloat16(pack.value[2 * i + 1]));
        } else {
          low = __half_as_ushort(to_half(pack.value[2 * i]));
          high = __half_as_ushort(to_half(pack.value[2 * i + 1]));
        }
        words[i] = low | high << 16;
      }
      *reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(view.data) + at) =
          make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
}

}  // namespace cplab::kernels::cuda
