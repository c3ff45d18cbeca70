// LinearState: the state of every chunk's own tokens, rows^T columns with a weight for every token, in tiles
// of a state that fit into registers. A thread block walks over the chunk: from the left for states of keys,
// from the right for those of queries, so that what it has grows older with every block of tokens.
#include <cstdint>

#include "kernels/families/linear/decay.cuh"
#include "kernels/families/linear/linear.hpp"
#include "kernels/families/parts/launch.cuh"
#include "kernels/families/parts/primitives.cuh"

namespace cplab::kernels::cuda {
namespace {

constexpr std::int32_t block_tokens = 32;

// A tile has `width` columns and as many rows as give every thread 4 x 4 elements.
template <std::int32_t width>
constexpr std::int32_t tile_rows = 16 * linear_threads / width;

// `tokens` rows of `columns` elements, in registers on their way to shared memory.
template <class T, std::int32_t columns>
class TokenBlock {
 public:
  // Columns first, first + 1, ... of tokens row .. row + count.
  __device__ void load(const DeviceView& view, std::int32_t head, std::int32_t row, std::int32_t count,
                       std::int32_t first, bool aligned) {
#pragma unroll
    for (std::int32_t n = 0; n < passes; ++n) {
      const std::int32_t column = first + column_of(n);
      fours_[n] = {};
      if (token_of(n) < count && column < view.width)
        fours_[n] = load_four<T>(view, row_offset(view, row + token_of(n), head) + column,
                                 min(view.width - column, 4), aligned);
    }
  }

  // weight(t) times the row of token t.
  template <class Weight>
  __device__ void store(T (*into)[columns], Weight weight) const {
#pragma unroll
    for (std::int32_t n = 0; n < passes; ++n) {
      const T factor = weight(token_of(n));
#pragma unroll
      for (int x = 0; x < 4; ++x) into[token_of(n)][column_of(n) + x] = factor * fours_[n].value[x];
    }
  }

 private:
  static constexpr std::int32_t passes = block_tokens * columns / 4 / linear_threads;
  static __device__ std::int32_t index(std::int32_t n) {
    return static_cast<std::int32_t>(threadIdx.x) + n * linear_threads;
  }
  static __device__ std::int32_t token_of(std::int32_t n) {
    return index(n) / (columns / 4);
  }
  static __device__ std::int32_t column_of(std::int32_t n) {
    return index(n) % (columns / 4) * 4;
  }
  Four<T> fours_[passes];
};

template <class T, std::int32_t width>
struct StateShared {
  alignas(16) T rows[block_tokens][tile_rows<width>];
  alignas(16) T columns[block_tokens][width];
  T powers[block_tokens + 1];
};

// Tile of rows from `first_row` and columns from `first_column` of one state.
template <class T, std::int32_t width>
__device__ void state_tile(const LinearParams& p, const DeviceChunk& chunk, std::int32_t head,
                           std::int32_t first_row, std::int32_t first_column, StateShared<T, width>& shared) {
  const std::int32_t row = static_cast<std::int32_t>(threadIdx.x) / (width / 4) * 4;
  const std::int32_t column = static_cast<std::int32_t>(threadIdx.x) % (width / 4) * 4;
  const bool rows_aligned = fours_aligned(p.rows);
  const bool columns_aligned = fours_aligned(p.columns);
  TokenBlock<T, tile_rows<width>> next_rows;
  TokenBlock<T, width> next_columns;
  // Block n has tokens [begin, begin + size) of the chunk.
  const std::int32_t blocks = (chunk.count + block_tokens - 1) / block_tokens;
  const auto begin_of = [&](std::int32_t n) {
    return p.reverse ? max(chunk.count - (n + 1) * block_tokens, 0) : n * block_tokens;
  };
  const auto size_of = [&](std::int32_t n) { return min(chunk.count - n * block_tokens, block_tokens); };
  const auto load = [&](std::int32_t n) {
    const std::int32_t first = chunk.row + begin_of(n);
    next_rows.load(p.rows, head, first, size_of(n), first_row, rows_aligned);
    next_columns.load(p.columns, head, first, size_of(n), first_column, columns_aligned);
  };
  T state[4][4] = {};
  if (blocks > 0) load(0);
  for (std::int32_t n = 0; n < blocks; ++n) {
    const std::int32_t size = size_of(n);
    __syncthreads();  // the block before is used up; the powers are there
    next_rows.store(shared.rows, [](std::int32_t) { return T(1); });
    next_columns.store(shared.columns, [&](std::int32_t token) {
      return shared.powers[p.reverse ? token : max(size - token, 0)];
    });
    __syncthreads();
    if (n + 1 < blocks) load(n + 1);
    T sum[4][4] = {};
#pragma unroll 8
    for (std::int32_t token = 0; token < block_tokens; ++token) {
      T a[4], b[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = shared.rows[token][row + i];
#pragma unroll
      for (int i = 0; i < 4; ++i) b[i] = shared.columns[token][column + i];
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] += a[i] * b[j];
    }
    const T older = shared.powers[size];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) state[i][j] = state[i][j] * older + sum[i][j];
  }
  const bool aligned = fours_aligned(p.state);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int32_t d = first_row + row + i;
    const std::int32_t e = first_column + column;
    if (d >= p.rows.width || e >= p.columns.width) continue;
    const Four<T> four = {state[i][0], state[i][1], state[i][2], state[i][3]};
    store_four(four, p.state, row_offset(p.state, chunk.state * p.rows.width + d, head) + e,
               min(p.columns.width - e, 4), aligned);
  }
}

template <class T, std::int32_t width>
__global__ void __launch_bounds__(linear_threads) linear_state(const __grid_constant__ LinearParams p) {
  __shared__ StateShared<T, width> shared;
  wait_on_dependent_grids();
  const BlockPlace place = block_place(p.cut, p.rows.heads);
  const DeviceChunk chunk = p.chunks.list[place.chunk];
  if (threadIdx.x <= block_tokens)
    shared.powers[threadIdx.x] = decay<T>(p.chunks.slopes[place.head], threadIdx.x);
  const std::int32_t key_part = place.part % p.cut.key_parts;
  const std::int32_t first_column = place.part / p.cut.key_parts * p.cut.value_columns;
  const std::int32_t end = min((key_part + 1) * p.cut.key_columns, p.rows.width);
  for (std::int32_t row = key_part * p.cut.key_columns; row < end; row += tile_rows<width>)
    state_tile<T, width>(p, chunk, place.head, row, first_column, shared);
}

template <class T>
void launch_state(const LinearParams& p, CUstream_st* stream) {
  launch_dependent(p.cut.columns == 32 ? linear_state<T, 32> : linear_state<T, 64>,
                   static_cast<unsigned>(p.cut.thread_blocks), linear_threads, 0, stream, p);
}

template <class T, std::int32_t width>
KernelFunction state_function() {
  return kernel_function<linear_state<T, width>>(
      {.threads = linear_threads, .tile_rows = block_tokens, .tile_columns = width, .stages = 1});
}

template <class T>
LinearKernel kernel_named(const char* name) {
  static const KernelFunction functions[] = {state_function<T, 64>(), state_function<T, 32>()};
  return {.name = name, .bind = bind_parameters<launch_state<T>, LinearParams>, .functions = functions};
}

}  // namespace

std::vector<LinearKernel> linear_state_kernels() {
  return {
      kernel_named<float>("linear_state general fp32"),
#ifdef CPLAB_FULL_KERNELS
      kernel_named<double>("linear_state general fp64"),
#endif
  };
}

}  // namespace cplab::kernels::cuda
