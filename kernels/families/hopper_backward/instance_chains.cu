// Backward attention for Hopper in one kernel, dq summed by chains: bf16 and fp16, head size 64. At head size
// 128 other ways were as fast or faster wherever both were measured (docs/lab/hopper-attention.md).
#include "kernels/families/hopper_backward/launch.cuh"

namespace cplab::kernels::cuda::hopper {

template std::vector<AttendBackwardKernel> backward_chains_kernels<64>();

}  // namespace cplab::kernels::cuda::hopper
