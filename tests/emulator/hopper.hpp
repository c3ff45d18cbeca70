// The Hopper kernels, run by the emulator on host memory.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tiles/masked_params.hpp"

namespace cplab::emulator {

struct Launch {
  std::uint64_t seed = 0;
  bool late_copies = false;
  int heads_per_group = 1;
  int multiprocessors = 1;        // of a persistent grid
  bool takes_by_counter = false;  // its blocks take tiles as they come
  int resident = 1;               // how many of its blocks run at once, where they wait for each other
};

// Views and tables point into host memory. Throw std::runtime_error if the kernel hangs or does what hardware
// would not forgive.
using RunAttend = void (*)(const kernels::cuda::AttendParams&, const Launch&);
using RunAttendBackward = void (*)(const kernels::cuda::AttendBackwardParams&, const Launch&);

struct EmulatedKernels {
  struct Forward {
    int rows;  // of its tiles
    bool out_of_turn;
    RunAttend run;
  };
  std::vector<Forward> attend;
  int backward_rows;  // of the tiles of the backward kernels
  RunAttendBackward attend_backward_deterministic;
  RunAttendBackward attend_backward_fused;    // adds to dq, which holds zeros for a store
  RunAttendBackward attend_backward_ordered;  // likewise, in turn
  RunAttendBackward attend_backward_chains;   // by chains, rounds dq; null: not for this head size
  RunAttendBackward attend_backward_64_keys;  // as fused, tiles of 64 keys; null: not for this head size
  // Of the highest tiles, changing scores.
  void (*changed_attend)(const kernels::cuda::MaskedParams&, const Launch&) = nullptr;
  void (*changed_attend_backward)(const kernels::cuda::MaskedBackwardParams&, const Launch&) = nullptr;
};

// Of bf16 or fp16 and the head sizes of the Hopper kernels, each in a translation unit of its own
// (hopper_kernels.cpp.in).
template <kernels::DType dtype, int head_size>
EmulatedKernels emulated_kernels();

}  // namespace cplab::emulator
