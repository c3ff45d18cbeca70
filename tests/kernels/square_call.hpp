// Attention calls of equal sequences, without memory: for what depends on shapes alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.hpp"
#include "tests/kernels/sequences.hpp"
#include "tests/kernels/unread_view.hpp"

namespace cplab::testing {

using kernels::Attend;
using kernels::AttendBackward;
using kernels::DType;
using kernels::Segment;
using kernels::View;

// B sequences of S rows one behind the other, H query heads and G key heads. Nothing is read through the
// pointer.
struct Call {
  std::int64_t S = 4096, B = 1, H = 16, G = 16, D = 128;
  DType dtype = DType::bf16;
  bool causal = true;
  std::int64_t E = D;  // of values

  View view(std::int64_t heads, std::int64_t width, DType view_dtype) const {
    return unread_view(B * S, heads, width, view_dtype);
  }
  std::vector<Segment> segments() const {
    return sequences(std::vector<std::int64_t>(static_cast<std::size_t>(B), S), causal);
  }
};

inline constexpr DType dtype_of_sums = DType::fp32;

inline Attend forward(const Call& call, std::span<const Segment> segments) {
  const DType lse = call.dtype == DType::fp64 ? DType::fp64 : dtype_of_sums;
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
          .lse = call.view(call.H, 1, dtype_of_sums),
          .delta = call.view(call.H, 1, dtype_of_sums),
          .dq = call.view(call.H, call.D, dtype_of_sums),
          .dk = call.view(call.G, call.D, dtype_of_sums),
          .dv = call.view(call.G, call.E, dtype_of_sums),
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
  call.dk = shape.view(shape.G, shape.D, dtype_of_sums);
  call.dv = shape.view(shape.G, shape.E, dtype_of_sums);
  return call;
}

}  // namespace cplab::testing
