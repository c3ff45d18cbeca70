// Which part of which result a thread block computes, in LinearLocal, LinearLocalBackward and LinearInter,
// and what enters and leaves a chunk. With L the powers of the decay, each of the four results is o = (a b^T
// . L) c + a M, where M holds the b^T c of tokens further away:
//
//   out  a = q     b = k     c = v     tokens before  M = S
//   dq   a = dout  b = v     c = k     tokens before  M = S^T
//   dk   a = v     b = dout  c = q     tokens after   M = R^T
//   dv   a = k     b = q     c = dout  tokens after   M = R
#pragma once

#include <cstdint>

#include "kernels/families/linear/decay.cuh"

namespace cplab::kernels::cuda {

// What a result is computed from.
struct WalkOperands {
  const DeviceView *a, *b, *c, *o;
  // M at the edge of the chunk, and at the edge of the piece; without memory: none.
  const DeviceView *state, *edge;
  const DeviceView* final_state;  // null: not of this result
  bool reverse;                   // tokens after
  bool transposed;                // M is S^T or R^T
};

enum class WalkResult : std::uint8_t { out, dq, dk, dv };

__device__ inline WalkOperands operands_of(const LinearParams& p, WalkResult result) {
  switch (result) {
    case WalkResult::out: return {&p.q, &p.k, &p.v, &p.out, &p.state, &p.carry, &p.final_state, false, false};
    case WalkResult::dq: return {&p.dout, &p.v, &p.k, &p.dq, &p.state, &p.carry, nullptr, false, true};
    case WalkResult::dk: return {&p.v, &p.dout, &p.q, &p.dk, &p.dstate, &p.dcarry, nullptr, true, true};
    default: return {&p.k, &p.q, &p.dout, &p.dv, &p.dstate, &p.dcarry, &p.final_state, true, false};
  }
}

// The part of a result that a thread block computes at a time: `columns` columns from `column` on, from
// columns [begin, end) of a and b.
struct WalkPart {
  std::int32_t column, begin, end;
  // Sliced work: 0 stores or adds, the others add to it in turn. `done` counts blocks of tokens of the slice
  // before and of this one; null: nobody before, nobody after.
  std::int32_t slice = 0;
  std::int32_t *done_before = nullptr, *done = nullptr;
  std::int32_t steps = 0;  // blocks of tokens of this result that this thread block has done
  bool rounds = false;     // to the dtype of the result, before partial results are summed
};

// The states at the edges of a chunk, of one result and head.
template <class T>
class WalkEdges {
 public:
  __device__ WalkEdges(const LinearParams& p, const DeviceChunk& chunk, std::int32_t head,
                       const WalkOperands& operands)
      : o_(operands), head_(head) {
    const std::int32_t edge = o_.reverse ? chunk.right : chunk.left;
    const std::int32_t leaving = o_.reverse ? chunk.left : chunk.right;
    const std::int32_t D = o_.transposed ? o_.o->width : o_.a->width;
    own_ = o_.state->data != nullptr && chunk.state >= 0;
    passed_ = o_.edge->data != nullptr && edge >= 0;
    leaves_ = o_.final_state != nullptr && o_.final_state->data != nullptr && leaving >= 0;
    own_row_ = chunk.state * D;
    edge_row_ = edge * D;
    final_row_ = leaving * D;
    if (passed_)
      power_ = decay<T>(p.chunks.slopes[head], o_.reverse ? chunk.right_exponent : chunk.left_exponent);
  }

  __device__ bool enters() const { return own_ || passed_; }
  __device__ bool leaves() const { return leaves_; }

  // Row and column of M at the edge where the walk begins.
  __device__ T entering(std::int32_t row, std::int32_t column) const {
    const std::int32_t d = o_.transposed ? column : row;
    const std::int32_t e = o_.transposed ? row : column;
    T sum = 0;
    if (own_) {
      const DeviceView& view = *o_.state;
      sum = load_element_as<T>(view.data, view.dtype, row_offset(view, own_row_ + d, head_) + e);
    }
    if (passed_) {
      const DeviceView& view = *o_.edge;
      sum += power_ * load_element_as<T>(view.data, view.dtype, row_offset(view, edge_row_ + d, head_) + e);
    }
    return sum;
  }

  // And at the other edge, if it leaves there; M is not transposed then.
  __device__ void store_leaving(std::int32_t row, std::int32_t column, T value) const {
    const DeviceView& view = *o_.final_state;
    store_element_as<T>(value, view.data, view.dtype, row_offset(view, final_row_ + row, head_) + column);
  }

 private:
  const WalkOperands o_;  // a reference to its owner's would keep that in memory
  const std::int32_t head_;
  bool own_, passed_, leaves_;
  std::int32_t own_row_, edge_row_, final_row_;
  T power_ = 0;  // of what passed from the edge of the piece
};

// Waits until *counter, which another thread block counts up, is at least `count`; what that block wrote
// before is then visible to all threads of this one.
__device__ inline void wait_for_count(const std::int32_t* counter, std::int32_t count) {
  if (threadIdx.x == 0) {
    std::int32_t now = 0;
    do {
      asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
    } while (now < count);
  }
  __syncthreads();
}

__device__ inline void publish_count(std::int32_t* counter, std::int32_t count) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(counter), "r"(count) : "memory");
  }
}

__device__ inline bool of_values(WalkResult result) {
  return result == WalkResult::out || result == WalkResult::dv;
}

// Calls run(result, part) for everything that a thread block has to do; run counts up part.steps. `columns`
// at a time.
template <std::int32_t columns, class Run>
__device__ __forceinline__ void run_parts(const LinearParams& p, const BlockPlace& place, Run run) {
  const LinearCut& cut = p.cut;
  const bool sliced = cut.counters > 0;
  const bool blocked = cut.work == ChunkWork::blocked;
  std::int32_t rest = place.part;
  int number = 0;  // of the results that there are
#pragma unroll 1
  for (int n = 0; n < 4; ++n) {
    const auto result = static_cast<WalkResult>(n);
    const WalkOperands operands = operands_of(p, result);
    if (operands.o->data == nullptr) continue;
    const bool values = of_values(result);
    const std::int32_t key_part = sliced ? place.part % cut.key_parts : place.part;
    const std::int32_t value_part = sliced ? place.part / cut.key_parts : place.part;
    const std::int32_t width = operands.o->width;
    const std::int32_t width_of_part = blocked ? columns : values ? cut.value_columns : cut.key_columns;
    const std::int32_t first = (blocked ? rest : values ? value_part : key_part) * width_of_part;
    const std::int32_t end = min(first + width_of_part, width);
    WalkPart part{.column = first, .begin = 0, .end = operands.a->width};
    if (sliced) {
      const std::int32_t width_of_slice = values ? cut.key_columns : cut.value_columns;
      part.slice = values ? key_part : value_part;
      part.begin = part.slice * width_of_slice;
      part.end = min(part.begin + width_of_slice, part.end);
      part.rounds = true;
      const std::int64_t at = static_cast<std::int64_t>(place.chunk) * operands.o->heads + place.head;
      std::int32_t* const mine = p.counters + (at * cut.results + number) * cut.parts + place.part;
      if (part.slice > 0) part.done_before = mine - (values ? 1 : cut.key_parts);
      if (part.slice + 1 < (values ? cut.key_parts : cut.value_parts)) part.done = mine;
    }
#pragma unroll 1
    for (; part.column >= first && part.column < end; part.column += columns) run(result, part);
    // The slice before has counted for the last time in this launch.
    if (part.done_before != nullptr && threadIdx.x == 0 && part.steps > 0) *part.done_before = 0;
    ++number;
    if (!blocked) continue;
    rest -= (width + columns - 1) / columns;
    if (rest < 0) return;
  }
}

}  // namespace cplab::kernels::cuda
