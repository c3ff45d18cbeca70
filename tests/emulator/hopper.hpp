// The Hopper kernels, run by the emulator on host memory.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/work/params.hpp"

namespace cplab::emulator {

struct Launch {
  std::uint64_t seed = 0;
  bool late_copies = false;
  int heads_per_group = 1;
  int multiprocessors = 1;        // of a persistent grid
  bool takes_by_counter = false;  // its blocks take tiles as they come
};

// Views and tables point into host memory. Throw std::runtime_error if the kernel hangs or does what hardware
// would not forgive.
using RunAttend = void (*)(const kernels::cuda::AttendParams&, const Launch&);
using RunAttendBackward = void (*)(const kernels::cuda::AttendBackwardParams&, const Launch&);

struct EmulatedKernels {
  struct Forward {
    int rows;  // of its tiles
    RunAttend run;
  };
  std::vector<Forward> attend;
  int gradient_q_rows, gradient_k_rows;
  RunAttendBackward attend_backward;
  RunAttendBackward attend_backward_fused;  // adds to dq, which holds zeros for a store
};

// One translation unit each.
EmulatedKernels hopper_bf16_64();
EmulatedKernels hopper_bf16_128();
EmulatedKernels hopper_fp16_64();
EmulatedKernels hopper_fp16_128();

}  // namespace cplab::emulator
