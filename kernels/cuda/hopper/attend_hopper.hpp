// The attention kernels of this build that Hopper alone can run: bf16 and fp16, head sizes 64 and 128, views
// that the copy engine can read (tensor_map.cuh). Without code for compute capability 9.0a the lists are
// empty.
#pragma once

#include <span>
#include <vector>

#include "kernels/cuda/variants.hpp"
#include "kernels/work/fits.hpp"

namespace cplab::kernels::cuda {

std::span<const AttendVariant> attend_hopper_variants();
std::span<const AttendBackwardVariant> attend_backward_hopper_variants();

namespace hopper {

// One translation unit for each head size.
std::vector<AttendVariant> attend_hopper_bf16_64();  // of several tile heights
std::vector<AttendVariant> attend_hopper_bf16_128();
std::vector<AttendVariant> attend_hopper_fp16_64();
std::vector<AttendVariant> attend_hopper_fp16_128();
AttendBackwardVariant attend_backward_fused_bf16_64();
AttendBackwardVariant attend_backward_fused_bf16_128();
AttendBackwardVariant attend_backward_fused_fp16_64();
AttendBackwardVariant attend_backward_fused_fp16_128();
AttendBackwardVariant attend_backward_hopper_bf16_64();
AttendBackwardVariant attend_backward_hopper_bf16_128();
AttendBackwardVariant attend_backward_hopper_fp16_64();
AttendBackwardVariant attend_backward_hopper_fp16_128();

}  // namespace hopper
}  // namespace cplab::kernels::cuda
