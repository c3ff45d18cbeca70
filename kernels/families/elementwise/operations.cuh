// What the row-wise kernels do to a row (elementwise.hpp). A lane takes `packs` packs at a time, all of them
// read before the first is used.
#pragma once

#include <cstdint>

#include "kernels/families/elementwise/elementwise.hpp"
#include "kernels/families/elementwise/packs.cuh"
#include "kernels/families/elementwise/row_groups.cuh"

namespace cplab::kernels::cuda {

// into = from, with one rounding.
template <class T, int N>
struct Cast {
  static constexpr int packs = sizeof(T) == 4 ? 4 : 1;
  DeviceView from, into;

  __device__ void run(const Group& group) const {
    if (!group.active) return;
    const std::int64_t source = row_offset(from, group.row, group.head);
    const std::int64_t target = row_offset(into, group.row, group.head);
    const std::int32_t step = group.lanes * N;
    for (std::int32_t x = group.lane * N; x < into.width; x += packs * step) {
      Batch<T, N, packs> batch;
      batch.load_once(from, source, x, step, into.width);
#pragma unroll
      for (int n = 0; n < packs; ++n)
        if (x + n * step < into.width) store_pack(batch(n, from), into, target + x + n * step);
    }
  }
};

// into += from, with one rounding.
template <class T, int N>
struct Add {
  static constexpr int packs = sizeof(T) == 4 ? 2 : 1;
  DeviceView from, into;

  __device__ void run(const Group& group) const {
    if (!group.active) return;
    const std::int64_t source = row_offset(from, group.row, group.head);
    const std::int64_t target = row_offset(into, group.row, group.head);
    const std::int32_t step = group.lanes * N;
    for (std::int32_t x = group.lane * N; x < into.width; x += packs * step) {
      Batch<T, N, packs> sums, addends;
      sums.load(into, target, x, step, into.width);
      addends.load(from, source, x, step, into.width);
#pragma unroll
      for (int n = 0; n < packs; ++n) {
        if (x + n * step >= into.width) continue;
        Pack<T, N> sum = sums(n, into);
        const Pack<T, N> addend = addends(n, from);
#pragma unroll
        for (int i = 0; i < N; ++i) sum.value[i] += addend.value[i];
        store_pack(sum, into, target + x + n * step);
      }
    }
  }
};

// into = max(into, from); NaN if either is.
template <class T>
struct Maximum {
  static constexpr int packs = 1;
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
  static constexpr int packs = 4;
  DeviceView from, into;

  __device__ void run(const Group& group) const {
    if (!group.active) return;
    const Unit* source = static_cast<const Unit*>(from.data) + row_offset(from, group.row, group.head);
    Unit* target = static_cast<Unit*>(into.data) + row_offset(into, group.row, group.head);
    const std::int32_t step = group.lanes;
    for (std::int32_t x = group.lane; x < into.width; x += packs * step) {
      Unit units[packs];
#pragma unroll
      for (int n = 0; n < packs; ++n)
        if (x + n * step < into.width) units[n] = source[x + n * step];
#pragma unroll
      for (int n = 0; n < packs; ++n)
        if (x + n * step < into.width) target[x + n * step] = units[n];
    }
  }
};

template <class Unit>
struct FillBits {
  static constexpr int packs = 1;
  DeviceView into;
  Unit bits;

  __device__ void run(const Group& group) const {
    if (!group.active) return;
    Unit* target = static_cast<Unit*>(into.data) + row_offset(into, group.row, group.head);
    for (std::int32_t x = group.lane; x < into.width; x += group.lanes) target[x] = bits;
  }
};

// Elements of a and b have at most `most_bytes` each. Of dout and out of a backward, a and b, only the former
// is read again.
template <class T, int N, int most_bytes>
struct RowDot {
  static constexpr int packs = most_bytes <= 4 ? 2 : 1;  // with more, fewer thread blocks run at once
  DeviceView a, b, into;

  __device__ void run(const Group& group) const {
    run(group, [] {});
  }

  // Active lanes call meanwhile() while what they read first is on its way.
  template <class Meanwhile>
  __device__ __forceinline__ void run(const Group& group, const Meanwhile& meanwhile) const {
    T sum = 0;
    if (group.active) {
      const std::int64_t a_row = row_offset(a, group.row, group.head);
      const std::int64_t b_row = row_offset(b, group.row, group.head);
      const std::int32_t step = group.lanes * N;
      std::int32_t x = group.lane * N;
      Batch<T, N, packs, most_bytes> left, right;
      left.load(a, a_row, x, step, a.width);
      right.load_once(b, b_row, x, step, a.width);
      meanwhile();
      while (x < a.width) {
#pragma unroll
        for (int n = 0; n < packs; ++n) {
          if (x + n * step >= a.width) continue;
          const Pack<T, N> of_a = left(n, a), of_b = right(n, b);
#pragma unroll
          for (int i = 0; i < N; ++i) sum += of_a.value[i] * of_b.value[i];
        }
        x += packs * step;
        if (x >= a.width) break;
        left.load(a, a_row, x, step, a.width);
        right.load_once(b, b_row, x, step, a.width);
      }
    }
    for (std::int32_t distance = group.lanes / 2; distance > 0; distance /= 2)
      sum += __shfl_xor_sync(~0U, sum, distance);
    if (group.active && group.lane == 0)
      store_element_as<T>(sum, into.data, into.dtype, row_offset(into, group.row, group.head));
  }
};

// delta of a backward call, and zeros in what it adds to, whose widths and strides count pieces of 16 bytes.
struct Preparation {
  using Dot = RowDot<float, 8, 2>;
  static constexpr int packs = Dot::packs;
  Dot delta;
  DeviceView zeroed;                // of delta's rows and heads
  DeviceView zeroed_dk, zeroed_dv;  // of others, which the groups share
  bool waits_first;

  __device__ void run(const Group& group) const {
    delta.run(group, [&] {
      clear(zeroed, group.row, group.head, group);
      clear_share(zeroed_dk, group);
      clear_share(zeroed_dv, group);
    });
  }

  static __device__ void clear(const DeviceView& view, std::int32_t row, std::int32_t head,
                               const Group& group) {
    if (view.width == 0) return;
    uint4* const target = static_cast<uint4*>(view.data) + row_offset(view, row, head);
    for (std::int32_t x = group.lane; x < view.width; x += group.lanes) target[x] = {};
  }
  // Group n of all takes rows n, n + groups, ... of the view's heads, one head after the other.
  __device__ void clear_share(const DeviceView& view, const Group& group) const {
    if (view.width == 0) return;
    const std::int64_t groups = std::int64_t{delta.into.rows} * delta.into.heads,
                       all = std::int64_t{view.rows} * view.heads;
    for (std::int64_t n = std::int64_t{group.head} * delta.into.rows + group.row; n < all; n += groups)
      clear(view, static_cast<std::int32_t>(n % view.rows), static_cast<std::int32_t>(n / view.rows), group);
  }
};

template <class T, int N>
struct MergeRows {
  static constexpr int packs = sizeof(T) == 4 ? 2 : 1;
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
    const std::int64_t source = row_offset(p.part_out, group.row, group.head);
    const std::int64_t target = row_offset(p.into_out, group.row, group.head);
    const std::int32_t width = p.into_out.width, step = group.lanes * N;
    const T merged = holds ? merged_lse(held, part) : part;
    const T held_weight = exp(held - merged);
    const T part_weight = exp(part - merged);
    for (std::int32_t x = group.lane * N; x < width; x += packs * step) {
      Batch<T, N, packs> parts, olds;
      if (!no_part) parts.load(p.part_out, source, x, step, width);
      if (holds) olds.load(p.into_out, target, x, step, width);
#pragma unroll
      for (int n = 0; n < packs; ++n) {
        if (x + n * step >= width) continue;
        Pack<T, N> out = {};
        if (!no_part) out = parts(n, p.part_out);
        if (holds) {
          const Pack<T, N> old = olds(n, p.into_out);
#pragma unroll
          for (int i = 0; i < N; ++i) out.value[i] = old.value[i] * held_weight + out.value[i] * part_weight;
        }
        store_pack(out, p.into_out, target + x + n * step);
      }
    }
    if (group.lane == 0 && !no_part)
      store_element_as<T>(merged, p.into_lse.data, p.into_lse.dtype,
                          row_offset(p.into_lse, group.row, group.head));
  }
};

template <class T>
struct MergeLseRows {
  static constexpr int packs = 1;
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
  static constexpr int packs = sizeof(T) == 4 ? 2 : 1;
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
    const std::int32_t width = p.into_out.width, step = group.lanes * N;
    for (std::int32_t x = group.lane * N; x < width; x += packs * step) {
      Batch<T, N, packs> sums, parts;
      if (add) sums.load(p.into_out, target, x, step, width);
      if (!empty) parts.load(p.part_out, source, x, step, width);
#pragma unroll
      for (int n = 0; n < packs; ++n) {
        if (x + n * step >= width) continue;
        Pack<T, N> sum = {};
        if (add) sum = sums(n, p.into_out);
        if (!empty) {
          const Pack<T, N> part = parts(n, p.part_out);
#pragma unroll
          for (int i = 0; i < N; ++i) sum.value[i] += part.value[i] * weight;
        }
        store_pack(sum, p.into_out, target + x + n * step);
      }
    }
  }
};

}  // namespace cplab::kernels::cuda
