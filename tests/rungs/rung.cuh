// What all rungs share: the problem as a kernel takes it, which tile a thread block has, the two products,
// and the softmax between them. A consumer warp has 16 rows of the tile; each lane holds parts of two of
// them, lane / 4 and 8 more, as wgmma.cuh says.
#pragma once

#include <cstdint>

#include "kernels/families/fits.hpp"
#include "kernels/families/parts/accumulators.cuh"
#include "kernels/families/parts/hopper/instructions.cuh"
#include "kernels/families/parts/hopper/operands.cuh"
#include "kernels/families/parts/hopper/pipeline.cuh"
#include "kernels/families/parts/hopper/wgmma.cuh"
#include "kernels/tiles/heads_together.hpp"
#include "tests/rungs/rung.hpp"

namespace cplab::kernels::cuda::hopper::rungs {

constexpr int D = 128;                                             // head size
constexpr int keys = 128;                                          // of a block
constexpr int q_half_bytes = 64 * 128, k_half_bytes = keys * 128;  // bytes of 64 columns
constexpr int q_bytes = 2 * q_half_bytes, k_bytes = 2 * k_half_bytes;
using Products = Wgmma<__nv_bfloat16, 128>;

struct RungParams {
  CUtensorMap q, k, v, out;  // tiles of 64 rows of q and out, of `keys` rows of k and v
  __nv_bfloat16* out_rows = nullptr;
  float* lse = nullptr;
  int S = 0, heads = 0;
  int heads_per_group = 1;
  int blocks = 0;  // thread blocks of the grid
  bool causal = false;
  float scale_log2 = 0;
};

// Host: `map` makes a tensor map of a view and the rows of a tile. With (row, head) as coordinates a tile
// never crosses a head: rows past S are zero when loaded and not written when stored.
template <class MakeMap>
RungParams rung_params(const Problem& problem, MakeMap map) {
  const auto view = [&](const void* data) {
    return DeviceView{.data = const_cast<void*>(data),
                      .map = nullptr,
                      .row_stride = D,
                      .head_stride = std::int64_t{problem.S} * D,
                      .rows = problem.S,
                      .heads = problem.heads,
                      .width = D,
                      .dtype = DType::bf16};
  };
  RungParams params;
  params.q = map(view(problem.q), 64);
  params.k = map(view(problem.k), keys);
  params.v = map(view(problem.v), keys);
  params.out = map(view(problem.out), 64);
  params.out_rows = static_cast<__nv_bfloat16*>(problem.out);
  params.lse = problem.lse;
  params.S = problem.S;
  params.heads = problem.heads;
  // Full: the tiles of one head side by side. Causal: the longest of several heads first.
  if (problem.causal) params.heads_per_group = heads_per_group(problem.heads, problem.heads, view(problem.k));
  params.causal = problem.causal;
  params.scale_log2 = log2_e / 11.3137085f;  // the root of 128
  return params;
}

// --- tiles ------------------------------------------------------------------------------------------------

// Query rows [row, row + rows) of a head, and how many blocks of keys they see.
struct Tile {
  int head, row, blocks;
};

// Heads in groups whose keys and values stay in the L2 cache; in a group the longest tiles first.
template <int rows>
__device__ __forceinline__ Tile tile_at(const RungParams& params, int index) {
  const int tiles = (params.S + rows - 1) / rows;
  const int group = index / (tiles * params.heads_per_group) * params.heads_per_group;
  const int heads = min(params.heads_per_group, params.heads - group);
  const int in_group = index - group * tiles;
  const int row = (tiles - 1 - in_group / heads) * rows;
  const int seen = params.causal ? min(params.S, row + rows) : params.S;
  return {group + in_group % heads, row, (seen + keys - 1) / keys};
}

// Swizzled tiles begin at multiples of 1024 bytes; the launch adds that much.
template <class Memory>
__device__ __forceinline__ Memory& shared_memory() {
  extern __shared__ unsigned char rung_shared[];
  return *reinterpret_cast<Memory*>(rung_shared + (1024 - shared_address(rung_shared) % 1024) % 1024);
}

__device__ __forceinline__ int lane_index() {
  return thread_index() % 32;
}

// --- products ---------------------------------------------------------------------------------------------

// What a lane holds of its two rows.
struct Rows {
  float out[D / 8][4];
  float maximum[2];  // of the scores so far
  float sum[2];      // of the lane's own columns of P
  float rescale[2];  // what out is to be multiplied by
};

// Starts S = Q K^T, 64 x 128.
__device__ __forceinline__ void issue_qk(float (&scores)[keys / 8][4], std::uint32_t q, std::uint32_t k) {
  const TileDescriptor<q_half_bytes> a(q);
  const TileDescriptor<k_half_bytes> b(k);
  warpgroup_fence_operand(scores);
  warpgroup_arrive();
#pragma unroll
  for (int step = 0; step < D / 16; ++step)
    Products::multiply_ss(scores, a.k_major(step), b.k_major(step), step > 0);
  warpgroup_commit_batch();
}

// Starts out += P V, 64 x 128; P in registers.
__device__ __forceinline__ void issue_pv(Rows& rows, const std::uint32_t (&p)[keys / 16][4],
                                         std::uint32_t v) {
  const TileDescriptor<k_half_bytes> b(v);
  warpgroup_fence_operand(rows.out);
  warpgroup_arrive();
#pragma unroll
  for (int step = 0; step < keys / 16; ++step) Products::multiply_rs(rows.out, p[step], b.mn_major(step), 1);
  warpgroup_commit_batch();
}

// --- softmax ----------------------------------------------------------------------------------------------

__device__ __forceinline__ void start_rows(Rows& rows) {
#pragma unroll
  for (int n = 0; n < D / 8; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) rows.out[n][e] = 0;
  rows.maximum[0] = rows.maximum[1] = -infinity();
  rows.sum[0] = rows.sum[1] = 0;
}

// Scores of keys that the warp's rows, from first_row on, do not see become -inf. A row sees key 0 at least,
// so after the first block every maximum is finite.
__device__ __forceinline__ void mask_scores(float (&scores)[keys / 8][4], const RungParams& params,
                                            int first_row, int first_key) {
  const int last_key = first_key + keys - 1;
  if (last_key < params.S && (!params.causal || last_key <= first_row)) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + 8 * half + lane_index() / 4;
    const int last_seen = params.causal ? row : params.S - 1;  // rows past S are never written
    const int column = first_key + 2 * (lane_index() % 4);
#pragma unroll
    for (int n = 0; n < keys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        if (column + 8 * n + e > last_seen) scores[n][2 * half + e] = -infinity();
  }
}

// A step of the online softmax: scores become P = exp(s - maximum), as powers of 2. What was summed under a
// smaller maximum is rescaled: the sum here, out in rescale_out.
__device__ __forceinline__ void softmax_step(float (&scores)[keys / 8][4], Rows& rows, float scale_log2) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float held = rows.maximum[half];
    float highest = held;
#pragma unroll
    for (int n = 0; n < keys / 8; ++n)
      highest = fmaxf(highest, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    highest = row_max(highest);
    rows.maximum[half] = highest;
    const float shift = __fmul_rn(highest, scale_log2);
    rows.rescale[half] = exp2_approx(__fmul_rn(held, scale_log2) - shift);
    float sum = 0;
#pragma unroll
    for (int n = 0; n < keys / 8; ++n)
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; ++e) {
        scores[n][e] = exp2_approx(fmaf(scores[n][e], scale_log2, -shift));
        sum += scores[n][e];
      }
    rows.sum[half] = fmaf(rows.sum[half], rows.rescale[half], sum);
  }
}

__device__ __forceinline__ void rescale_out(Rows& rows) {
#pragma unroll
  for (int n = 0; n < D / 8; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) rows.out[n][e] *= rows.rescale[e / 2];
}

// The end: out becomes what it is to be, lse is written.
__device__ __forceinline__ void finish_rows(Rows& rows, const RungParams& params, int head, int first_row) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = row_sum(rows.sum[half]);
    rows.rescale[half] = 1 / sum;
    const int row = first_row + 8 * half + lane_index() / 4;
    if (lane_index() % 4 == 0 && row < params.S)
      params.lse[std::int64_t{head} * params.S + row] =
          fmaf(rows.maximum[half] * params.scale_log2, ln_2, logf(sum));
  }
  rescale_out(rows);
}

}  // namespace cplab::kernels::cuda::hopper::rungs
