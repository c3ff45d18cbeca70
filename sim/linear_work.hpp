// What a call of linear attention gives a GPU to do: thread blocks, tokens that each walks over, bytes,
// FLOPs. How long that takes: linear_cost.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "calls/converter.hpp"
#include "kernels/choice/fall_back.hpp"
#include "kernels/tiles/gated_params.hpp"
#include "kernels/tiles/linear_params.hpp"
#include "plan/plan.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// Of one operation, local to inter: sizes, and its operands read and written once. D and E are 0 where no
// operand has them.
struct LinearWork {
  OpKind kind = OpKind::local;
  ChunkWork cut = ChunkWork::blocked;
  // What `run` launches on that GPU: its name (as in results; valid for good) and its cut. `persistent`: as
  // many thread blocks as run at once take the others' parts one after the other. A call that no kernel of
  // that GPU takes (a transition of every token where it is no Hopper) has no name, and the cut of the
  // general kernels.
  std::string_view variant;
  std::optional<kernels::cuda::FallBack> fall_back;
  kernels::cuda::LinearCut blocks;
  bool persistent = false;
  std::optional<kernels::cuda::GatedCut> gated;  // of kernels over blocks of tokens and states between them
  bool gate_columns = false;                     // they have a gate a column
  DType dtype = DType::bf16;                     // of rows of tokens
  std::int64_t heads = 0, D = 0, E = 0;
  std::int64_t tokens = 0, chunks = 0;  // of the list: all of them, and how many
  std::int64_t longest = 0;             // tokens of the longest chunk
  std::int64_t longest_run = 0;         // chunks between one that resets and the next
  std::int64_t longest_group = 0;       // of a scan: states that a thread block walks (scan_chunks())
  int of_values = 0, of_keys = 0;       // results with the width of v (out, dv), of q (dq, dk)
  double bytes = 0;                     // read plus written; what is added to counts twice
  double flops = 0;
};
// With the variant that a build with all kernels takes on that GPU (kernels/families/linear/variants.hpp).
// Throws HardwareError where no kernel takes the call (a head too large for any).
LinearWork linear_work(const CallConverter&, const Operation&, DType nominal, const GpuSpec&);
// Why a build without the full set of kernels refuses the operation; empty: it does not.
std::string linear_refusal(const CallConverter&, const Operation&, const GpuSpec&);

// The kernels of a call with a transition of every token: over blocks of tokens and heads, and walks of so
// many thread blocks and so many steps over the states between.
struct GatedLaunch {
  double blocks = 0, walks = 0, steps = 0;
  double size = 1;  // (D + E) / 256
  bool columns = false, strengths = false, forward = false, reverse = false, reads = false,
       differentiates = false;
};

// The kernels of one call: `blocks` thread blocks, of which the longest walks over `steps` times 64 tokens.
// `paired_steps`: likewise of a kernel of which a multiprocessor holds two thread blocks at a time.
struct LinearLaunch {
  DType dtype = DType::bf16;
  double blocks = 1;
  double steps = 0;
  double bytes = 0;  // that it moves, what several thread blocks read or write counted for each
  double flops = 0;
  double paired_steps = 0;
  double scan_steps = 0;    // states that a scan's longest thread block walks, two to a multiprocessor
  bool persistent = false;  // no multiprocessor is given up before the end
  std::optional<GatedLaunch> gated = {};
};
// In thread blocks as the launch cuts it: kernels/tiles/linear_cuts.hpp. Parts of one chunk read its rows
// again; slices of D and E read and write partial results again.
LinearLaunch linear_launch(const LinearWork&);

// What an operation of the class inter writes, in the order of Operand; of other classes nothing.
std::vector<Operand> results_of(const RankPlan&, const Operation&);
std::vector<Operand> results_of(const KernelTable&);

// The operation that a point of a table of local, local_backward, state, scan or inter was measured on, alone
// in a rank: the operands of its class with table.states, `sequence` tokens in chunks of table.chunk,
// table.sequences of them alike. The operation is the first of the rank.
RankPlan linear_point(const KernelTable&, const KernelPoint&);

}  // namespace cplab
