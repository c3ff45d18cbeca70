// What the published Triton kernels of the LASP methods cost; see lasp_benchmark.hpp. Grids and loops:
// spec 1.4, read in OpenNLPLab/LASP (lasp_naive.py, lasp_fuse.py, lasp_fuse_parallel.py). Tokens a kernel
// takes at a time, and what a thread block walks over one after the other, differ from our kernels'.
#include <algorithm>
#include <cmath>

#include "cli/studies/lasp_benchmark.hpp"
#include "sim/linear_cost.hpp"

namespace cplab {
namespace {

constexpr double resident = 2;  // thread blocks of a multiprocessor

struct Grid {
  double blocks = 1, iterations = 0;
};

double blocks_of(std::int64_t extent, std::int64_t each) {
  return static_cast<double>(std::max<std::int64_t>(1, (extent + each - 1) / each));
}

// The diagonal kernel of fuse_parallel: row block c of 64 tokens meets c + 1 column blocks. Many thread
// blocks: the mean counts.
double mean_of_triangle(double rows) {
  return (rows + 1) / 2;
}

std::vector<Grid> grids_of(const LinearWork& work) {
  const double units = static_cast<double>(work.chunks * work.heads);
  const double rows64 = blocks_of(work.longest, 64), rows32 = blocks_of(work.longest, 32),
               rows16 = blocks_of(work.longest, 16);
  const double slices = blocks_of(work.D, 64) * blocks_of(work.E, 64);
  switch (work.kind) {
    case OpKind::local:
      if (work.cut == ChunkWork::serial) return {{units * blocks_of(work.E, 32), rows64}};
      if (work.cut == ChunkWork::sliced) return {{units * slices, rows64}};
      return {{units * rows64, mean_of_triangle(rows64)}};
    case OpKind::local_backward:
      // Diagonal blocks of 32 tokens; then one thread block a head, which goes through the tokens 16 at a
      // time: forwards for dq and the state, backwards for dk and dv and its gradient.
      if (work.cut == ChunkWork::serial) return {{units * rows32, 1}, {units, 4 * rows16}};
      if (work.cut == ChunkWork::sliced) return {{units * slices, 2 * rows32}};
      return {{units * rows64, 2 * mean_of_triangle(rows64)}};
    case OpKind::state: return {{units, rows64}};
    case OpKind::inter:
      if (work.cut != ChunkWork::blocked) return {{1, 0}};  // the framework's products
      return {{units * rows64, static_cast<double>(work.of_values + work.of_keys)}};
    case OpKind::scan:
      return {{units / static_cast<double>(std::max<std::int64_t>(1, work.longest_run)),
               static_cast<double>(work.longest_run)}};
    default: return {{1, 0}};
  }
}

class PublishedCost {
 public:
  PublishedCost(const Hardware& hardware, const LaspKernels& kernels)
      : hardware_(hardware), kernels_(kernels) {}

  KernelCost operator()(const Plan& plan, const CallConverter& calls, const Operation& op) const {
    const RankPlan& rank = calls.plan();
    KernelCost cost;
    cost.origin = Origin::assumed;
    cost.useful_sms = cost.tail_sms = hardware_.gpu.sms;
    if (is_linear(op.kind) && !is_convolution(op.kind)) {
      const LinearWork work = linear_work(calls, op, plan.scenario.problem.dtype, hardware_.gpu);
      const std::vector<Grid> grids = grids_of(work);
      for (const Grid& grid : grids)
        cost.seconds += seconds(work.bytes / static_cast<double>(grids.size()), grid);
      if (op.kind == OpKind::inter && work.cut != ChunkWork::blocked)
        cost.seconds = std::max(cost.seconds, work.flops / kernels_.framework_peak);
      return cost;
    }
    const bool from_host =
        op.kind == OpKind::fill &&
        rank.buffers[rank.views[rank.writes(op).front().view].buffer].name == host_buffer_name;
    cost.seconds = from_host ? static_cast<double>(op.bytes) / kernels_.host_bytes_s
                             : seconds(static_cast<double>(op.bytes), {1, 0});
    return cost;
  }

 private:
  double seconds(double bytes, const Grid& grid) const {
    const double waves = std::ceil(std::max(1.0, grid.blocks) / (resident * hardware_.gpu.sms));
    return std::max({bytes / hardware_.gpu.copy_bytes_s, waves * grid.iterations * kernels_.iteration_s,
                     kernels_.floor_s});
  }

  const Hardware& hardware_;
  const LaspKernels kernels_;
};

}  // namespace

KernelCostFunction lasp_kernel_cost(const Hardware& hardware, const LaspKernels& kernels) {
  return PublishedCost(hardware, kernels);
}

}  // namespace cplab
