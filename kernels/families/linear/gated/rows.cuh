// What the queries of a block read: out = (q exp G) S + P U, with S the state at the block's left edge.
#pragma once

#include "kernels/families/linear/gated/gates.cuh"

namespace cplab::kernels::cuda::gated {

template <class T, int D>
__device__ inline void read_rows(const GatedParams& p, int head, int number, Arena arena) {
  constexpr int C = tokens_of<T>;
  const DeviceChunk& block = p.blocks[number];
  const GatedScratch& s = p.cut.scratch;
  const int E = p.cut.E;
  const Tile<T, D> queries = arena.tile<T, D>(C);
  const Tile<T, C> scores = arena.tile<T, C>(C);
  const Tile<T, gated_values> state = arena.tile<T, gated_values>(D), values = arena.tile<T, gated_values>(C);
  load_scratch<C>(queries, scratch_of<T>(p, s.queries, head, number, C * D), D);
  load_scratch<C>(scores, scratch_of<T>(p, s.scores, head, number, C * C), C);
  for (int first = 0; first < E; first += gated_values) {
    load_scratch<D>(state, scratch_of<T>(p, s.states, head, number, D * E) + first, E);
    load_scratch<C>(values, scratch_of<T>(p, s.values, head, number, C * E) + first, E);
    wait_for_tiles();
    Sums<T, C, gated_values> sums;
    sums.clear();
    multiply<D, Stored::straight, Stored::straight>(sums, queries, state);
    multiply<C, Stored::straight, Stored::straight>(sums, scores, values, LowerTerms{});
    write_rows(sums, p.out, head, block.row, block.count, first, p.write);
    __syncthreads();
  }
}

template <class T, int D>
__global__ void __launch_bounds__(gated_threads) gated_rows(const __grid_constant__ GatedParams p) {
  alignas(1024) extern __shared__ unsigned char rows_shared[];
  wait_on_dependent_grids();
  const int block = static_cast<int>(blockIdx.x);
  read_rows<T, D>(p, block % p.heads, block / p.heads, Arena(rows_shared));
}

}  // namespace cplab::kernels::cuda::gated
