// The arithmetic of LASP's Triton kernels on the CPU, for `reproduce lasp-errors`.
#pragma once

#include "kernels/linear.hpp"

namespace cplab {

// Rows are widened to fp32 before they are multiplied (OpenNLPLab/LASP, lasp_*.py: `.to(tl.float32)` before
// every tl.dot), so that neither pairs nor states are rounded to bf16 on the way; results are rounded where
// they are stored. TF32, in which a GPU may multiply them, is not modelled. `defects`: with the faults
// bf16-state and bf16-index.
const kernels::LinearTiles& lasp_tiles(bool defects);

}  // namespace cplab
