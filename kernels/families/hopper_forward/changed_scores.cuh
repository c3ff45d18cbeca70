// What a forward kernel does to the scores of a block before it exponentiates them: nothing, or what
// ScoreParams say.
#pragma once

#include "kernels/families/hopper_forward/shared_storage.cuh"
#include "kernels/families/parts/hopper/scores.cuh"

namespace cplab::kernels::cuda::hopper {

template <bool changes>
struct ChangedScores {
  __device__ __forceinline__ explicit ChangedScores(const ForwardParams&) {}
  __device__ __forceinline__ void start(int) {}
  template <int n_tiles>
  __device__ __forceinline__ void change(float (&)[n_tiles][4], const Block&, int) const {}
};

template <>
struct ChangedScores<true> {
  __device__ __forceinline__ explicit ChangedScores(const ChangedForwardParams& params)
      : by_(params.scores) {}

  __device__ __forceinline__ void start(int head) { slope_ = by_.slopes != nullptr ? by_.slopes[head] : 0; }
  // s of the warp's 16 rows, from first_row on. In the block's bounds `segment` is the shift of its segment.
  template <int n_tiles>
  __device__ __forceinline__ void change(float (&s)[n_tiles][4], const Block& block, int first_row) const {
    if (by_.slopes != nullptr) {
      const int lane = thread_index() % 32;
      const int column = block.begin + 2 * (lane & 3), row = first_row + lane / 4;
      const int first = by_.step * (column - row) + block.segment;
      subtract_distances(s, slope_, by_.step, {first, first - 8 * by_.step});
    }
    if (by_.inner != 0) cap_scores(s, by_);
  }

 private:
  const ScoreParams& by_;
  float slope_ = 0;
};

}  // namespace cplab::kernels::cuda::hopper
