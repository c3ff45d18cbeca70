// The kernels of linear attention with transitions of every token.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/kernel_table.hpp"
#include "kernels/tiles/gated_params.hpp"

namespace cplab::kernels::cuda {

struct GatedKernel {
  std::string name;  // of the variant
  // Queues all kernels of the call; scratch memory is there.
  Launch (*bind)(const GatedParams&);
  std::span<const KernelFunction> functions;  // in the order of kernel_entries()
};

// LinearLocal, LinearLocalBackward and LinearState, of head sizes up to 64 and up to 128, for Hopper.
std::vector<GatedKernel> gated_bf16_kernels();
std::vector<GatedKernel> gated_fp16_kernels();
std::vector<GatedKernel> gated_fp32_kernels();

// LinearCombine with a transition, on every architecture.
struct GatedCombineKernel {
  std::string name;
  Launch (*bind)(const GatedCombineParams&);
  std::span<const KernelFunction> functions;
};
std::vector<GatedCombineKernel> gated_combine_kernels();

}  // namespace cplab::kernels::cuda
