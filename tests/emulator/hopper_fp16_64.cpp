// The emulated Hopper kernels: fp16, head size 64.
#include "tests/emulator/hopper_kernels.hpp"

namespace cplab::emulator {

EmulatedKernels hopper_fp16_64() {
  return emulated_kernels<__half, 64>();
}

}  // namespace cplab::emulator
