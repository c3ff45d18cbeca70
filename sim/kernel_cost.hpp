// What a kernel costs alone on an idle GPU, from the hardware's tables.
#pragma once

#include <functional>

#include "calls/converter.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// `seconds`: duration on all multiprocessors. `waves`: how many times the thread blocks of the kernel fill
// the GPU, the last, partial one included. `tail_sms`: multiprocessors that the last wave occupies (all of
// them, if waves is 1). `useful_sms`: with more than these the kernel runs no faster. `persistent`: its
// thread blocks fetch tiles until none is left, so that none gives up its multiprocessor before the last
// wave.
struct KernelCost {
  double seconds = 0;
  int waves = 1;
  int tail_sms = 1;
  int useful_sms = 1;
  Origin origin = Origin::assumed;
  bool persistent = false;
};

// The work of a point of a table of attend or attend_backward.
double point_flops(const KernelTable&, const KernelPoint&);

// Called once for every operation that is neither communication nor host_sync, with the calls of its rank
// (converter.plan() is the rank). May throw HardwareError.
using KernelCostFunction = std::function<KernelCost(const Plan&, const CallConverter&, const Operation&)>;

// The standard function; `hardware` must outlive it. It remembers shapes: one thread at a time. Formula:
//
// attend, attend_backward: a table point (B, S, H, seconds) has B*H*ceil(S/tile_rows) thread blocks, of which
// the GPU takes one a multiprocessor at a time, hence waves = ceil(blocks/sms) and fill = blocks/(waves*sms).
// rate = flops / (seconds * fill) is the speed while all multiprocessors are busy (scaled by their number,
// if the table says it was measured on another); it is interpolated linearly in log(keys per query row), and
// at equal keys in log(blocks), held constant outside the points.
// An operation takes sum over its segments of flops / rate(keys per row of the segment), divided by its own
// fill. At a point of the table this is the point's time exactly.
// local, local_backward, state, inter: linear_cost.hpp; scan, combine without a curve: its roofline.
// All others: the class's curve over bytes, else bytes / gpu.copy_bytes_s.
// Operands that are written with mode add or merge are read too: that adds bytes / gpu.copy_bytes_s.
KernelCostFunction standard_kernel_cost(const Hardware& hardware);

}  // namespace cplab
