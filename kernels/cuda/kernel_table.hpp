// The code of the variants of kernels/families/variants.hpp: which kernels of this build have which name.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "kernels/cuda.hpp"
#include "kernels/cuda/kernel_function.hpp"
#include "kernels/cuda/kernels_by_name.hpp"
#include "kernels/families/variants.hpp"
#include "kernels/tiles/params.hpp"

struct CUstream_st;

namespace cplab::kernels::cuda {

// Queues a call on a stream; cudaGetLastError says whether it went.
using Launch = std::function<void(CUstream_st*)>;

// For kernels that need nothing beyond the parameters. These must stay where they are as long as the launch
// is used, and the pointers to tables in them must be set before its first use.
template <auto launch, class Params>
Launch bind_parameters(const Params& params) {
  return [&params](CUstream_st* stream) { launch(params, stream); };
}

struct AttendKernel {
  std::string name;  // of the variant
  Launch (*bind)(const AttendParams&);
  std::span<const KernelFunction> functions;  // in the order of kernel_entries()
};

struct AttendBackwardKernel {
  std::string name;
  Launch (*bind)(const AttendBackwardParams&);
  std::span<const KernelFunction> functions;  // in the order of kernel_entries()
};

// Kernels by the names of their variants, family after family.
struct KernelTables {
  Table<AttendKernel> attend;
  Table<AttendBackwardKernel> attend_backward;
};

// What this build contains.
KernelBuild built_kernels();

// How calls with these options are chosen on the current device.
VariantOptions variants_of_device(const CallOptions& options);

// The code of a variant of built_kernels(). Throws std::logic_error if a variant has no kernel or a kernel no
// variant.
const AttendKernel& kernel_of(const AttendVariant& variant);
const AttendBackwardKernel& kernel_of(const AttendBackwardVariant& variant);

}  // namespace cplab::kernels::cuda
