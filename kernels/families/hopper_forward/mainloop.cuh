// The mainloop of the forward kernel, step by step: S = Q K^T, the online softmax, out += P V, for the 64
// rows of one consumer warpgroup. consumer.cuh says in which order the steps run.
#pragma once

#include <cstdint>

#include "kernels/families/hopper_forward/changed_scores.cuh"
#include "kernels/families/hopper_forward/multiply_again.cuh"
#include "kernels/families/hopper_forward/shared_storage.cuh"
#include "kernels/families/parts/exp2_polynomial.cuh"
#include "kernels/families/parts/hopper/mask.cuh"
#include "kernels/families/parts/hopper/operands.cuh"
#include "kernels/families/parts/hopper/wgmma.cuh"
#include "kernels/families/parts/softmax.cuh"
#include "kernels/tiles/measured_constants.hpp"

namespace cplab::kernels::cuda::hopper {

// 2^x for the n-th 8 columns: every `every`-th of them by the polynomial (0: none).
template <int every>
__device__ __forceinline__ float exp2_of(float x, int n) {
  if constexpr (every > 0) {
    if (n % every == every - 1) return exp2_polynomial(x);
  }
  return exp2_approx(x);
}

// The accumulators and the softmax state of a consumer warpgroup; `k` and `v` are the places of a block's K
// and V in their pipelines.
template <class T, int D, int W, bool changes>
class ForwardMainloop {
 public:
  using Shape = ForwardShape<D, W>;
  using KPlace = PipelinePlace<Shape::k_stages>;
  using VPlace = PipelinePlace<Shape::v_stages>;
  static constexpr int n_tiles = Shape::keys / 8, E = Shape::value_size;
  __device__ __forceinline__ ForwardMainloop(ForwardStorage<D, W>& memory, int warpgroup,
                                             const ForwardParamsOf<changes>& params)
      : memory_(memory),
        warpgroup_(warpgroup),
        scale_log2_(params.scale_log2),
        rescale_threshold_log2_(params.rescale_threshold_log2),
        changed_(params) {}

  float out[1][E / 8][4];
  SoftmaxState softmax;

  // Both are about the block whose BlockInfo was read last: whether it is the last of its tile, and
  // whether the next one has live pairs with these rows.
  __device__ __forceinline__ bool last() const { return (flags_ & block_is_last) != 0; }
  __device__ __forceinline__ bool next_is_live() const { return (flags_ >> warpgroup_ & 1) != 0; }

  // Begins a tile, in which this warp's rows begin at first_row.
  __device__ __forceinline__ void start(int first_row, int head) {
    first_row_ = first_row;
    changed_.start(head);
    clear(out);
    softmax = {{-infinity(), -infinity()}, {0, 0}};
    reference_ = Reference::unknown;
  }

  __device__ __forceinline__ void wait_k(int k) {
    wait(shared_address(&memory_.k_full[KPlace::stage(k)]), KPlace::parity(k));
  }

  // Starts S = Q K^T.
  __device__ __forceinline__ void issue_qk(int k, const TileDescriptor<Shape::q_half_bytes>& q) {
    const TileDescriptor<Shape::k_half_bytes> keys(shared_address(memory_.k[KPlace::stage(k)]));
    warpgroup_fence_operand(s_);
    warpgroup_arrive();
#pragma unroll
    for (int step = 0; step < D / 16; ++step)
      Wgmma<T, Shape::keys>::multiply_ss(s_, q.k_major(step), keys.k_major(step), step > 0);
    warpgroup_commit_batch();
  }

  // S becomes P, once it is complete; out is left to rescale_out(). buffer: of Q.
  //
  // P is exp2(S - reference), and a row's reference is a maximum of blocks before. So most blocks need not
  // wait for their own maxima: P is computed first, and its sums say whether it has grown too large.
  __device__ __forceinline__ void softmax_step(int k, int buffer) {
    warpgroup_fence_operand(s_);
    const bool masked = read_info(k);
    changed_.change(s_, memory_.bounds[KPlace::stage(k)], first_row_);
    if (masked) mask(k);
    if (reference_ == Reference::held) {
      float sums[2];
      exponentiate(sums);
      rescales_ = exceeds(sums, largest_p);
      if (!rescales_ || !exceeds(sums, largest_rescaled_p)) {
        release_k(k);
        if (rescales_) raise_reference(sums);
#pragma unroll
        for (int half = 0; half < 2; ++half) softmax.sum[half] += sums[half];
        return;
      }
      reference_ = Reference::unsafe;
      multiply_again<T, D>(s_, memory_.q[buffer][warpgroup_] + thread_index() / 32 % 4 * 16 * 128,
                           memory_.k[KPlace::stage(k)]);
      changed_.change(s_, memory_.bounds[KPlace::stage(k)], first_row_);
      if (masked) mask(k);
    }
    find_reference(k);
    float sums[2];
    exponentiate(sums);
#pragma unroll
    for (int half = 0; half < 2; ++half) softmax.sum[half] += sums[half];
  }

  // Keeps the compiler from moving the computation of P behind this point.
  __device__ __forceinline__ void fence_p() {
    warpgroup_fence_operand(s_);
    warpgroup_fence_operand(softmax.sum);
  }

  // P as operand A of P V. No earlier product may still be reading these registers.
  __device__ __forceinline__ void pack_p() {
    pack_operand<T>(s_, p_);
  }

  // Whether all rows of V's stage are keys of the block that P belongs to; if not, issue_pv() must zero the
  // rest.
  __device__ __forceinline__ bool v_is_full() const {
    return valid_keys_ >= Shape::keys;
  }

  // Starts out += P V; the caller commits the batch.
  __device__ __forceinline__ void issue_pv(int v) {
    const int stage = VPlace::stage(v);
    wait(shared_address(&memory_.v_full[stage]), VPlace::parity(v));
    if (valid_keys_ < Shape::keys) zero_v_tail(stage);
    const TileDescriptor<Shape::k_half_bytes> values(shared_address(memory_.v[stage]));
    warpgroup_fence_operand(out[0]);
    warpgroup_arrive();
#pragma unroll
    for (int step = 0; step < Shape::keys / 16; ++step)
      Wgmma<T, E>::multiply_rs(out[0], p_[step], values.mn_major(step), 1);
  }

  // After P V is complete: the producer may overwrite V.
  __device__ __forceinline__ void release_v(int v) {
    warpgroup_fence_operand(out[0]);
    __syncwarp();
    if (lane() == 0) arrive(shared_address(&memory_.v_empty[VPlace::stage(v)]));
  }

  // Returns whether the block must be masked.
  __device__ __forceinline__ bool read_info(int k) {
    const BlockInfo info = memory_.info[KPlace::stage(k)];
    valid_keys_ = info.keys;
    flags_ = info.flags;
    return (flags_ & block_is_masked) != 0;
  }

  // Releases K and V of a block in which these rows have no live pair, after read_info().
  __device__ __forceinline__ void skip_block(int k, int v) {
    const int stage = VPlace::stage(v);
    release_k(k);
    wait(shared_address(&memory_.v_full[stage]), VPlace::parity(v));
    __syncwarp();
    if (lane() == 0) arrive(shared_address(&memory_.v_empty[stage]));
  }

  __device__ __forceinline__ void rescale_out() {
    if (!rescales_) return;
#pragma unroll
    for (int d = 0; d < E / 8; ++d)
#pragma unroll
      for (int e = 0; e < 4; ++e) out[0][d][e] *= rescale_[e / 2];
  }

 private:
  // What is known of the warp's rows. unknown: some have seen no live key. unsafe: in this tile P has
  // exceeded largest_rescaled_p, so that its blocks are waited for.
  enum class Reference { unknown, held, unsafe };
  static constexpr float largest_p = 1 << static_cast<int>(measured("rescale_threshold"));
  // P up to here can be multiplied by its reciprocal: below 2^-126 that would become 0.
  static constexpr float largest_rescaled_p = 0x1p100f;

  __device__ __forceinline__ void mask(int k) {
    const Block& block = memory_.bounds[KPlace::stage(k)];
    if (!all_live<Shape::keys>(block, first_row_)) mask_dead_by_bits(s_, block, first_row_, -infinity());
  }

  // P from S, in place, and the sums of the lane's columns.
  __device__ __forceinline__ void exponentiate(float (&sums)[2]) {
    float parts[2][2] = {}, shift[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) shift[half] = scaled_maximum(softmax.maximum[half], scale_log2_);
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s_[n][e] = exp2_of<Shape::polynomial_every>(fmaf(s_[n][e], scale_log2_, -shift[e / 2]), n);
        parts[e / 2][e % 2] += s_[n][e];
      }
#pragma unroll
    for (int half = 0; half < 2; ++half) sums[half] = parts[half][0] + parts[half][1];
  }

  // Returns whether sums of any of the warp's rows exceed `most`, or are NaN.
  static __device__ __forceinline__ bool exceeds(const float (&sums)[2], float most) {
    return __any_sync(all_lanes, !(sums[0] <= most && sums[1] <= most)) != 0;
  }

  // After exponentiate(): rows with a P above 1 get a new reference, the maximum. P and the sums become what
  // they would be with that.
  __device__ __forceinline__ void raise_reference(float (&sums)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float highest = 1;
#pragma unroll
      for (int n = 0; n < n_tiles; ++n) highest = fmaxf(highest, fmaxf(s_[n][2 * half], s_[n][2 * half + 1]));
      const float held = softmax.maximum[half];
      softmax.maximum[half] = held + __fdividef(log2f(row_max(highest)), scale_log2_);
      set_rescale(half, held);
      sums[half] *= rescale_[half];
#pragma unroll
      for (int n = 0; n < n_tiles; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) s_[n][2 * half + e] *= rescale_[half];
    }
  }

  // From S, before exponentiate(): the reference becomes the maximum where that exceeds it too far.
  __device__ __forceinline__ void find_reference(int k) {
    // Each row has two sequences of maxima: in one, every operation would wait for the one before.
    float highest[2][2] = {{softmax.maximum[0], s_[0][0]}, {softmax.maximum[1], s_[0][2]}};
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        highest[half][n % 2] = fmaxf(highest[half][n % 2], fmaxf(s_[n][2 * half], s_[n][2 * half + 1]));
    bool exceeds = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      highest[half][0] = row_max(fmaxf(highest[half][0], highest[half][1]));
      // Written so that a NaN counts as exceeding.
      exceeds |= !(highest[half][0] * scale_log2_ <=
                   fmaf(softmax.maximum[half], scale_log2_, rescale_threshold_log2_));
    }
    rescales_ = __any_sync(all_lanes, exceeds) != 0;
    release_k(k);
    if (!rescales_) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float held = softmax.maximum[half];
      softmax.maximum[half] = highest[half][0];
      set_rescale(half, held);
    }
    const bool known = softmax.maximum[0] != -infinity() && softmax.maximum[1] != -infinity();
    // Where the reference is to be the maximum (rescale_threshold_log2()), every block is waited for.
    if (reference_ == Reference::unknown && rescale_threshold_log2_ > 0 && __all_sync(all_lanes, known) != 0)
      reference_ = Reference::held;
  }

  // After a row's reference has changed from `held`: its factors.
  __device__ __forceinline__ void set_rescale(int half, float held) {
    // No fused multiply-add: the factor must be exactly 1 where the reference stays.
    rescale_[half] =
        exp2_approx(__fmul_rn(held, scale_log2_) - scaled_maximum(softmax.maximum[half], scale_log2_));
    softmax.sum[half] *= rescale_[half];
  }

  static __device__ __forceinline__ int lane() {
    return thread_index() % 32;
  }

  __device__ __forceinline__ void release_k(int k) {
    __syncwarp();
    if (Shape::lanes_release_k == 32 || lane() == 0)
      arrive(shared_address(&memory_.k_empty[KPlace::stage(k)]));
  }

  // Rows of V beyond the block's keys may hold NaN, which times P = 0 is NaN. Each warpgroup zeroes them
  // itself, so that warpgroups need not wait for each other.
  __device__ __forceinline__ void zero_v_tail(int stage) {
    constexpr int chunks = Shape::k_half_bytes / Shape::keys / 16;  // of 16 bytes in a row of 64 columns
    const int count = (Shape::keys - valid_keys_) * chunks;
#pragma unroll 1
    for (int half = 0; half < E / 64; ++half)
#pragma unroll 1
      for (int n = thread_index() % warpgroup_threads; n < count; n += warpgroup_threads)
        *reinterpret_cast<uint4*>(memory_.v[stage] + half * Shape::k_half_bytes + valid_keys_ * 128 +
                                  n * 16) = make_uint4(0, 0, 0, 0);
    fence_view_async_shared();
    named_barrier_sync(2 + warpgroup_, warpgroup_threads);
  }

  ForwardStorage<D, W>& memory_;
  int warpgroup_;
  int first_row_ = 0;
  float scale_log2_, rescale_threshold_log2_;
  [[no_unique_address]] ChangedScores<changes> changed_;
  int valid_keys_ = 0, flags_ = 0;  // of the block whose BlockInfo was read last
  Reference reference_ = Reference::unknown;
  bool rescales_ = false;  // whether the reference maxima moved in this step
  float rescale_[2];
  float s_[n_tiles][4];
  std::uint32_t p_[n_tiles / 2][4];
};

}  // namespace cplab::kernels::cuda::hopper
