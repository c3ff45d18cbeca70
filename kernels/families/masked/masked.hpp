// The kernels of attention that changes logits of this build (kernels/families/masked/variants.hpp has their
// names): those of Hopper's own for softcaps and alibi, the mma.sync kernels of bf16 and fp16, those that
// take every call, and the scan of the keep mask before either.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/kernel_table.hpp"
#include "kernels/families/elementwise/elementwise.hpp"
#include "kernels/families/masked/variants.hpp"
#include "kernels/tiles/masked_params.hpp"

struct CUstream_st;

namespace cplab::kernels::cuda {

template <class Params>
struct MaskedKernelOf {
  std::string name;                           // of the variant
  Launch (*bind)(const Params&);              // as of AttendKernel
  std::span<const KernelFunction> functions;  // in the order of kernel_entries()
};
using MaskedKernel = MaskedKernelOf<MaskedParams>;
using MaskedBackwardKernel = MaskedKernelOf<MaskedBackwardParams>;

template <int head_size>
std::vector<MaskedKernel> masked_forward_kernels();
template <int head_size>
std::vector<MaskedBackwardKernel> masked_backward_kernels();
// Of Hopper's own: where the build has them.
template <int head_size>
std::vector<MaskedKernel> changed_forward_kernels();
template <int head_size>
std::vector<MaskedBackwardKernel> changed_backward_kernels();
std::vector<MaskedKernel> general_masked_forward_kernels();
std::vector<MaskedBackwardKernel> general_masked_backward_kernels();

// The code of a variant of this build.
const MaskedKernel& kernel_of(const MaskedVariant& variant);
const MaskedBackwardKernel& kernel_of(const MaskedBackwardVariant& variant);

// Fills mask.by_q, and by_k where it is asked for, from mask.keep; nothing without a keep mask.
void launch_mask_scan(const DevicePairMask& mask, CUstream_st* stream);

// Fills keep from bias.
void launch_select_keys(const SelectParams& params, CUstream_st* stream);

// All "select_keys".
std::span<const NamedKernel> key_selections();

// All "mask_scan".
std::span<const NamedKernel> mask_scans();

}  // namespace cplab::kernels::cuda
