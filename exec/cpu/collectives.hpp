// Reductions over the ranks of a group, on tensors of all its ranks in one memory.
#pragma once

#include <cstddef>
#include <vector>

#include "exec/device.hpp"
#include "plan/plan.hpp"

namespace cplab {

// A copy of a tensor in memory of its own, dense, of the same dtype.
class StagedTensor {
 public:
  StagedTensor(Device& device, const kernels::View& from, Lane lane);
  const kernels::View& view() const { return view_; }

 private:
  std::vector<std::byte> memory_;
  kernels::View view_;
};

// into = parts[0] (+ or max) parts[1] ..., in this order, all of one shape and dtype. A sum is rounded to
// that dtype after every addend, as a ring of NCCL does at every hop; a NaN among the parts makes the result
// NaN, of a sum and of a max.
void reduce_in_order(Device& device, Lane lane, Reduction reduction,
                     const std::vector<const StagedTensor*>& parts, const kernels::View& into);

}  // namespace cplab
