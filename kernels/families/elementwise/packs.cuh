// Moving eight elements at once between device memory and registers, whatever the dtype of a view. What is
// read is kept as it lies in memory until it is needed, so that several reads are on their way at once: a
// conversion right behind a read would wait for it.
#pragma once

#include <cstdint>

#include "kernels/families/elementwise/row_groups.cuh"
#include "kernels/families/parts/element.cuh"
#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda {

// N consecutive elements in registers: N is 8, in 16-byte pieces, or 1.
template <class T, int N>
struct Pack {
  T value[N];
};

// Their bytes, of elements of at most `most_bytes` each.
template <class T, int N, int most_bytes>
struct RawPack {
  static_assert(N == 8);
  uint4 words[most_bytes / 2];
};
template <class T, int most_bytes>
struct RawPack<T, 1, most_bytes> {
  T value;
};

template <bool once, class T, int N, int most_bytes>
__device__ __forceinline__ void load_raw(RawPack<T, N, most_bytes>& raw, const DeviceView& view,
                                         std::int64_t at) {
  if constexpr (N == 1) {
    raw.value = load_element_as<T>(view.data, view.dtype, at);
  } else {
    const int bytes = most_bytes == 2 || view.dtype == DType::bf16 || view.dtype == DType::fp16 ? 2
                      : most_bytes == 4 || view.dtype == DType::fp32                            ? 4
                                                                                                : 8;
    const auto* const from = reinterpret_cast<const uint4*>(static_cast<const char*>(view.data) + at * bytes);
#pragma unroll
    for (int word = 0; word < most_bytes / 2; ++word)
      if (2 * word < bytes) raw.words[word] = once ? __ldcs(from + word) : from[word];
  }
}

template <class T, int N, int most_bytes>
__device__ __forceinline__ Pack<T, N> widened(const RawPack<T, N, most_bytes>& raw, DType dtype) {
  Pack<T, N> pack;
  if constexpr (N == 1) {
    pack.value[0] = raw.value;
    return pack;
  } else {
    if constexpr (most_bytes >= 8) {
      if (dtype == DType::fp64) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const uint4 bits = raw.words[i];
          pack.value[2 * i] =
              static_cast<T>(__hiloint2double(static_cast<int>(bits.y), static_cast<int>(bits.x)));
          pack.value[2 * i + 1] =
              static_cast<T>(__hiloint2double(static_cast<int>(bits.w), static_cast<int>(bits.z)));
        }
        return pack;
      }
    }
    if constexpr (most_bytes >= 4) {
      if (dtype == DType::fp32) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const uint4 bits = raw.words[i];
          pack.value[4 * i] = static_cast<T>(__uint_as_float(bits.x));
          pack.value[4 * i + 1] = static_cast<T>(__uint_as_float(bits.y));
          pack.value[4 * i + 2] = static_cast<T>(__uint_as_float(bits.z));
          pack.value[4 * i + 3] = static_cast<T>(__uint_as_float(bits.w));
        }
        return pack;
      }
    }
    const std::uint32_t words[4] = {raw.words[0].x, raw.words[0].y, raw.words[0].z, raw.words[0].w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float low = 0;
      float high = 0;
      if (dtype == DType::bf16) {
        low = __uint_as_float(words[i] << 16);
        high = __uint_as_float(words[i] & 0xffff0000U);
      } else {
        low = __half2float(__ushort_as_half(static_cast<unsigned short>(words[i] & 0xffffU)));
        high = __half2float(__ushort_as_half(static_cast<unsigned short>(words[i] >> 16)));
      }
      pack.value[2 * i] = static_cast<T>(low);
      pack.value[2 * i + 1] = static_cast<T>(high);
    }
    return pack;
  }
}

// Up to `packs` packs of a row, a lane's share of the group's turn: from element x on, `step` apart, as far
// as the row's width goes.
template <class T, int N, int packs, int most_bytes = sizeof(T)>
struct Batch {
  RawPack<T, N, most_bytes> raw[packs];

  // Starts to read them.
  __device__ __forceinline__ void load(const DeviceView& view, std::int64_t row, std::int32_t x,
                                       std::int32_t step, std::int32_t width) {
    load_raws<false>(view, row, x, step, width);
  }
  // Likewise what nobody reads again soon, so that it leaves the L2 cache first.
  __device__ __forceinline__ void load_once(const DeviceView& view, std::int64_t row, std::int32_t x,
                                            std::int32_t step, std::int32_t width) {
    load_raws<true>(view, row, x, step, width);
  }
  __device__ __forceinline__ Pack<T, N> operator()(int n, const DeviceView& view) const {
    return widened(raw[n], view.dtype);
  }

 private:
  template <bool once>
  __device__ __forceinline__ void load_raws(const DeviceView& view, std::int64_t row, std::int32_t x,
                                            std::int32_t step, std::int32_t width) {
#pragma unroll
    for (int n = 0; n < packs; ++n)
      if (x + n * step < width) load_raw<once>(raw[n], view, row + x + n * step);
  }
};

template <class T, int N>
__device__ __forceinline__ void store_pack(const Pack<T, N>& pack, const DeviceView& view, std::int64_t at) {
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
