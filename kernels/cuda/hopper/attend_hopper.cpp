// The list of the Hopper kernels.
#include "kernels/cuda/hopper/attend_hopper.hpp"

namespace cplab::kernels::cuda {

std::span<const AttendVariant> attend_hopper_variants() {
#ifdef CPLAB_HOPPER_KERNELS
  static const std::vector<AttendVariant> variants = [] {
    std::vector<AttendVariant> all;
    for (const auto& list : {hopper::attend_hopper_bf16_128(), hopper::attend_hopper_bf16_64(),
                             hopper::attend_hopper_fp16_128(), hopper::attend_hopper_fp16_64()})
      all.insert(all.end(), list.begin(), list.end());
    return all;
  }();
  return variants;
#else
  return {};
#endif
}

std::span<const AttendBackwardVariant> attend_backward_hopper_variants() {
#ifdef CPLAB_HOPPER_KERNELS
  static const AttendBackwardVariant variants[] = {
      hopper::attend_backward_fused_bf16_128(),  hopper::attend_backward_fused_bf16_64(),
      hopper::attend_backward_fused_fp16_128(),  hopper::attend_backward_fused_fp16_64(),
      hopper::attend_backward_hopper_bf16_128(), hopper::attend_backward_hopper_bf16_64(),
      hopper::attend_backward_hopper_fp16_128(), hopper::attend_backward_hopper_fp16_64()};
  return variants;
#else
  return {};
#endif
}

}  // namespace cplab::kernels::cuda
