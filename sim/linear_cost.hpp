// What kernels of linear attention cost alone on an idle GPU.
#pragma once

#include <vector>

#include "sim/kernel_cost.hpp"
#include "sim/linear_work.hpp"

namespace cplab {

// The roofline of one launch, of which the largest counts: bytes / gpu.copy_bytes_s; flops / gpu.peak_flops
// of the dtype, where the machine says it; waves x steps x linear.step_s, with waves = ceil(blocks / sms)
// (ceil(blocks / (2 sms)) where a multiprocessor holds two);
// linear.floor_s. Of a scan: ceil(blocks / (2 sms)) x states of its longest group x linear_scan_step
// (kernels/tiles/measured_constants.hpp) in place of the steps; its registers leave room for two thread
// blocks on a multiprocessor, and they wait for one state after the other. Of transitions of every token
// likewise the sum over kernels of blocks / sms, or of steps of a walk, times what each took on an H200. Its
// origin is assumed.
KernelCost linear_roofline(const Hardware&, const LinearLaunch&);
// The same with the memory and the peak of another GPU.
KernelCost linear_roofline(const Hardware&, const LinearLaunch&, const GpuSpec&);

// local, local_backward, state, scan and inter. A table of the class gives times at (tokens, heads). Between
// points the logarithm of the time is linear in that of the roofline (of a scan: of the states that a thread
// block walks), so that more work never takes less where points do not; outside measured over roofline is
// constant, and no time below linear.floor_s. At a point the time is the point's. A table fits whose class,
// dtype, head sizes, cut, states and results (of inter) are those of the operation; else, extrapolated, of
// those with its class and dtype the one whose sizes are nearest; without any, the roofline alone. Tables are
// read over the roofline of the memory and the peak that they were measured with; where somebody changed
// these, the time changes as the roofline does, and is extrapolated at best.
class LinearCost {
 public:
  // `hardware` must outlive it.
  explicit LinearCost(const Hardware& hardware);
  KernelCost operator()(const CallConverter&, const Operation&, DType nominal) const;

 private:
  struct Point {
    double extent = 0, factor = 0;  // seconds of the roofline; of a scan states
    LinearWork work;
    double seconds = 0;
    Origin origin = Origin::assumed;
  };
  struct Measured {
    const KernelTable* table = nullptr;  // the first of those alike
    std::vector<Point> points;           // extent ascending
  };
  const Measured* table_for(const LinearWork&, const std::vector<Operand>& states,
                            const std::vector<Operand>& results, bool& exact) const;

  KernelCost of_tables(const CallConverter&, const Operation&, const LinearWork&) const;

  const Hardware& hardware_;
  GpuSpec measured_gpu_;
  std::vector<Measured> tables_;
};

// The states among an operation's operands, in the order of Operand: what KernelTable::states says.
std::vector<Operand> states_of(const RankPlan&, const Operation&);

}  // namespace cplab
