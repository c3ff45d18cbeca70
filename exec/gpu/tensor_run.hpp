// One rank of a plan, executed on tensors and a stream of another framework, such as PyTorch: inside a
// training step, in the framework's own process, phase by phase.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/gpu/error.hpp"
#include "plan/plan.hpp"

namespace cplab {

// A tensor that a phase takes from the caller or gives to it: an input, an output or a saved buffer of the
// plan, or one of the two planes of an input that has planes.
struct PhaseTensor {
  std::string buffer;
  int plane = -1;  // 0 or 1; -1: the whole buffer
  Category category = Category::input;
  bool written = false;  // by this phase; else read
  DType dtype = DType::bf16;
  Layout layout = Layout::rows_first;
  // Of one slot; in memory [slots, rows, heads, width], or [slots, heads, rows, width] if heads come first.
  std::int64_t slots = 1, rows = 0, heads = 0, width = 0;
  std::int64_t bytes = 0;
  // Its rows and heads may lie at any distances that are multiples of 16 bytes: it is one slot, and no
  // message takes it. Else it lies without gaps.
  bool any_strides = false;
};

// Where the caller has it: aligned to 16 bytes, on the GPU of the rank.
struct TensorPlace {
  std::byte* data = nullptr;
  std::int64_t row_stride = 0, head_stride = 0;  // in elements; 0: without gaps
  bool operator==(const TensorPlace&) const = default;
};

class TensorRun {
 public:
  // An id for the communicators of one plan, made by one rank and handed to all. Throws GpuError.
  static std::vector<char> make_id();

  // Rank `rank` of the plan on GPU `device`. Messages go through NCCL, in communicators of this plan's own,
  // made with `id`: then collective over the processes that execute the ranks, and the arena is allocated for
  // a moment, in which all connections are made. Of a plan without messages over nccl the id is not read.
  // A plan that sends to itself alone makes its own id. `deterministic`: kernels that give the same bits in
  // every run. `keep`: so many sets of places of each phase's tensors the plan stays bound to. Throws
  // BadPlan, std::invalid_argument (the plan cannot be executed so: a sentence that says what would do),
  // NotEnoughMemory, GpuError.
  TensorRun(Plan plan, int rank, int device, std::vector<char> id, bool deterministic, std::size_t keep);
  ~TensorRun();
  TensorRun(const TensorRun&) = delete;
  TensorRun& operator=(const TensorRun&) = delete;

  const std::vector<PhaseTensor>& tensors(Phase) const;
  // Memory for everything else, of both phases: aligned to 256 bytes, of this plan alone while it runs.
  std::int64_t scratch_bytes() const;

  // Queues the phase behind what is queued on `stream` (a cudaStream_t of the device), and makes the stream
  // wait for its end; the host waits for nothing, unless the plan has a host_sync. `tensors` in the order of
  // tensors(phase); they and the scratch memory may be given up once the stream has come so far. Tensors that
  // were there before in the same places are known: the plan is bound to them. May be called from several
  // threads. Collective over the ranks; all queue in one order. Throws GpuError.
  void queue(Phase phase, std::span<const TensorPlace> tensors, std::byte* scratch, void* stream);

  // How often queue() found the tensors in places that it knew, and had to bind the plan to new ones.
  std::int64_t known() const;
  std::int64_t bound() const;
  // Of the operations of the phase that were queued last: their id, and the kernel that it took.
  std::vector<std::pair<std::string, std::string>> variants(Phase) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cplab
