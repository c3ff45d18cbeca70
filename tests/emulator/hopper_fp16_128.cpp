// The emulated Hopper kernels: fp16, head size 128.
#include "tests/emulator/hopper_kernels.hpp"

namespace cplab::emulator {

EmulatedKernels hopper_fp16_128() {
  return emulated_kernels<__half, 128>();
}

}  // namespace cplab::emulator
