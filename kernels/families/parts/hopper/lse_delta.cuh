// How TMA loads lse and delta of a block of queries.
#pragma once

#include <cstdint>

#include "kernels/families/parts/hopper/instructions.cuh"
#include "kernels/families/parts/primitives.cuh"

namespace cplab::kernels::cuda::hopper {

// lse and delta of four heads: TMA moves no less than 16 bytes, so the block's head comes with its
// neighbours, heads 4 n .. 4 n + 3.
template <int queries>
struct alignas(128) LoadedLseDelta {
  float lse[queries][4], delta[queries][4];
};

// Starts to load lse and delta for the queries from `row` on; a phase of `full` ends when they have
// come. The whole warp calls this, after its last read of what was there.
template <int queries>
__device__ __forceinline__ void load_lse_delta_tiles(LoadedLseDelta<queries>& into, const CUtensorMap& lse,
                                                     const CUtensorMap& delta, int row, int head,
                                                     std::uint32_t full) {
  __syncwarp();  // all lanes have then read what is about to be overwritten
  if (thread_index() % 32 != 0) return;
  arrive_and_expect_tx(full, sizeof(into));
  tma_load_heads(shared_address(into.lse), lse, row, head & ~3, full);
  tma_load_heads(shared_address(into.delta), delta, row, head & ~3, full);
}

}  // namespace cplab::kernels::cuda::hopper
