// Attention calls of equal sequences, without memory: for what depends on shapes alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.hpp"

namespace cplab::testing {

using namespace kernels;

// B sequences of S rows one behind the other, H query heads and G key heads. Nothing is read through the
// pointer.
struct Call {
  std::int64_t S = 4096, B = 1, H = 16, G = 16, D = 128;
  DType dtype = DType::bf16;
  bool causal = true;
  std::int64_t E = D;  // of values

  View view(std::int64_t heads, std::int64_t width, DType view_dtype) const {
    alignas(16) static std::array<std::byte, 16> memory;
    return {.data = memory.data(),
            .dtype = view_dtype,
            .rows = B * S,
            .heads = heads,
            .width = width,
            .row_stride = heads * width,
            .head_stride = width,
            .runs = {}};
  }
  std::vector<Segment> segments() const {
    std::vector<Segment> all;
    for (std::int64_t b = 0; b < B; ++b)
      all.push_back(
          {.q_begin = b * S, .q_count = S, .k_begin = b * S, .k_count = S, .right = causal ? 0 : -1});
    return all;
  }
};

inline constexpr DType sums = DType::fp32;

inline Attend forward(const Call& call, std::span<const Segment> segments) {
  const DType lse = call.dtype == DType::fp64 ? DType::fp64 : sums;
  return {.q = call.view(call.H, call.D, call.dtype),
          .k = call.view(call.G, call.D, call.dtype),
          .v = call.view(call.G, call.E, call.dtype),
          .out = call.view(call.H, call.E, call.dtype),
          .lse = call.view(call.H, 1, lse),
          .segments = segments,
          .scale = 0.1};
}

inline AttendBackward backward(const Call& call, std::span<const Segment> segments) {
  return {.q = call.view(call.H, call.D, call.dtype),
          .k = call.view(call.G, call.D, call.dtype),
          .v = call.view(call.G, call.E, call.dtype),
          .dout = call.view(call.H, call.E, call.dtype),
          .lse = call.view(call.H, 1, sums),
          .delta = call.view(call.H, 1, sums),
          .dq = call.view(call.H, call.D, sums),
          .dk = call.view(call.G, call.D, sums),
          .dv = call.view(call.G, call.E, sums),
          .segments = segments,
          .scale = 0.1};
}

// The backward that rounds dq: of the call's dtype everywhere, but for the sum of dq.
inline AttendBackward rounding(const Call& shape, std::span<const Segment> segments) {
  AttendBackward call = backward(shape, segments);
  call.dk = shape.view(shape.G, shape.D, shape.dtype);
  call.dv = shape.view(shape.G, shape.E, shape.dtype);
  call.rounded_dq = shape.view(shape.H, shape.D, shape.dtype);
  return call;
}

// The backward that may sum dk and dv as well before it rounds them.
inline AttendBackward rounding_all(const Call& shape, std::span<const Segment> segments) {
  AttendBackward call = rounding(shape, segments);
  call.rounded_dk = call.dk;
  call.rounded_dv = call.dv;
  call.dk = shape.view(shape.G, shape.D, sums);
  call.dv = shape.view(shape.G, shape.E, sums);
  return call;
}

}  // namespace cplab::testing
