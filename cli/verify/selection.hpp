// Which keys dynamic mask attention keeps: made of the biases before attention, as Flash-DMA does
// (flash_sparse_attn/utils/mask.py), over all keys of a sequence.
#pragma once

#include "cli/verify/tensors.hpp"
#include "exec/gpu/executor.hpp"
#include "plan/plan.hpp"
#include "plan/problem.hpp"

namespace cplab {

// Adds `keep`, 1 or 0, in the shape of `bias`, where the problem selects keys. Of padding: 0.
void add_selection(const Problem&, Inputs&);

// Where the problem selects keys, lets the GPUs do it. Biases of keys are those of `inputs`; without these,
// uniform in [-1, 1).
void select_keys_on_gpus(const Plan&, const Inputs* inputs, std::uint64_t seed, GpuExecutor&);

}  // namespace cplab
