// The general attention kernels, which take any head size and dtype and multiply on ordinary cores: their
// tiles, their names and what they cost.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/families/head_sizes.hpp"
#include "kernels/families/rates.hpp"
#include "kernels/kernels.hpp"

namespace cplab::kernels::cuda {

constexpr std::int32_t general_tile_rows = 32;

// accumulator: fp32 or fp64. "attend general", "attend general fp64"
std::string general_forward_name(DType accumulator);
std::string general_backward_name(DType accumulator);

// us for 128 keys or queries of a tile of 32 rows on a multiprocessor of an H200 that is never idle. A
// product goes through its depth, the numbers of a head, 32 at a time; a result has 128 columns at a time, 64
// of fp64, and all that it is made from is computed again for every such pass: the forward in one thread
// block after the other, the backward in thread blocks of their own.
struct GeneralCosts {
  double forward = 0;             // all passes
  double dk = 0, dv = 0, dq = 0;  // a pass
  int key_passes = 1, value_passes = 1;
};
GeneralCosts general_costs(const HeadSizes& sizes, DType dtype, const Rates& rates);

// us for a FLOP on one multiprocessor that is never idle.
double general_flop_us(bool forward, const HeadSizes& sizes, DType dtype, const Rates& rates);

}  // namespace cplab::kernels::cuda
