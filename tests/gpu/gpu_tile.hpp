// One call of a CUDA tile on tensors of tests/kernels, and what a run of many cases reports.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda.hpp"
#include "tests/gpu/device_memory.hpp"
#include "tests/kernels/masked_cases.hpp"
#include "tests/kernels/tensor.hpp"
#include "tests/kernels/tile_cases.hpp"

namespace cplab::testing {

// Copies of tensors in device memory, each `shift` elements behind an address aligned to 256 bytes plus its
// offset in the host's memory.
class Mirror {
 public:
  Mirror(std::span<Tensor* const> tensors, std::int64_t shift);

  // The same view of the copy of whichever tensor `view` points into.
  View device(View view) const;
  void upload();
  // Makes everything NaN.
  void poison();
  // Adds kernels that bring, launched in their order, what `other` has of the same tensors. Which come last,
  // behind one that takes its time, depends on the tensors' sizes.
  std::vector<std::size_t> add_copies(kernels::CudaCalls& calls, const Mirror& other) const;
  std::vector<std::vector<std::byte>> download() const;
  void assign(const std::vector<std::vector<std::byte>>& memories) const;  // to the tensors

 private:
  struct Copy {
    Tensor* tensor;
    std::size_t begin;  // of the tensor's memory in `memory`
    kernels::DeviceMemory memory;
  };
  std::vector<Copy> copies_;
  kernels::DeviceMemory slow_;
};

// The attention kernels that run_on_gpu and bench take; set before threads start.
extern kernels::KernelChoice kernel_choice;
// Of the portable ones, those with small tiles where there are any: the only ones on SM 8.6 and 8.9.
extern bool small_tiles;
// Forward calls go to the kernels for few queries where these take them, and cases have few.
extern bool few_queries;
// Calls are run twice, and not behind kernels that bring what they read: for the tools of compute-sanitizer,
// which let no two kernels overlap and take minutes for such a copy.
extern bool alone;

// For CallOptions::only: the variant with small tiles that takes the call; empty: none, or not asked for.
std::string_view with_small_tiles(const kernels::AttendBackward& call);
// Likewise one of the kernels for few queries, by the numbers of rows.
std::string_view one_for_few_queries(const kernels::Attend& call);
// Where the backward kernels of Hopper that sum dq would take the call, or with the same bits in every run
// those that have them: one of these, by its number of rows. Most cases have so few tiles that always the
// same one would be chosen.
std::string_view one_of_kernels(const kernels::AttendBackward& call);

// Runs one call twice on copies of `tensors`: with all of them there, and right behind kernels that bring
// them, which it may not overtake, whatever of it is launched before these have ended. Leaves the second
// result in `tensors`. `add` adds the call with views from the mirror. options: of the call; their `choice`
// is always kernel_choice.
TileRun run_on_gpu(std::span<Tensor* const> tensors, std::int64_t shift,
                   const std::function<std::size_t(kernels::CudaCalls&, const Mirror&)>& add,
                   const std::function<kernels::CallOptions(const Mirror&)>& options = {});

// Attention on the GPU, for attend_case.
TileRunner gpu_attention();

// Dynamic mask attention on the GPU, for masked_case.
MaskedRunner gpu_masked_attention();

// row_dot, merge, merge_lse, rescale, copy, add, fill against the CPU tiles.
void row_case(Report& report, const CaseName& name);

// Linear attention against a recurrence in double.
void linear_case(Report& report, const CaseName& name, bool has_fp64);
// With transitions of every token, against the CPU in double.
void gated_case(Report& report, const CaseName& name);

// Times attention for another program (scripts/peer_attention.py) that times its own in turn: reads lines
// from stdin and answers each with one on stdout.
//   shape B S H D full|causal            -> ok
//   packed H HEADS_OF_KEYS D full|causal LENGTH...   -> ok: sequences of these lengths
//   time forward|backward CHOICE CALLS   -> seconds of a call, and the kernel's name
// CHOICE: best, deterministic, apart, portable; or one kernel of the backward on Hopper: fused, fused-64
// (keys), ordered, chains, tiles-apart. A backward is the whole call: row_dot, the gradients in bf16, and
// whatever they need in between; with "-sums-dkv" behind the choice dk and dv are summed in fp32 and cast, as
// in plans of the ring. CALLS calls stand behind a copy that hides their launches.
void serve();

// The same for linear attention (scripts/peer_linear_attention.py):
//   linear TOKENS H D E CHUNK_TOKENS   -> ok
//   part NAME CALLS                    -> seconds of a call, and its last kernel's name
//   end                                -> ok, and the memory is free
// NAME: forward (state, scan, local) or backward (reverse_state, reverse_scan, local_backward) or one of
// these.
void serve_linear();

// Prints TFLOP/s of attention on a table of shapes, and GB/s of the row-wise kernels.
void bench(const std::string& only);
void bench_segments();  // part of it
void bench_linear();    // likewise
// Dynamic mask attention by density of kept blocks, forward and backward, the scan of the keep mask apart; as
// JSON.
void bench_masked();

// Prints the times of Hopper's forward kernel with each tile height forced, as JSON; [] on another GPU.
void time_heights();
// Likewise of its fused backward at head size 128 with tiles of 128 and of 64 keys.
void time_backward_heights();

}  // namespace cplab::testing
