// Dynamic shared memory of the kernels by mma.sync on the emulator.
#include "tests/emulator/machine.hpp"

namespace cplab::kernels::cuda {

alignas(1024) unsigned char mma_forward_shared[emulator::shared_bytes];
alignas(1024) unsigned char decode_shared[emulator::shared_bytes];
alignas(1024) unsigned char dkv_shared[emulator::shared_bytes];
alignas(1024) unsigned char dq_shared[emulator::shared_bytes];

}  // namespace cplab::kernels::cuda
