// The simulator: when every operation of a plan runs on a machine that need not exist. What the model says
// and what it ignores: docs/05-cost-model.md.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "report/chain.hpp"
#include "sim/disturbance.hpp"
#include "sim/hardware.hpp"
#include "sim/kernel_cost.hpp"

namespace cplab {

// curve: a collective takes the time of the table of its kind, group size and path, where there is one, and
// its bytes do not share links. stepwise: rounds of point-to-point flows, always labelled extrapolated.
enum class CollectiveModel : std::uint8_t { curve, stepwise };

// Who shares the links among flows; both say the same to rounding. simgrid: the reference, in a child
// process, since it has one engine per process, which keeps its platform and its clock. native: in this
// process, never slower. automatic: native.
enum class FlowEngineChoice : std::uint8_t { automatic, simgrid, native };

struct SimulateOptions {
  CollectiveModel collective_model = CollectiveModel::curve;
  bool cuda_graph = false;
  std::int64_t run_ahead = 0;  // operations; 0: the hardware file's
  // Which iteration since the GPUs were idle, from 1 on; 0: one of many. Early ones may be over before the
  // clock falls (BurstSpec).
  std::int64_t iteration = 0;
  // NCCL's kernels come in clusters of so many thread blocks where their channels are a multiple of it; 1:
  // not, as the executor makes its communicators. NCCL's own choice on Hopper is 4.
  int nccl_cluster = 1;
  FlowEngineChoice engine = FlowEngineChoice::automatic;
  // What of single ranks is slower than the machine says, and how far kernels differ from call to call; what
  // these change is assumed. A rank that the plan has not is a std::out_of_range.
  std::vector<SlowRank> slow = {};
  double jitter = 0;
  std::uint64_t seed = 1;
  bool keep_multiprocessors = false;  // in Timeline::multiprocessors; not with SimGrid
  // Called every now and then, and at the end, with the operations done and all of them.
  std::function<void(std::int64_t done, std::int64_t all)> progress = {};
};

// How far a time of each origin may be off, as factors on it: the band of low_s and high_s.
struct Band {
  double low = 1, high = 1;
};
Band band(Origin);
// Of a kind that was held out: as far off as nine tenths of those runs, further by what is assumed of this
// machine, by what kernels of another build may differ, and by some microseconds in which launches differ
// from call to call.
constexpr double few_us_s = 5e-6, of_other_kernels = 0.05;
Band held_out_band(const KindAccuracy&, double assumed_share, double time_s, bool other_kernels);

inline constexpr std::size_t most_steps_beside = 1 << 15;

struct Simulation {
  Timeline timeline;
  double time_s = 0;  // the end of the last operation
  // Of all operations of all ranks, without waiting for peers or the host. In `busy` and `critical` a kernel
  // counts under the origins of the parts of its cost, and what it lost to communication under that of the
  // interference; Timeline shows where most of it is from.
  OriginSeconds busy;
  OriginSeconds critical;  // along the chain of operations that determines time_s; sums to it
  // The same chain by what its operations use: what binds. It goes through the peer that came last, so that
  // no waiting for peers is in it.
  UseSeconds critical_use;
  ChainParts critical_parts;  // by rank, link or NIC, and kind
  // The same in order of time, from 0 to time_s. With SimGrid empty where the chain is longer than
  // most_steps_beside, which is what its process has room for.
  std::vector<ChainStep> critical_steps;
  // held_out_band where the file has accuracies, else the critical chain with each part scaled by its band:
  // low_s <= time_s <= high_s. For a makespan under
  // independent errors this is the first-order answer: it does not see other chains becoming critical.
  double low_s = 0, high_s = 0;
  std::int64_t host_syncs = 0;
};

// Operations that can never run: the plan deadlocks, or communication kernels wait for multiprocessors that
// others hold while waiting for them.
struct StalledError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Simulates the plan; ranks fill the nodes in order. The same arguments give the same bits, run after run.
// May be called any number of times, from several threads as far as their `kernel_cost` may. With SimGrid it
// works in a child process: what `kernel_cost` changes in memory is lost. Throws HardwareError (validate,
// require_ranks, a table missing), ScenarioError (reserved_sms not in 0 .. sms - 1), StalledError,
// std::runtime_error (no child process).
Simulation simulate(const Plan& plan, const Hardware& hardware, const SimulateOptions& options,
                    const KernelCostFunction& kernel_cost);
// With standard_kernel_cost(hardware): at the highest clock, if with that iterations 1 to options.iteration
// take no longer than hardware.burst.seconds; else of GPUs long under load, twice where what they do beside
// attention leaves it a higher clock (settled_lift).
Simulation simulate(const Plan& plan, const Hardware& hardware, const SimulateOptions& options = {});

}  // namespace cplab
