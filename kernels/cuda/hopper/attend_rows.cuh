// What the consumers of the forward kernel for Hopper do with a tile: scores, their softmax, sums of values.
#pragma once

#include <cstdint>

#include "kernels/cuda/exp2_polynomial.cuh"
#include "kernels/cuda/hopper/attend_memory.cuh"
#include "kernels/cuda/hopper/descriptor.cuh"
#include "kernels/cuda/hopper/wgmma.cuh"
#include "kernels/cuda/softmax_rows.cuh"

namespace cplab::kernels::cuda::hopper {

// 2^x, in column tile n: of every `every` tiles one by the polynomial (0: none).
template <int every>
__device__ __forceinline__ float weight_of(float x, int n) {
  if constexpr (every > 0) {
    if (n % every == every - 1) return exp2_polynomial(x);
  }
  return exp2_approx(x);
}

// What one consumer warp keeps of its 16 rows while it walks the keys.
template <class T, int D, int W>
class HopperRows {
 public:
  using Shape = HopperAttendShape<D, W>;
  using Stages = Ring<Shape::stages>;
  static constexpr int n_tiles = Shape::keys / 8;
  // A row's maximum moves only when it grows by a factor of 2^growth of the weights, which then are at most
  // that: out has hardly ever to be rescaled (FlashAttention 4). The final division by the sum makes up for
  // it.
  static constexpr float growth = 8;

  __device__ __forceinline__ HopperRows(HopperAttendMemory<D, W>& memory, int warpgroup, float scale_log2)
      : memory_(memory), warpgroup_(warpgroup), scale_log2_(scale_log2) {}

  float out[1][D / 8][4];
  SoftmaxRows softmax;

  // Of the block whose facts were read last: no block of the tile comes after it; one with live pairs does.
  __device__ __forceinline__ bool last() const { return (marks_ & block_is_last) != 0; }
  __device__ __forceinline__ bool goes_on() const { return (marks_ >> warpgroup_ & 1) != 0; }

  // A tile whose rows, for this warp, begin there.
  __device__ __forceinline__ void start(int first_row) {
    first_row_ = first_row;
    clear(out);
    softmax = {{-infinity(), -infinity()}, {0, 0}};
  }

  __device__ __forceinline__ void wait_for_keys(int count) {
    wait(shared_address(&memory_.k_full[Stages::stage(count)]), Stages::parity(count));
  }

  // Queues S = Q K^T of a block.
  __device__ __forceinline__ void queue_scores(int count, const TileDescriptor<Shape::q_half>& q) {
    const TileDescriptor<Shape::k_half> k(shared_address(memory_.k[Stages::stage(count)]));
    pin(scores_);
    fence_products();
#pragma unroll
    for (int step = 0; step < D / 16; ++step)
      Wgmma<T, Shape::keys>::multiply_shared(scores_, q.contiguous(step), k.contiguous(step), step > 0);
    commit_products();
  }

  // Scores that are there become weights; out waits for its shrink.
  __device__ __forceinline__ void weigh_scores(int count) {
    pin(scores_);
    if (read_facts(count)) {
      const Block& block = memory_.bounds[Stages::stage(count)];
      if (!all_live<Shape::keys>(block, first_row_))
        mask_dead_by_bits(scores_, block, first_row_, -infinity());
    }
    // Two chains of operations for each row: one would wait for itself.
    float highest[2][2] = {{softmax.maximum[0], scores_[0][0]}, {softmax.maximum[1], scores_[0][2]}};
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        highest[half][n % 2] =
            fmaxf(highest[half][n % 2], fmaxf(scores_[n][2 * half], scores_[n][2 * half + 1]));
    float shift[2], sums[2][2] = {};
    bool grows = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      highest[half][0] = row_max(fmaxf(highest[half][0], highest[half][1]));
      // Written so that NaN grows.
      grows |= !(highest[half][0] * scale_log2_ <= fmaf(softmax.maximum[half], scale_log2_, growth));
    }
    shrinks_ = __any_sync(all_lanes, grows) != 0;
    release_keys(count);
    if (shrinks_) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float held = softmax.maximum[half];
        softmax.maximum[half] = highest[half][0];
        // Without fusing: exactly 1 where the maximum stays.
        shrink_[half] =
            exp2_approx(__fmul_rn(held, scale_log2_) - shift_of(softmax.maximum[half], scale_log2_));
        softmax.sum[half] *= shrink_[half];
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) shift[half] = shift_of(softmax.maximum[half], scale_log2_);
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        scores_[n][e] =
            weight_of<Shape::polynomial_every>(fmaf(scores_[n][e], scale_log2_, -shift[e / 2]), n);
        sums[e / 2][e % 2] += scores_[n][e];
      }
#pragma unroll
    for (int half = 0; half < 2; ++half) softmax.sum[half] += sums[half][0] + sums[half][1];
  }

  // The compiler's front end keeps what makes the weights before this point.
  __device__ __forceinline__ void pin_weights() {
    pin(scores_);
    pin(softmax.sum);
  }

  // The weights as operand of the next product: no earlier one may still read the registers.
  __device__ __forceinline__ void pack_weights() {
    pack_operand<T>(scores_, weights_);
  }

  // Whether the block whose weights are held has as many keys as a stage has room for.
  __device__ __forceinline__ bool values_are_whole() const {
    return valid_keys_ >= Shape::keys;
  }

  // Starts a batch with out += P V of a block.
  __device__ __forceinline__ void queue_values(int count) {
    const int stage = Stages::stage(count);
    wait(shared_address(&memory_.v_full[stage]), Stages::parity(count));
    if (valid_keys_ < Shape::keys) clear_values(stage);
    const TileDescriptor<Shape::k_half> v(shared_address(memory_.v[stage]));
    pin(out[0]);
    fence_products();
#pragma unroll
    for (int step = 0; step < Shape::keys / 16; ++step)
      Wgmma<T, D>::multiply_registers(out[0], weights_[step], v.strided(step), 1);
  }

  // After the wait: V may be overwritten.
  __device__ __forceinline__ void release_values(int count) {
    pin(out[0]);
    __syncwarp();
    if (lane() == 0) arrive(shared_address(&memory_.v_empty[Stages::stage(count)]));
  }

  // Whether pairs of the block may not be live.
  __device__ __forceinline__ bool read_facts(int count) {
    const BlockFacts facts = memory_.facts[Stages::stage(count)];
    valid_keys_ = facts.keys;
    marks_ = facts.marks;
    return (marks_ & block_is_masked) != 0;
  }

  // A block in which these rows have no live pair, and whose facts have been read.
  __device__ __forceinline__ void pass_block(int count) {
    const int stage = Stages::stage(count);
    release_keys(count);
    wait(shared_address(&memory_.v_full[stage]), Stages::parity(count));
    __syncwarp();
    if (lane() == 0) arrive(shared_address(&memory_.v_empty[stage]));
  }

  __device__ __forceinline__ void shrink_out() {
    if (!shrinks_) return;
#pragma unroll
    for (int d = 0; d < D / 8; ++d)
#pragma unroll
      for (int e = 0; e < 4; ++e) out[0][d][e] *= shrink_[e / 2];
  }

 private:
  static __device__ __forceinline__ int lane() {
    return thread_index() % 32;
  }

  __device__ __forceinline__ void release_keys(int count) {
    __syncwarp();
    if (Shape::lanes_release_keys == 32 || lane() == 0)
      arrive(shared_address(&memory_.k_empty[Stages::stage(count)]));
  }

  // Rows of V beyond the block's keys belong to somebody else, or to nobody: 0 times NaN must not happen.
  // Each warpgroup clears them for itself: warpgroups need not meet.
  __device__ __forceinline__ void clear_values(int stage) {
    constexpr int chunks = Shape::k_half / Shape::keys / 16;  // of 16 bytes in a row of 64 columns
    const int count = (Shape::keys - valid_keys_) * chunks;
#pragma unroll 1
    for (int half = 0; half < D / 64; ++half)
#pragma unroll 1
      for (int n = thread_index() % warpgroup_threads; n < count; n += warpgroup_threads)
        *reinterpret_cast<uint4*>(memory_.v[stage] + half * Shape::k_half + valid_keys_ * 128 + n * 16) =
            make_uint4(0, 0, 0, 0);
    fence_shared_writes();
    sync_threads_of(2 + warpgroup_, warpgroup_threads);
  }

  HopperAttendMemory<D, W>& memory_;
  int warpgroup_;
  int first_row_ = 0;
  float scale_log2_;
  int valid_keys_ = 0, marks_ = 0;  // of the block whose facts were read last
  bool shrinks_ = false;            // whether the maxima, to which weights and sums are relative, have moved
  float shrink_[2];
  float scores_[n_tiles][4];
  std::uint32_t weights_[n_tiles / 2][4];
};

}  // namespace cplab::kernels::cuda::hopper
