// The emulated Hopper kernels: bf16, head size 128.
#include "tests/emulator/hopper_kernels.hpp"

namespace cplab::emulator {

EmulatedKernels hopper_bf16_128() {
  return emulated_kernels<__nv_bfloat16, 128>();
}

}  // namespace cplab::emulator
