// The states between the blocks of a chunk, one after the other: of keys from the left, of queries (dL/dS)
// from the right. A thread block has 32 columns of the states of a chunk and head, in fp32 registers; they
// are rounded to the dtype of the rows before they are multiplied with rows.
#pragma once

#include "kernels/families/linear/gated/tiles.cuh"

namespace cplab::kernels::cuda::gated {

// What both directions share: a state, and where it comes from and goes to.
template <class T, int D>
class WalkState {
 public:
  static constexpr int C = tokens_of<T>, columns = gated_slice;
  using State = Sums<T, D, columns>;

  __device__ WalkState(const GatedParams& p, int chunk, int head, int slice, const Tile<T, columns>& rounded)
      : p_(p),
        chunk_(p.chunks[chunk]),
        head_(head),
        passes_(slice >= p.cut.value_slices),
        first_((passes_ ? slice - p.cut.value_slices : slice) * columns),
        rounded_(rounded) {}

  __device__ bool passes() const { return passes_; }  // the columns are those of the chunk's transition
  __device__ int first() const { return first_; }
  __device__ int head() const { return head_; }

  // Of the sum of two states, at rows own * D and edge * D of their views where these are there.
  __device__ void enter(const DeviceView& own, int own_state, const DeviceView& passed, int edge) {
    state_.each([&](int d, int e, float& x, float& y) {
      if (passes_) {
        x = d == first_ + e;
        y = d == first_ + e + 1;
        return;
      }
      x = y = 0;
      add(own, own_state, d, e, x, y);
      add(passed, edge, d, e, x, y);
    });
  }
  __device__ void leave(const DeviceView& view, int state) {
    if (view.data == nullptr || state < 0) return;
    const int keys = p_.cut.keys;
    state_.each([&](int d, int e, float& x, float& y) {
      if (d < keys)
        write_two(view, row_offset(view, state * keys + d, head_), first_ + e, x, y, Write::store);
    });
  }

  // The state before the block, rounded, into shared memory.
  __device__ void round() {
    state_.each([&](int d, int e, float& x, float& y) { put_two(rounded_.at(d, e), x, y); });
  }
  // What round() wrote into scratch memory, where that has room for it; behind a barrier.
  __device__ void keep(std::int64_t offset, int block) const {
    if (offset < 0 || passes_) return;
    copy_to_scratch<D>(rounded_, scratch_of<T>(p_, offset, head_, block, D * p_.cut.E) + first_, p_.cut.E);
  }
  // Times the factors of a block, whose logarithms are given.
  __device__ void decay(const float* logs) {
#pragma unroll
    for (int m = 0; m < State::m_tiles; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float factor = power<T>(logs[State::first_row(m) + lane() / 4 + 8 * half]);
#pragma unroll
        for (int n = 0; n < State::n_tiles; ++n) {
          state_.value[m][n][2 * half] *= factor;
          state_.value[m][n][2 * half + 1] *= factor;
        }
      }
  }

  __device__ State& state() {
    return state_;
  }
  __device__ const Tile<T, columns>& rounded() const {
    return rounded_;
  }
  __device__ const DeviceChunk& chunk() const {
    return chunk_;
  }

 private:
  __device__ void add(const DeviceView& view, int state, int d, int e, float& x, float& y) const {
    if (view.data == nullptr || state < 0 || d >= p_.cut.keys) return;
    const std::int64_t at = row_offset(view, state * p_.cut.keys + d, head_) + first_ + e;
    if (first_ + e < view.width) x += load_element_as<float>(view.data, view.dtype, at);
    if (first_ + e + 1 < view.width) y += load_element_as<float>(view.data, view.dtype, at + 1);
  }

  const GatedParams& p_;
  const DeviceChunk& chunk_;
  const int head_;
  const bool passes_;
  const int first_;
  const Tile<T, columns> rounded_;
  State state_;
};

// One of two stages that hold what a block needs, `bytes` apart: pointers of the first are moved on.
template <class T, int columns>
__device__ inline Tile<T, columns> of_stage(const Tile<T, columns>& tile, int bytes) {
  return {reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(tile.data) + bytes)};
}

// The logarithms of a block's factors, on their way into shared memory.
template <int D>
__device__ inline void load_decays(const GatedParams& p, int head, int block, float* into) {
  const float* const from = scratch_of<float>(p, p.cut.scratch.decays, head, block, D);
  if (thread() < D / 4) cp_async_16(shared_address(into + 4 * thread()), from + 4 * thread(), 16);
}

// From the left: U = (T diag(beta) v) - W S, then S = diag(exp last) S + (k exp(last - G))^T U. Without beta
// U = v.
template <class T, int D>
class WalkForward {
 public:
  static constexpr int C = tokens_of<T>, columns = gated_slice;

  __device__ WalkForward(const GatedParams& p, int chunk, int head, int slice, Arena arena)
      : p_(p),
        first_block_(p.first_block[chunk]),
        blocks_(p.first_block[chunk + 1] - first_block_),
        has_beta_(p.beta.data != nullptr),
        first_stage_(arena),
        written_(arena.skip(stage_bytes).template tile<T, columns>(C)),
        walk_(p, chunk, head, slice, arena.tile<T, columns>(D)) {}

  __device__ void run() {
    const DeviceChunk& chunk = walk_.chunk();
    walk_.enter(p_.state, chunk.state, p_.carry, chunk.left);
    if (blocks_ > 0) load(0);
    for (int i = 0; i < blocks_; ++i) {
      const Stage stage = first_stage_.at(i % 2);
      walk_.round();
      wait_for_tiles();
      if (i + 1 < blocks_) load(i + 1);
      write(stage);
      walk_.keep(p_.cut.scratch.states, first_block_ + i);
      __syncthreads();
      walk_.decay(stage.decays);
      multiply<C, Stored::turned, Stored::straight>(walk_.state(), stage.keys, written_);
      if (has_beta_ && !walk_.passes() && p_.cut.scratch.states >= 0)
        copy_to_scratch<C>(written_, values_of(first_block_ + i), p_.cut.E);
    }
    if (walk_.passes())
      walk_.leave(p_.transition, chunk.state);
    else
      walk_.leave(p_.leaving, p_.leaving_by_state ? chunk.state : chunk.right);
  }

 private:
  static constexpr int stage_bytes = static_cast<int>(2 * gated_tile_bytes(C, D, sizeof(T)) +
                                                      gated_tile_bytes(C, columns, sizeof(T)) + 4 * D);
  struct Stage {
    Tile<T, D> keys, erase;
    Tile<T, columns> values;
    float* decays;
    __device__ Stage() {}
    __device__ explicit Stage(Arena& arena)
        : keys(arena.tile<T, D>(C)),
          erase(arena.tile<T, D>(C)),
          values(arena.tile<T, columns>(C)),
          decays(arena.take<float>(D)) {}
    __device__ Stage at(int number) const {
      Stage stage;
      const int bytes = number * stage_bytes;
      stage.keys = of_stage(keys, bytes), stage.erase = of_stage(erase, bytes);
      stage.values = of_stage(values, bytes), stage.decays = decays + bytes / 4;
      return stage;
    }
  };

  __device__ T* values_of(int block) const {
    return scratch_of<T>(p_, p_.cut.scratch.values, walk_.head(), block, C * p_.cut.E) + walk_.first();
  }
  __device__ void load(int i) const {
    const Stage stage = first_stage_.at(i % 2);
    const int block = first_block_ + i;
    const GatedScratch& s = p_.cut.scratch;
    load_decays<D>(p_, walk_.head(), block, stage.decays);
    load_scratch<C>(stage.keys, scratch_of<T>(p_, s.keys, walk_.head(), block, C * D), D);
    if (has_beta_) load_scratch<C>(stage.erase, scratch_of<T>(p_, s.erase, walk_.head(), block, C * D), D);
    if (!walk_.passes()) load_scratch<C>(stage.values, values_of(block), p_.cut.E);
  }

  // U of a block.
  __device__ void write(const Stage& stage) {
    Sums<T, C, columns> sums;
    sums.clear();
    if (has_beta_) multiply<D, Stored::straight, Stored::straight>(sums, stage.erase, walk_.rounded());
    sums.each([&](int t, int e, float& x, float& y) {
      float2 value = {0, 0};
      if (!walk_.passes()) value = get_two(stage.values.at(t, e));
      put_two(written_.at(t, e), value.x - x, value.y - y);
    });
  }

  const GatedParams& p_;
  const int first_block_, blocks_;
  const bool has_beta_;
  const Stage first_stage_;
  const Tile<T, columns> written_;
  WalkState<T, D> walk_;
};

// From the right, with R = dL/dS: dU = P^T dout + (k exp(last - G)) R, then R = diag(exp last) R + (q exp
// G)^T dout - W^T dU. Without beta nothing is lost; of the states of queries alone, dU is then not needed.
template <class T, int D>
class WalkReverse {
 public:
  static constexpr int C = tokens_of<T>, columns = gated_slice;

  __device__ WalkReverse(const GatedParams& p, int chunk, int head, int slice, Arena arena)
      : p_(p),
        first_block_(p.first_block[chunk]),
        blocks_(p.first_block[chunk + 1] - first_block_),
        has_beta_(p.beta.data != nullptr),
        has_dvalues_(p.cut.scratch.dvalues >= 0),
        first_stage_(arena),
        written_(arena.skip(stage_bytes).template tile<T, columns>(C)),
        walk_(p, chunk, head, slice, arena.tile<T, columns>(D)) {}

  __device__ void run() {
    const DeviceChunk& chunk = walk_.chunk();
    walk_.enter(p_.dstate, chunk.state, p_.dcarry, chunk.right);
    if (blocks_ > 0) load(blocks_ - 1);
    for (int i = blocks_ - 1; i >= 0; --i) {
      const Stage stage = first_stage_.at(i % 2);
      walk_.round();
      wait_for_tiles();
      if (i > 0) load(i - 1);
      if (has_dvalues_) write(stage, first_block_ + i);
      walk_.keep(p_.cut.scratch.dstates, first_block_ + i);
      __syncthreads();
      walk_.decay(stage.decays);
      multiply<C, Stored::turned, Stored::straight>(walk_.state(), stage.queries, stage.dout);
      if (has_beta_) multiply<C, Stored::turned, Stored::straight>(walk_.state(), stage.erase, written_);
    }
    walk_.leave(p_.leaving, p_.leaving_by_state ? chunk.state : chunk.left);
  }

 private:
  static constexpr int stage_bytes = static_cast<int>(3 * gated_tile_bytes(C, D, sizeof(T)) +
                                                      2 * gated_tile_bytes(C, columns, sizeof(T)) + 4 * D);
  struct Stage {
    Tile<T, D> keys, queries, erase;
    Tile<T, columns> dvalues, dout;
    float* decays;
    __device__ Stage() {}
    __device__ explicit Stage(Arena& arena)
        : keys(arena.tile<T, D>(C)),
          queries(arena.tile<T, D>(C)),
          erase(arena.tile<T, D>(C)),
          dvalues(arena.tile<T, columns>(C)),
          dout(arena.tile<T, columns>(C)),
          decays(arena.take<float>(D)) {}
    __device__ Stage at(int number) const {
      Stage stage;
      const int bytes = number * stage_bytes;
      stage.keys = of_stage(keys, bytes), stage.queries = of_stage(queries, bytes);
      stage.erase = of_stage(erase, bytes), stage.dvalues = of_stage(dvalues, bytes);
      stage.dout = of_stage(dout, bytes), stage.decays = decays + bytes / 4;
      return stage;
    }
  };

  __device__ T* dvalues_of(int block) const {
    return scratch_of<T>(p_, p_.cut.scratch.dvalues, walk_.head(), block, C * p_.cut.E) + walk_.first();
  }
  __device__ void load(int i) const {
    const Stage stage = first_stage_.at(i % 2);
    const int number = first_block_ + i, head = walk_.head();
    const DeviceChunk& block = p_.blocks[number];
    const GatedScratch& s = p_.cut.scratch;
    load_decays<D>(p_, head, number, stage.decays);
    load_scratch<C>(stage.queries, scratch_of<T>(p_, s.queries, head, number, C * D), D);
    load_rows<C>(stage.dout, p_.dout, head, block.row, block.count, walk_.first());
    if (has_beta_) load_scratch<C>(stage.erase, scratch_of<T>(p_, s.erase, head, number, C * D), D);
    if (!has_dvalues_) return;
    load_scratch<C>(stage.keys, scratch_of<T>(p_, s.keys, head, number, C * D), D);
    load_scratch<C>(stage.dvalues, dvalues_of(number), p_.cut.E);
  }

  // dU of a block, into scratch memory where the gradients ask for it; -dU into shared memory.
  __device__ void write(const Stage& stage, int block) {
    Sums<T, C, columns> sums;
    sums.clear();
    multiply<D, Stored::straight, Stored::straight>(sums, stage.keys, walk_.rounded());
    const bool keeps = p_.cut.scratch.dstates >= 0;
    T* const into = keeps ? dvalues_of(block) : nullptr;
    sums.each([&](int t, int e, float& x, float& y) {
      const float2 value = get_two(stage.dvalues.at(t, e));
      put_two(written_.at(t, e), -value.x - x, -value.y - y);
      if (keeps) put_two(into + t * p_.cut.E + e, value.x + x, value.y + y);
    });
  }

  const GatedParams& p_;
  const int first_block_, blocks_;
  const bool has_beta_, has_dvalues_;
  const Stage first_stage_;
  const Tile<T, columns> written_;
  WalkState<T, D> walk_;
};

// Thread blocks count through slices first, then heads, then chunks.
template <class T, int D, bool reverse>
__global__ void __launch_bounds__(gated_threads) gated_walk(const __grid_constant__ GatedParams p) {
  alignas(1024) extern __shared__ unsigned char walk_shared[];
  wait_on_dependent_grids();
  const int block = static_cast<int>(blockIdx.x);
  const int slices = p.cut.value_slices + (reverse ? 0 : p.cut.transition_slices);
  const int slice = block % slices, head = block / slices % p.heads, chunk = block / slices / p.heads;
  if constexpr (reverse)
    WalkReverse<T, D>(p, chunk, head, slice, Arena(walk_shared)).run();
  else
    WalkForward<T, D>(p, chunk, head, slice, Arena(walk_shared)).run();
}

// The factors of the D columns of whole chunks, where these are their transitions: one column.
template <int D>
__global__ void __launch_bounds__(gated_threads) gated_factors(const __grid_constant__ GatedParams p) {
  wait_on_dependent_grids();
  const int head = static_cast<int>(blockIdx.x) % p.heads, number = static_cast<int>(blockIdx.x) / p.heads;
  const int d = thread();
  if (d >= p.cut.keys) return;
  float sum = 0;
  for (int block = p.first_block[number]; block < p.first_block[number + 1]; ++block)
    sum += scratch_of<float>(p, p.cut.scratch.decays, head, block, D)[d];
  const DeviceView& view = p.transition;
  store_element_as<float>(expf(sum), view.data, view.dtype,
                          row_offset(view, p.chunks[number].state * p.cut.keys + d, head));
}

}  // namespace cplab::kernels::cuda::gated
