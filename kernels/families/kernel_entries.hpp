// The one table of kernels: every __global__ function of a build of kernels/cuda, described. Plain host code;
// what the compiler decides is in kernels/compiled.hpp, which also holds this table against the code.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/families/architectures.hpp"
#include "kernels/kernels.hpp"

namespace cplab::kernels::cuda {

struct KernelBuild;  // variants.hpp

struct KernelEntry {
  std::string variant;               // as results name it: "attend_backward mma bf16 128", "copy"
  std::string part = {};             // of a variant with several functions: "dk, dv"; empty: its only one
  std::string_view kind;             // the operation: "attend", "linear_scan", "copy"
  std::string_view family;           // hopper, mma, general, rows, products
  DType dtype = DType::fp32;         // of the operands; of general and rows: in which sums run
  int key_size = 0, value_size = 0;  // D, E; 0: any
  Claim claim = Claim::all;          // on which architectures it runs
  int threads = 0;                   // of a thread block
  // What a thread block takes at a time. Attention: queries x keys, one of them its own tile, of the other
  // `stages` whole blocks are in shared memory. Linear attention: tokens x columns of a state. 0: by rows, no
  // tile.
  int tile_rows = 0, tile_columns = 0;
  int stages = 0;
  bool deterministic = true;
  std::vector<std::string_view> features = {};

  std::string name() const { return part.empty() ? variant : variant + " (" + part + ")"; }
  int warps() const { return (threads + 31) / 32; }
};

// Words of `features`: mma_sync and wgmma are the tensor-core instructions, cp_async and tma bring tiles;
// warp_specialized: a warpgroup of its own brings them, and registers are handed on (setmaxnreg); persistent:
// as many thread blocks as run at once take tile after tile; split_keys: the keys of a tile go to several;
// reduce_add: dq is added to in memory; turns: in a fixed order.

// One function of a variant, where it has several.
struct KernelPart {
  std::string name;
  int threads = 0, tile_rows = 0, tile_columns = 0, stages = 0;
};
std::vector<KernelEntry> with_parts(const KernelEntry& variant, std::vector<KernelPart> parts);

template <class Variant>
KernelEntry entry_of(const Variant& variant, std::string_view kind, std::string_view family) {
  return {.variant = variant.name,
          .kind = kind,
          .family = family,
          .dtype = variant.dtype,
          .key_size = variant.sizes().key,
          .value_size = variant.sizes().value};
}
inline std::vector<std::string_view> features_of_hopper() {
  return {"wgmma", "tma", "warp_specialized", "persistent"};
}
inline std::vector<std::string_view> features_of_mma() {
  return {"mma_sync", "cp_async"};
}

// Entries of the families that are not of softmax attention (family.hpp has those).
std::vector<KernelEntry> linear_entries(const KernelBuild& build);
std::vector<KernelEntry> masked_entries(const KernelBuild& build);
std::vector<KernelEntry> rowwise_entries();
std::vector<KernelEntry> product_entries();

// Of attend_variants(), attend_backward_variants(), linear_variants(), masked_variants(),
// masked_backward_variants() of the build, in that order, then scans of keep masks and selections of keys,
// then row-wise ones and products for latents. The span stays valid.
std::span<const KernelEntry> kernel_entries(const KernelBuild& build);

// Whether all parts of a variant claim that architecture. Of one that `architectures` has not, and of a
// variant without an entry, nobody says that they do not.
bool has_room(std::string_view variant, int sm_major, int sm_minor);

}  // namespace cplab::kernels::cuda
