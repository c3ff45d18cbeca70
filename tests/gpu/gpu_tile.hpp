// One call of a CUDA tile on tensors of tests/kernels, and what a run of many cases reports.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda.hpp"
#include "kernels/cuda/device_memory.hpp"
#include "tests/kernels/tensor.hpp"

namespace cplab::testing {

// Copies of tensors in device memory, each `shift` elements behind an address aligned to 256 bytes plus its
// offset in the host's memory.
class Mirror {
 public:
  Mirror(std::span<Tensor* const> tensors, std::int64_t shift);

  // The same view of the copy of whichever tensor `view` points into.
  View device(View view) const;
  void upload();
  std::vector<std::vector<std::byte>> download() const;
  void assign(const std::vector<std::vector<std::byte>>& memories) const;  // to the tensors

 private:
  struct Copy {
    Tensor* tensor;
    std::size_t begin;  // of the tensor's memory in `memory`
    kernels::DeviceMemory memory;
  };
  std::vector<Copy> copies_;
};

struct GpuRun {
  std::string variant;
  bool repeatable = false;  // a second run from the same state gave the same bits everywhere
};

// Runs one call twice on copies of `tensors` and leaves the first result in them. `add` adds the call with
// views from the mirror.
GpuRun run_on_gpu(std::span<Tensor* const> tensors, std::int64_t shift,
                  const std::function<std::size_t(kernels::CudaCalls&, const Mirror&)>& add);

// Collected from several threads.
class Report {
 public:
  // `share` of the tolerance that the result uses; above 1 (or NaN) is a failure. `where` names the case.
  void share(const std::string& variant, const std::string& where, const char* what, double share);
  void holds(const std::string& variant, const std::string& where, const char* what, bool holds);
  // One line per variant. Returns whether nothing failed.
  bool summary() const;

 private:
  struct Variant {
    std::int64_t checks = 0;
    std::int64_t failures = 0;
    double worst = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Variant> variants_;
};

struct CaseName {
  std::uint64_t seed;
  std::int64_t number;
  std::string only;  // of operations: substring of "attend", "merge", ...; empty is all
};

// Attention, forward and backward, as random or as one of the hard cases, against brute force in double.
void attend_case(Report& report, const CaseName& name);
// row_dot, merge, merge_lse, rescale, copy, add, fill against the CPU tiles.
void row_case(Report& report, const CaseName& name);

// Prints TFLOP/s of attention on a table of shapes, and GB/s of the row-wise kernels.
void bench(const std::string& only);

}  // namespace cplab::testing
