// The one computation behind LinearLocal, LinearLocalBackward and LinearInter. With L the powers of the
// decay, each of the four results is o = (a b^T . L) c + a M, where M holds the b^T c of tokens further away:
//   out  a = q,    b = k,    c = v,     tokens before, M = S        dq  a = dout, b = v,    c = k,  tokens
//   before, S^T dv   a = k,    b = q,    c = dout,  tokens after,  M = R        dk  a = v,    b = dout, c =
//   q,  tokens after,  R^T
// A thread block walks over a chunk in blocks of 64 tokens, from the left or from the right, with some
// columns of M in shared memory; the columns of a and b, which are the rows of M, come by slabs. 16 x 16
// threads: thread (y, x) has tokens 4 y .. 4 y + 3 of o, and of the scores columns 4 x .. 4 x + 3.
#pragma once

#include <cstdint>

#include "kernels/cuda/linear/decay.cuh"
#include "kernels/work/linear_cuts.hpp"

namespace cplab::kernels::cuda {

// What a result is computed from.
struct WalkOperands {
  const DeviceView *a, *b, *c, *o;
  const DeviceView *state,
      *edge;  // M at the edge of the chunk, and at the edge of the piece; without memory: none
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

template <class T>
struct WalkShared {
  T *a, *b;   // [depth][linear_pitch]: columns of operands by tokens
  T* scores;  // [token of c][linear_pitch]; in place of a and b
  T* values;  // [linear_tokens][columns]
  T* staged;  // [depth][padded(columns)]
  T* powers;  // [linear_tokens + 1]
  T* state;   // [rows of M][padded(columns)]
};

// Where the arrays begin, in elements.
template <class T, std::int32_t columns>
struct WalkOffsets {
  static constexpr WalkElements elements = walk_elements(sizeof(T) == 8, columns, 0);
  static constexpr std::int64_t b = std::int64_t{linear_depth(sizeof(T) == 8)} * linear_pitch;
  static constexpr std::int64_t values = elements.products;
  static constexpr std::int64_t staged = values + elements.values;
  static constexpr std::int64_t powers = staged + elements.staged;
  static constexpr std::int64_t state = powers + elements.powers;
};

template <class T, std::int32_t columns>
__device__ inline WalkShared<T> walk_shared(void* memory) {
  using At = WalkOffsets<T, columns>;
  T* const all = static_cast<T*>(memory);
  return {.a = all,
          .b = all + At::b,
          .scores = all,
          .values = all + At::values,
          .staged = all + At::staged,
          .powers = all + At::powers,
          .state = all + At::state};
}

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

// One result of one chunk and head, some columns of it. `walks`: through all tokens, with their scores;
// otherwise only what M holds at the edge of the chunk is added.
template <class T, std::int32_t columns, bool walks>
class Walk {
 public:
  __device__ Walk(const LinearParams& p, const DeviceChunk& chunk, std::int32_t head, WalkResult result,
                  const WalkPart& part, const WalkShared<T>& shared)
      : p_(p),
        chunk_(chunk),
        o_(operands_of(p, result)),
        part_(part),
        shared_(shared),
        head_(head),
        slope_(p.chunks.slopes[head]) {
    const std::int32_t edge = o_.reverse ? chunk_.right : chunk_.left;
    own_ = o_.state->data != nullptr && chunk_.state >= 0;
    passed_ = o_.edge->data != nullptr && edge >= 0;
    const std::int32_t D = o_.transposed ? o_.o->width : o_.a->width;
    own_row_ = chunk_.state * D;
    edge_row_ = edge * D;
    if (passed_) power_ = decay<T>(slope_, o_.reverse ? chunk_.right_exponent : chunk_.left_exponent);
    const std::int32_t leaves = o_.reverse ? chunk_.left : chunk_.right;
    final_row_ = leaves * D;
    leaves_ = walks && o_.final_state != nullptr && o_.final_state->data != nullptr && leaves >= 0;
    state_dtype_ = p.q.data != nullptr ? p.q.dtype : o_.a->dtype;
    score_dtype_ = p.v.data != nullptr ? p.v.dtype : o_.c->dtype;
  }

  __device__ void run() {
    const std::int32_t blocks = (chunk_.count + linear_tokens - 1) / linear_tokens;
    if constexpr (walks) {
      __syncthreads();
      load_state();
    } else if (!own_ && !passed_ && p_.write == Write::add) {
      return;
    }
    for (std::int32_t n = 0; n < blocks; ++n) {
      size_ = min(chunk_.count - n * linear_tokens, linear_tokens);
      begin_ = o_.reverse ? max(chunk_.count - (n + 1) * linear_tokens, 0) : n * linear_tokens;
      block(n + 1 < blocks || leaves_);
    }
    if constexpr (walks) {
      if (leaves_) store_final();
    }
  }

  __device__ std::int32_t steps() const { return part_.steps; }

 private:
  static constexpr std::int32_t depth = linear_depth(sizeof(T) == 8);
  static constexpr std::int32_t thread_columns = columns / 16;
  static constexpr std::int32_t pitch = padded(columns);

  __device__ std::int32_t y() const { return static_cast<std::int32_t>(threadIdx.x) / 16; }
  __device__ std::int32_t x() const { return static_cast<std::int32_t>(threadIdx.x) % 16; }

  // M at the edge of the chunk, row r and column w of this part's; 0 outside.
  __device__ T entering(std::int32_t r, std::int32_t w) const {
    const std::int32_t row = part_.begin + r;
    const std::int32_t column = part_.column + w;
    if (row >= part_.end || column >= o_.o->width) return T(0);
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

  // Calls f(row, column) for `rows` rows of M's columns; neighbouring threads have neighbours of a row, or of
  // a column.
  template <class F>
  __device__ void for_state(std::int32_t rows, bool down, F f) const {
    for (std::int32_t at = static_cast<std::int32_t>(threadIdx.x); at < rows * columns;
         at += linear_threads) {
      if (down)
        f(at % rows, at / rows);
      else
        f(at / columns, at % columns);
    }
  }

  __device__ std::int32_t state_rows() const { return (part_.end - part_.begin + depth - 1) / depth * depth; }

  __device__ void load_state() {
    const bool enters = own_ || passed_;
    for_state(state_rows(), o_.transposed, [&](std::int32_t r, std::int32_t w) {
      shared_.state[r * pitch + w] = enters ? entering(r, w) : T(0);
    });
  }

  __device__ void store_final() {
    __syncthreads();
    const DeviceView& view = *o_.final_state;
    for_state(part_.end - part_.begin, false, [&](std::int32_t r, std::int32_t w) {
      if (part_.column + w >= o_.o->width) return;
      store_element_as<T>(shared_.state[r * pitch + w], view.data, view.dtype,
                          row_offset(view, final_row_ + part_.begin + r, head_) + part_.column + w);
    });
  }

  // Columns of an operand from `first` on, by tokens.
  __device__ void load_slab(const DeviceView& view, std::int32_t first, T* into) const {
    const bool aligned = fours_aligned(view) && (first & 3) == 0;
    for (std::int32_t at = static_cast<std::int32_t>(threadIdx.x); at < linear_tokens * depth / 4;
         at += linear_threads) {
      const std::int32_t token = at % linear_tokens;
      const std::int32_t r = at / linear_tokens * 4;
      const std::int32_t count = part_.end - first - r;
      Four<T> four = {};
      if (token < size_ && count > 0)
        four = load_four<T>(view, row_offset(view, chunk_.row + begin_ + token, head_) + first + r, count,
                            aligned && count >= 4);
#pragma unroll
      for (int i = 0; i < 4; ++i) into[(r + i) * linear_pitch + token] = four.value[i];
    }
  }

  __device__ void load_values() const {
    const DeviceView& view = *o_.c;
    const bool aligned = fours_aligned(view);
    for (std::int32_t at = static_cast<std::int32_t>(threadIdx.x); at < linear_tokens * columns / 4;
         at += linear_threads) {
      const std::int32_t token = at / (columns / 4);
      const std::int32_t w = at % (columns / 4) * 4;
      const std::int32_t count = view.width - part_.column - w;
      Four<T> four = {};
      if (token < size_ && count > 0)
        four = load_four<T>(view, row_offset(view, chunk_.row + begin_ + token, head_) + part_.column + w,
                            count, aligned);
#pragma unroll
      for (int i = 0; i < 4; ++i) shared_.values[token * columns + w + i] = four.value[i];
    }
  }

  // A slab of M becomes that at the other edge of the block: rows first, first + 1, ...
  __device__ void grow_state(std::int32_t first) const {
    constexpr std::int32_t fours = depth * columns / 4;
    const T older = shared_.powers[size_];
    for (std::int32_t at = static_cast<std::int32_t>(threadIdx.x); at < fours; at += linear_threads) {
      const std::int32_t r = at / (columns / 4);
      const std::int32_t w = at % (columns / 4) * 4;
      T sum[4] = {};
#pragma unroll 4
      for (std::int32_t token = 0; token < linear_tokens; ++token) {
        const T weight = shared_.powers[o_.reverse ? token : max(size_ - token, 0)];
        const T factor = weight * shared_.b[r * linear_pitch + token];
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[i] += factor * shared_.values[token * columns + w + i];
      }
      T* const state = shared_.state + (first + r) * pitch + w;
#pragma unroll
      for (int i = 0; i < 4; ++i) state[i] = state[i] * older + sum[i];
    }
  }

  __device__ void block(bool grows) {
    T scores[4][4] = {};
    T sums[4][thread_columns] = {};
    if constexpr (walks) {
      __syncthreads();  // the scores and values of the block before are used up
      load_values();
    }
    for (std::int32_t first = 0; first < part_.end - part_.begin; first += depth) {
      __syncthreads();
      load_slab(*o_.a, part_.begin + first, shared_.a);
      if constexpr (walks) load_slab(*o_.b, part_.begin + first, shared_.b);
      for_state(depth, !walks && o_.transposed, [&](std::int32_t r, std::int32_t w) {
        const T value = walks ? shared_.state[(first + r) * pitch + w] : entering(first + r, w);
        shared_.staged[r * pitch + w] = rounded_as(value, state_dtype_);
      });
      __syncthreads();
#pragma unroll 8
      for (std::int32_t r = 0; r < depth; ++r) {
        T a[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = shared_.a[r * linear_pitch + 4 * y() + i];
        if constexpr (walks) {
          T b[4];
#pragma unroll
          for (int j = 0; j < 4; ++j) b[j] = shared_.b[r * linear_pitch + 4 * x() + j];
#pragma unroll
          for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) scores[i][j] += a[i] * b[j];
        }
#pragma unroll
        for (int j = 0; j < thread_columns; ++j) {
          const T state = shared_.staged[r * pitch + thread_columns * x() + j];
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[i][j] += a[i] * state;
        }
      }
      if constexpr (walks) {
        if (grows) grow_state(first);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const T power = row_power(4 * y() + i);
#pragma unroll
      for (int j = 0; j < thread_columns; ++j) sums[i][j] *= power;
    }
    if constexpr (walks) {
      __syncthreads();
      store_scores(scores);
      __syncthreads();
      // Tokens that no row of this thread sees have no score.
      const std::int32_t first = o_.reverse ? 4 * y() : 0;
      const std::int32_t end = o_.reverse ? linear_tokens : 4 * y() + 4;
#pragma unroll 4
      for (std::int32_t token = first; token < end; ++token) {
        T score[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) score[i] = shared_.scores[token * linear_pitch + 4 * y() + i];
#pragma unroll
        for (int j = 0; j < thread_columns; ++j) {
          const T value = shared_.values[token * columns + thread_columns * x() + j];
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[i][j] += score[i] * value;
        }
      }
    }
    ++part_.steps;
    if (part_.done_before != nullptr) wait_for_count(part_.done_before, part_.steps);
    write(sums);
    if (part_.done != nullptr) publish_count(part_.done, part_.steps);
  }

  // What M is multiplied with for a row: the tokens between it and the edge where M is.
  __device__ T row_power(std::int32_t token) const {
    if constexpr (walks) return shared_.powers[o_.reverse ? max(size_ - token, 0) : token];
    const std::int32_t at = chunk_.before + begin_ + token;
    const std::int32_t all = chunk_.before + chunk_.count + chunk_.after;
    return decay<T>(slope_, o_.reverse ? max(all - at, 0) : at);
  }

  __device__ void store_scores(const T (&scores)[4][4]) const {
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::int32_t row = 4 * y() + i;
        const std::int32_t token = 4 * x() + j;
        const std::int32_t distance = o_.reverse ? token - row : row - token;
        const T score = distance < 0 ? T(0) : scores[i][j] * shared_.powers[distance];
        shared_.scores[token * linear_pitch + row] = rounded_as(score, score_dtype_);
      }
  }

  __device__ void write(const T (&sums)[4][thread_columns]) const {
    const DeviceView& view = *o_.o;
    const bool adds = p_.write == Write::add || part_.slice > 0;
    const bool aligned = thread_columns == 4 && fours_aligned(view);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int32_t token = 4 * y() + i;
      if (token >= size_) continue;
      const std::int64_t row = row_offset(view, chunk_.row + begin_ + token, head_);
      const std::int32_t column = part_.column + thread_columns * x();
      const std::int32_t count = min(view.width - column, thread_columns);
      if (count <= 0) continue;
      Four<T> values = {}, held = {};
#pragma unroll
      for (int j = 0; j < thread_columns; ++j)
        values.value[j] = part_.rounds ? rounded_as(sums[i][j], view.dtype) : sums[i][j];
      if (adds) held = load_four<T>(view, row + column, count, aligned);
#pragma unroll
      for (int j = 0; j < thread_columns; ++j) values.value[j] += held.value[j];
      store_four(values, view, row + column, count, aligned);
    }
  }

  const LinearParams& p_;
  const DeviceChunk& chunk_;
  const WalkOperands o_;
  WalkPart part_;
  const WalkShared<T> shared_;
  const std::int32_t head_;
  const double slope_;
  bool own_, passed_, leaves_;
  std::int32_t own_row_, edge_row_, final_row_;
  T power_ = 0;  // of what passed from the edge of the piece
  DType state_dtype_, score_dtype_;
  std::int32_t begin_ = 0, size_ = 0;  // tokens of the chunk in this block
};

}  // namespace cplab::kernels::cuda
