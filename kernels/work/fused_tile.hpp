// The tile shape of the fused backward kernel for Hopper that a build launches. scripts/backward_tiles.py
// counts what each shape costs; tests/emulator runs them all.
#pragma once

namespace cplab::kernels::cuda {

// How the fused backward kernel for Hopper cuts a tile of keys: blocks of so many queries, and tiles of dS in
// shared memory (2: dq of a block is computed in the turn of the next one). The options CPLAB_FUSED_TILE_128
// and _64, "QUERIESxTILES", choose another shape for a build, for measuring.
struct FusedTile {
  int queries = 0, ds_tiles = 0;
  constexpr bool operator==(const FusedTile&) const = default;
};
constexpr FusedTile usual_fused_tile(int head_size) {
  return {head_size == 64 ? 128 : 64, 2};
}
constexpr FusedTile fused_tile(int head_size) {
#ifdef CPLAB_FUSED_QUERIES_128
  if (head_size == 128) return {CPLAB_FUSED_QUERIES_128, CPLAB_FUSED_DS_TILES_128};
#endif
#ifdef CPLAB_FUSED_QUERIES_64
  if (head_size == 64) return {CPLAB_FUSED_QUERIES_64, CPLAB_FUSED_DS_TILES_64};
#endif
  return usual_fused_tile(head_size);
}

}  // namespace cplab::kernels::cuda
