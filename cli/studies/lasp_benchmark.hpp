// The published benchmark of the LASP methods (spec: B 2 x world, N 2048, timed on rank 0's host) around the
// plan of an algorithm: its barriers, host waits and cleared gradients, and the small launches that an eager
// framework makes between the kernels, each an operation of the plan.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"
#include "report/timeline.hpp"
#include "sim/kernel_cost.hpp"

namespace cplab {

// One launch of the framework: a pass over `bytes` of memory. host: made by the CPU, in pageable memory, and
// copied to the GPU, for which the host waits.
struct FrameworkLaunch {
  double bytes = 0;
  bool host = false;
};
inline constexpr std::string_view host_buffer_name = "from_host";  // of the buffers of launches by the host

// Where launches stand in a phase of a rank: at its start, before the first and behind the last operation
// over tokens (local, local_backward, state, inter), behind every combination of states, at its end.
struct FrameworkPhase {
  std::vector<FrameworkLaunch> start, before_kernels, after_kernels, combine, end;
};

struct LaspBenchmark {
  std::array<FrameworkPhase, 2> phases;  // by Phase
};

// Each phase becomes: barrier of the world, the host waits, [start] the launches and operations of the phase,
// the host waits for every lane, barrier of the world, the host waits [stop]. Barriers of the algorithm
// itself become barriers of the world at which the host waits, as those of torch.distributed do.
void bracket(Plan&, const LaspBenchmark&);

// From start to stop on the host of rank 0, by phase; of a bracketed plan. Seconds.
std::array<double, 2> bracketed_s(const Plan&, const Timeline&);

// The published kernels on that machine (Triton, spec 1.4): how they are cut and how many dependent
// iterations each thread block makes; a multiprocessor holds two thread blocks.
struct LaspKernels {
  double iteration_s = 0;     // of the loop of a thread block
  double floor_s = 0;         // of any kernel
  double host_bytes_s = 0;    // of launches by the host
  double framework_peak = 0;  // FLOP/s of the framework's fp32 products
};
// `hardware` must outlive it.
KernelCostFunction lasp_kernel_cost(const Hardware& hardware, const LaspKernels& kernels);

}  // namespace cplab
