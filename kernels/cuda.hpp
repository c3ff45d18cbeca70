// The tile operations on NVIDIA GPUs (SM 8.0 and up), behind a plain header: no CUDA type but the name of a
// stream. Which operations and what they promise: kernels.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/choice/kernel_choice.hpp"
#include "kernels/kernels.hpp"
#include "kernels/linear.hpp"
#include "kernels/masked.hpp"

struct CUstream_st;

namespace cplab::kernels {

using CudaStream = CUstream_st*;  // cudaStream_t

namespace cuda {
class MeasuredChoices;  // kernels/choice/measured_choices.hpp
struct Rates;           // kernels/families/rates.hpp
}  // namespace cuda

// Which kernels calls may take, and how one of them is chosen (kernels/choice/candidates.hpp).
struct CallOptions {
  KernelChoice choice = KernelChoice::best;
  // Kernels that fill the GPU with as many thread blocks as run at once leave so many multiprocessors to
  // others (but take one at least). Other kernels do not know of them.
  int reserved_sms = 0;
  ChoiceWay way = ChoiceWay::table;
  const cuda::MeasuredChoices* choices = nullptr;  // of autotune and hybrid; outlives the calls
  // Kernels of other ranks run on the GPU at the same time: measured choices for that are kept apart.
  bool shared_gpu = false;
  std::string_view only = {};  // the one attention variant that may be taken; empty: any
  // Of calls that round dk and dv: whether grouped heads sum them in memory (ChosenBackward::sums_dkv), where
  // a kernel can; empty: as the model of times says.
  std::optional<bool> sums_dkv = {};
  // How fast kernels are on this machine; outlives the calls. Null: as the shipped hardware file of this GPU
  // says (cuda::shipped_rates()).
  const cuda::Rates* rates = nullptr;
};

// The calls of one rank's plan on one GPU, prepared once and launched any number of times. What a call needs
// beside its views (row maps, segments, which thread block takes what) are tables in device memory that the
// owner provides: nothing here allocates device memory, at no time. Views point into device memory; the
// spans of a call (runs, segments) are host memory and need not outlive add().
//
// add() throws std::invalid_argument, as the CPU tiles do, if views, segments or write modes do not fit
// together, and if the dtype has no kernel in this build. It returns the number of the call: 0, 1, ...
class CudaCalls {
 public:
  explicit CudaCalls(const CallOptions& options);
  explicit CudaCalls(KernelChoice choice = KernelChoice::best, int reserved_sms = 0)
      : CudaCalls(CallOptions{.choice = choice, .reserved_sms = reserved_sms}) {}
  ~CudaCalls();
  CudaCalls(const CudaCalls&) = delete;
  CudaCalls& operator=(const CudaCalls&) = delete;

  std::size_t add(const Attend& call);
  std::size_t add(const AttendBackward& call);
  std::size_t add(const Merge& call);
  std::size_t add(const MergeLse& call);
  std::size_t add(const Rescale& call);
  std::size_t add(const Rowwise& call);
  std::size_t add(const SinkGradient& call);
  // Refused: there are no matrix products of layers here.
  std::size_t add(const Project& call);
  std::size_t add(const ProjectBackward& call);
  std::size_t add(const WeightGradient& call);
  // Of linear attention. Transitions of every token have kernels for Hopper; others refuse them.
  std::size_t add(const LinearLocal& call);
  std::size_t add(const LinearLocalBackward& call);
  std::size_t add(const LinearState& call);
  std::size_t add(const LinearScan& call);
  std::size_t add(const LinearCombine& call);
  std::size_t add(const LinearInter& call);
  std::size_t add(const Convolve& call);
  std::size_t add(const FilterGradient& call);
  // Of dynamic mask attention. skips = false computes every block, to show that it makes no difference.
  std::size_t add(const MaskedAttend& call, bool skips = true);
  std::size_t add(const MaskedAttendBackward& call, bool skips = true);
  std::size_t add(const SelectKeys& call);
  // One part of such a call, to be timed: the scan of its keep mask, or all that comes after the scan and
  // reads what the last launch of the scan left. Both have the parameters of the call.
  std::size_t add_scan_of(std::size_t call);
  std::size_t add_products_of(std::size_t call);
  std::size_t add_row_dot(const View& a, const View& b, const View& into) {
    return add(Rowwise{Rowwise::Kind::row_dot, a, b, into, 0});
  }
  std::size_t add_copy(const View& from, const View& into) {
    return add(Rowwise{Rowwise::Kind::copy, from, {}, into, 0});
  }
  std::size_t add_add(const View& from, const View& into) {
    return add(Rowwise{Rowwise::Kind::add, from, {}, into, 0});
  }
  std::size_t add_fill(const View& into, double value) {
    return add(Rowwise{Rowwise::Kind::fill, {}, {}, into, value});
  }

  // Bytes of the tables of all calls so far, equal ones stored once, and of their scratch memory, which the
  // kernels alone write and read.
  std::size_t table_bytes() const;
  // Writes the tables into `device_memory` (table_bytes(), aligned to 256, on the current device), behind
  // what is queued on `stream`, and waits. Null: a stream of this thread's, which waits for the default
  // stream's work. To be called once, after the last add() and before the first launch.
  void upload(void* device_memory, CudaStream stream = nullptr);

  // Queues the call on a stream of the current device. Throws std::runtime_error with CUDA's message if the
  // launch fails.
  void launch(std::size_t call, CudaStream stream) const;

  // The kernel that was chosen: "attend mma bf16 128", "attend general", "copy", ...
  std::string variant(std::size_t call) const;
  // Why the kernel that is preferred on this device does not take it ("not attend hopper bf16 128: k has rows
  // in 4 runs"); empty: it does, or the device prefers none.
  std::string fall_back(std::size_t call) const;
  // Whether it gives the same bits in every run.
  bool deterministic(std::size_t call) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Makes the current device ready for any launch (loads modules, raises shared-memory limits), so that neither
// memory nor time of it falls into a run. Throws std::runtime_error if this build has no code for the device.
void load_cuda_kernels();

// Rates of the shipped hardware file of the current device, or of its compute capability
// (cuda::shipped_rates()): what calls are chosen by whose options name none.
namespace cuda {
const Rates& rates_of_device();
}

// The kernels in this build, for `cplab kernels`: one line each.
struct CudaKernel {
  std::string name;  // "attend mma bf16 128"
  std::string kind;  // attend, attend_backward, ...
  int tile_rows = 0;
  int registers = 0;  // per thread; 0 without a device
  std::int64_t shared_bytes = 0;
  std::int64_t local_bytes = 0;  // spills
};
std::vector<CudaKernel> cuda_kernels();

}  // namespace cplab::kernels
