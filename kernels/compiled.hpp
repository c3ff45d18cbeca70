// What the compiler made of the kernels of this build: registers, spills, shared memory. Plain host code that
// needs no GPU; a build without nvcc has none of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/families/architectures.hpp"
#include "kernels/families/kernel_entries.hpp"
#include "kernels/families/variants.hpp"

namespace cplab::kernels::cuda {

// For one architecture, as `nvcc -Xptxas -v` says.
struct CompiledCode {
  std::string architecture;                                                   // "sm_80", "sm_90a"
  int registers = 0;                                                          // of a thread at launch
  int barriers = 0;                                                           // of a thread block, named ones
  std::int64_t stack_bytes = 0, spill_store_bytes = 0, spill_load_bytes = 0;  // of a thread
  std::int64_t static_shared_bytes = 0;
};

struct CompiledKernel {
  const KernelEntry* entry = nullptr;     // of kernel_entries(), valid for good
  const void* address = nullptr;          // of the __global__ function, for the CUDA runtime
  std::int64_t dynamic_shared_bytes = 0;  // of a thread block: the most that a call can need
  std::vector<CompiledCode> codes;

  // What a GPU of that architecture runs: the code for it or for the nearest before it of the same major
  // compute capability ("a": for that one alone). Null: only what a driver makes of PTX, or nothing.
  const CompiledCode* code_for(const Architecture&) const;
  BlockNeeds needs(const CompiledCode&) const;
};

struct CompiledKernels {
  KernelBuild build;
  std::string build_hash;               // changes with the kernels and with how calls are cut into tiles
  std::vector<CompiledKernel> kernels;  // one for each of kernel_entries(build), in that order
  std::vector<std::string> without_an_entry;  // kernels that were compiled and that no entry describes
};

// Null in a build without nvcc. Throws std::logic_error where an entry says something else than the code, or
// has none.
const CompiledKernels* compiled_kernels();

}  // namespace cplab::kernels::cuda
