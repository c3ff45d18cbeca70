// The code of the variants of kernels/families/linear/variants.hpp: which kernels of this build have which
// name.
#pragma once

#include <span>
#include <string>

#include "kernels/cuda/kernel_table.hpp"
#include "kernels/families/linear/variants.hpp"
#include "kernels/tiles/gated_params.hpp"

namespace cplab::kernels::cuda {

struct LinearKernel {
  std::string name;  // of the variant
  // The parameters stay where they are as long as the launch is used; tables in them are set before its first
  // use. There is at least one chunk and one head.
  Launch (*bind)(const LinearParams&) = nullptr;
  std::span<const KernelFunction> functions;  // in the order of kernel_entries()
  // Of the family gated in place of `bind`: of what runs over tokens, and of linear_combine.
  Launch (*bind_gated)(const GatedParams&) = nullptr;
  Launch (*bind_combine)(const GatedCombineParams&) = nullptr;
};

// The code of a variant of linear_variants(built_kernels()). Throws std::logic_error if a variant has no
// kernel or a kernel no variant.
const LinearKernel& kernel_of(const LinearVariant& variant);

}  // namespace cplab::kernels::cuda
