// What a kernel costs alone on an idle GPU, from the hardware's tables.
#pragma once

#include <cstdint>
#include <functional>

#include "calls/converter.hpp"
#include "sim/clocks.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// `seconds`: duration on all multiprocessors. `waves`: how many times the thread blocks of the kernel fill
// the GPU, the last, partial one included. `tail_sms`: multiprocessors that the last wave occupies (all of
// them, if waves is 1). `useful_sms`: with more than these the kernel runs no faster. `persistent`: its
// thread blocks fetch tiles until none is left, so that none gives up its multiprocessor before the last
// wave. `shares`: a multiprocessor that holds its thread blocks has room for those of communication too.
struct KernelCost {
  double seconds = 0;
  int waves = 1;
  int tail_sms = 1;
  int useful_sms = 1;
  Origin origin = Origin::assumed;  // of most of its time
  bool persistent = false;
  bool shares = false;
  // How much of `seconds` is of which origin, where it is made of several; all 0: all is of `origin`.
  OriginSeconds parts = {};
};

// What a curve over bytes keeps on another memory: what it takes where memory carries the rest at most as
// fast as a copy, at least `least_s`, at most its first time.
double curve_launch_s(const std::vector<CurvePoint>&, double copy_bytes_s, double least_s);

// The work of a point of a table of attend or attend_backward.
double point_flops(const KernelTable&, const KernelPoint&);

// Called once for every operation that is neither communication nor host_sync, with the calls of its rank
// (converter.plan() is the rank). May throw HardwareError.
using KernelCostFunction = std::function<KernelCost(const Plan&, const CallConverter&, const Operation&)>;

// The standard function; `hardware` must outlive it. `lift`: the clocks of the ranks' GPUs. It remembers
// shapes: one thread at a time. Formula:
//
// attend, attend_backward of a kernel of ours whose family has tables: the time that the model of tiles gives
// the call (kernels/choice/choose.hpp: the tiles that the launch cuts, and what rows that are merged,
// added or stored one by one take), divided by how fast the model is at the points of the tables, model over
// measured. This ratio is interpolated linearly in log(keys per query row), and at equal keys in log(tiles),
// held constant outside the points; segments count by their live pairs. A point comes out exactly.
// Of another family's or a library's tables: whole waves of tiles (wave_times.hpp); those of another number
// of multiprocessors by their own waves. Which mask's table: by how many of the other side's rows are met
// (table_walk.hpp).
// A backward of ours whose dq another launch rounds takes a cast's time more. What is not a measured point
// takes no less than the bytes of the rows that its segments name at gpu.copy_bytes_s.
// Of general kernels, and of dynamic masks on tensor cores, the model of their tiles alone (general_time.hpp,
// masked_time.hpp); of projections of latents product_cost.hpp; of dynamic mask attention times
// expected_kept_cells(), and masked_bytes() / gpu.copy_bytes_s (masked_cost.hpp); assumed where keys are
// selected. local, local_backward, state, inter: linear_cost.hpp; scan, combine without a curve: its
// roofline. All others: the class's curve over bytes, else bytes / (gpu.copy_bytes_s times elementwise.CLASS,
// 1 if the file has none). Operands that are written with mode add or merge are read too: that adds bytes /
// gpu.copy_bytes_s, but for attention of Hopper's kernels, which add by TMA.
KernelCostFunction standard_kernel_cost(const Hardware& hardware, ClockLift lift = {});

}  // namespace cplab
