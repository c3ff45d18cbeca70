// Parameters, tile shape and shared memory of the two deterministic backward kernels.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/parts/instructions.cuh"
#include "kernels/cuda/hopper/parts/tile_scheduler.cuh"
#include "kernels/cuda/parts/segment_blocks.cuh"

namespace cplab::kernels::cuda::hopper {

struct DeterministicParams {
  AttendBackwardParams call;
  CUtensorMap q, k, v, dout;
  TileScheduler q_scheduler, k_scheduler;  // of the kernel for dq; of that for dk and dv
  float scale_log2 = 0;
};

// What a kernel computes: dq, or dk and dv.
enum class Gradient { dq, dkv };

template <Gradient gradient>
constexpr Owner owner_of = gradient == Gradient::dq ? Owner::queries : Owner::keys;

template <int D, Gradient gradient>
struct DeterministicShape {
  static constexpr int consumers = 2;  // warpgroups of 64 rows
  static constexpr int threads = warpgroup_threads * (1 + consumers);
  static constexpr int rows = 64 * consumers;
  static constexpr int columns = 64;
  static constexpr int stages = D == 64 ? 4 : 3;
  static constexpr int producer_registers = 24, consumer_registers = 240;
  // Bytes of 64 owned rows and of their first 64 columns; of `columns` rows of X and of their first 64
  // columns.
  static constexpr int owned_bytes = 64 * D * 2, owned_half_bytes = 64 * 128;
  static constexpr int block_bytes = columns * D * 2, block_half_bytes = columns * 128;
};

template <int D, Gradient gradient>
struct alignas(1024) DeterministicStorage {
  using Shape = DeterministicShape<D, gradient>;
  unsigned char a[Shape::consumers][Shape::owned_bytes], b[Shape::consumers][Shape::owned_bytes];
  unsigned char x[Shape::stages][Shape::block_bytes], y[Shape::stages][Shape::block_bytes];
  // For dk and dv, of the block's queries: lse in units of log2, +inf where the row has no gradient; and
  // delta.
  float lse[Shape::stages][Shape::columns], delta[Shape::stages][Shape::columns];
  Block bounds[Shape::stages];
  WorkTile tile;  // of the thread block, and its head; here because registers are short
  int head;
  int unclean[Shape::stages];  // X and Y have rows that may hold NaN
  std::uint64_t owned_full, full[Shape::stages], empty[Shape::stages];
  std::uint64_t block_known[Shape::stages];  // for dk and dv: `bounds` has been written
};

// lse in units of log2. A row whose lse is -inf has no gradient: +inf makes its P 0.
__device__ __forceinline__ float lse_log2(float lse) {
  return lse == -infinity() ? infinity() : lse * log2_e;
}

}  // namespace cplab::kernels::cuda::hopper
