// What the general attention kernels cost (kernels/cuda/general), which take any head size and dtype and
// multiply on ordinary cores, and how far that is from kernels on tensor cores.
#pragma once

#include "kernels/work/variants.hpp"

namespace cplab::kernels::cuda {

// us for 128 keys or queries of a tile of 32 rows on a multiprocessor of an H200 that is never idle. A
// product goes through its depth, the numbers of a head, 32 at a time; a result has 128 columns at a time, 64
// of fp64, and all that it is made from is computed again for every such pass: the forward in one thread
// block after the other, the backward in thread blocks of their own.
struct GeneralCosts {
  double forward = 0;             // all passes
  double dk = 0, dv = 0, dq = 0;  // a pass
  int key_passes = 1, value_passes = 1;
};
GeneralCosts general_costs(int key_size, int value_size, DType dtype);

// How long the tiles of a launch take, us: thread blocks are taken in the order of the list by
// multiprocessors that hold several at once. The backward, as launched, in its two launches.
double general_us(const ChosenForward& chosen, const Attend& call, int sms);
double general_us(const ChosenBackward& chosen, const AttendBackward& call, int sms);

// Of a live pair and query head, both products or all five.
double forward_flops(const HeadSizes&);
double backward_flops(const HeadSizes&);

HeadSizes sizes_of(const AttendVariant& variant);
HeadSizes sizes_of(const AttendBackwardVariant& variant);

// us for a FLOP on one multiprocessor that is never idle: of the general kernels; of those on tensor cores at
// their own head size; of the mma kernels.
double general_flop_us(bool forward, const HeadSizes& sizes, DType dtype);
double flop_us(const AttendVariant& variant);
double flop_us(const AttendBackwardVariant& variant);
double mma_flop_us(bool forward, const HeadSizes& sizes);

}  // namespace cplab::kernels::cuda
