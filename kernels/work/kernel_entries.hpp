// The one table of kernels: every __global__ function of a build of kernels/cuda, described. Plain host code;
// what the compiler decides is in kernels/compiled.hpp, which also holds this table against the code.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/work/architectures.hpp"
#include "kernels/work/variants.hpp"

namespace cplab::kernels::cuda {

struct KernelEntry {
  std::string variant;               // as results name it: "attend_backward mma bf16 128", "copy"
  std::string part = {};             // of a variant with several functions: "dk, dv"; empty: its only one
  std::string_view kind;             // the operation: "attend", "linear_scan", "copy"
  std::string_view family;           // hopper, mma, general, rows
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
// as many thread blocks as run at once take tile after tile; reduce_add: dq is added to in memory; turns: in
// a fixed order.

// Of attend_variants(), attend_backward_variants(), linear_variants(), masked_variants(),
// masked_backward_variants() of the build, in that order, then scans of keep masks and selections of keys,
// then row-wise ones. The span stays valid.
std::span<const KernelEntry> kernel_entries(const KernelBuild& build);

// Whether all parts of a variant claim that architecture. Of one that `architectures` has not, and of a
// variant without an entry, nobody says that they do not.
bool has_room(std::string_view variant, int sm_major, int sm_minor);

}  // namespace cplab::kernels::cuda
