// Executes a plan on GPUs: lanes are streams, edges events, the links `nccl` and `copy` as the plan says. One
// process with a thread for every rank (ranks fill the GPUs in order), or one process for every rank.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "exec/executor.hpp"
#include "exec/gpu/error.hpp"
#include "exec/processes/rendezvous.hpp"
#include "kernels/choice/measured_choices.hpp"
#include "kernels/families/rates.hpp"
#include "plan/plan.hpp"
#include "report/results.hpp"

namespace cplab {

struct GpuOptions {
  int ranks_per_gpu = 1;  // more than 1 needs transport copy
  int warmup = 0;         // repetitions before those that are timed, at least,
  double settle_s = 0;    // and until the GPUs have been under load for so long: their clocks fall meanwhile
  int iterations = 1;
  int instrumented = 1;     // further ones, with events around every operation, for the timeline
  double timeout_s = 600;   // for all repetitions together
  bool cuda_graph = false;  // the whole plan, all ranks, captured once and replayed (timed repetitions only)
  bool separate = false;    // an allocation for every buffer, for memory checkers
  bool poison = false;      // fresh memory is NaN from its first use on, in every repetition
  bool deterministic = false;  // kernels that give the same bits in every run
  // How kernels of attention are chosen. All ranks have the same choices, so that none is slower than others
  // or rounds otherwise; nothing is measured here. `choices` outlives the executor.
  kernels::ChoiceWay way = kernels::ChoiceWay::table;
  const kernels::cuda::MeasuredChoices* choices = nullptr;
  // How fast kernels are on these GPUs, by which they are chosen; outlives the executor. Null: the rates of
  // the shipped hardware file of the GPU, or of its compute capability.
  const kernels::cuda::Rates* rates = nullptr;
  std::optional<std::uint64_t> jitter;  // seed of random spins before operations, not in instrumented ones
  bool keep_log = true;                 // MemoryLog of the first repetition
  // One process for every rank: this one executes rendezvous->rank() on GPU `local_rank` of its host, which
  // has `local_world` of them. Null: all ranks are threads of this process. Outlives the executor.
  Rendezvous* rendezvous = nullptr;
  int local_rank = 0, local_world = 1;
};

// What a selection of keys by their biases (dynamic mask attention) needs beside what a rank holds.
struct KeySelection {
  // Of a row of a rank's tensors: index into Problem::lengths, row of the flattened [B,S] or [T] axis.
  // Sequence -1: padding, for which nothing is selected.
  struct Row {
    std::int64_t sequence = -1, token = -1;
  };
  std::vector<std::vector<Row>> rows;  // by rank of the plan
  // bias = "keys": of all tokens, [T, key heads], because a selection is made among all keys of a sequence,
  // of which a rank has some.
  std::vector<double> biases;
};

bool have_gpu_device();  // in this build

// Parallel::islands of `world` ranks on the GPUs that they will have: ranks share one where they are on one
// host and each GPU can write into the memory of the other. Collective over the processes of a launch. Throws
// GpuError.
std::vector<int> islands_of_gpus(int world, const GpuOptions& options);

class GpuExecutor final : public Executor {
 public:
  // Throws BadPlan if the plan cannot be executed, NotEnoughMemory, and GpuError if there are too few GPUs,
  // if they cannot reach each other's memory over which the plan copies, or if CUDA fails. The plan outlives
  // the executor.
  GpuExecutor(const Plan& plan, const GpuOptions& options);
  ~GpuExecutor() override;
  GpuExecutor(const GpuExecutor&) = delete;
  GpuExecutor& operator=(const GpuExecutor&) = delete;

  bool has(int rank, std::string_view buffer) const override;
  void write(int rank, std::string_view buffer, std::span<const double> values) override;
  std::vector<double> read(int rank, std::string_view buffer) const override;
  // Every input buffer standard normal, made on the GPUs, in no global order: for runs whose results
  // nobody reads.
  void randomize_inputs(std::uint64_t seed);
  // Selects keys on the GPUs as the problem says (kernels/masked.hpp, SelectKeys): fills the input `keep` of
  // every rank, of bias = "keys" also `bias`; of bias = "full" from the biases that the rank holds. A step
  // before attention, in no operation and in no time.
  void select_keys(const KeySelection& selection);
  // Results of ranks in other processes can be read after run(), which brings them here.
  // The timeline is that of the instrumented repetition whose time is the (lower) median. Throws GpuError
  // too.
  ExecutionResult run() override;

  // What a result says of the machine and the launch; complete after run().
  const GpuRun& facts() const;
  std::int64_t capacity_bytes() const;  // of one GPU, divided by the ranks that share it

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cplab
