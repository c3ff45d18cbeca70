// The emulated Hopper kernels: bf16, head size 64.
#include "tests/emulator/hopper_kernels.hpp"

namespace cplab::emulator {

EmulatedKernels hopper_bf16_64() {
  return emulated_kernels<__nv_bfloat16, 64>();
}

}  // namespace cplab::emulator
