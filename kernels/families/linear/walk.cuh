// Each result of LinearLocal, LinearLocalBackward and LinearInter (walk_parts.cuh) for any width and dtype,
// on ordinary cores. A thread block walks over a chunk in blocks of 64 tokens, from the left or from the
// right, with some columns of M in shared memory; the columns of a and b, which are the rows of M, come by
// slabs. 16 x 16 threads: thread (y, x) has tokens 4 y .. 4 y + 3 of o, and of the scores columns 4 x .. 4 x
// + 3.
#pragma once

#include <cstdint>

#include "kernels/families/linear/walk_parts.cuh"
#include "kernels/tiles/linear_cuts.hpp"

namespace cplab::kernels::cuda {

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

// One result of one chunk and head, some columns of it. `walks`: through all tokens, with their scores;
// otherwise only what M holds at the edge of the chunk is added.
template <class T, std::int32_t columns, bool walks>
class Walk {
 public:
  __device__ Walk(const LinearParams& p, const DeviceChunk& chunk, std::int32_t head, WalkResult result,
                  WalkPart& part, const WalkShared<T>& shared)
      : p_(p),
        chunk_(chunk),
        o_(operands_of(p, result)),
        edges_(p, chunk, head, o_),
        part_(part),
        shared_(shared),
        head_(head),
        slope_(p.chunks.slopes[head]),
        leaves_(walks && edges_.leaves()),
        state_dtype_(p.q.data != nullptr ? p.q.dtype : o_.a->dtype),
        score_dtype_(p.v.data != nullptr ? p.v.dtype : o_.c->dtype) {}

  __device__ void run() {
    const std::int32_t blocks = (chunk_.count + linear_tokens - 1) / linear_tokens;
    if constexpr (walks) {
      __syncthreads();
      load_state();
    } else if (!edges_.enters() && p_.write == Write::add) {
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
    return edges_.entering(row, column);
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
    const bool enters = edges_.enters();
    for_state(state_rows(), o_.transposed, [&](std::int32_t r, std::int32_t w) {
      shared_.state[r * pitch + w] = enters ? entering(r, w) : T(0);
    });
  }

  __device__ void store_final() {
    __syncthreads();
    for_state(part_.end - part_.begin, false, [&](std::int32_t r, std::int32_t w) {
      if (part_.column + w < o_.o->width)
        edges_.store_leaving(part_.begin + r, part_.column + w, shared_.state[r * pitch + w]);
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
  const WalkEdges<T> edges_;
  WalkPart& part_;
  const WalkShared<T> shared_;
  const std::int32_t head_;
  const double slope_;
  const bool leaves_;
  const DType state_dtype_, score_dtype_;
  std::int32_t begin_ = 0, size_ = 0;  // tokens of the chunk in this block
};

}  // namespace cplab::kernels::cuda
