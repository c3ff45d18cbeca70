// Backward attention for Hopper in one kernel, with tiles of 64 keys: bf16 and fp16, head size 128. At head
// size 64 a call of as many columns has twice as many tiles.
#include "kernels/families/hopper_backward/launch.cuh"

namespace cplab::kernels::cuda::hopper {

template std::vector<AttendBackwardKernel> backward_fused_64_keys_kernels<128>();

}  // namespace cplab::kernels::cuda::hopper
