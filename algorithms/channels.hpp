// How many channels an exchange over nccl takes, where schedule.channels leaves it to us.
#pragma once

#include <cstdint>

#include "plan/problem.hpp"

namespace cplab {

enum class Phase : std::uint8_t;

// Each channel of NCCL is a thread block that holds a multiprocessor until the exchange ends, and moves about
// 16 GB/s over NVLink (2, 4 and 8 channels on H200: 33, 65 and 128 GB/s). Beside long tiles few channels do,
// and few multiprocessors are missing to compute; beside short ones it takes many. The least power of two
// (NCCL rounds to one) with which what a rank sends in a step of a ring, gradients included, is hidden in
// three quarters of the mean tile, at 600 TFLOP/s; 0, NCCL's own choice, if 16 are not enough, and
// for linear attention, whose states are small. The same for
// all ranks of a plan, as both ends of a message must agree.
int exchange_channels(const Scenario& resolved, Phase phase);

}  // namespace cplab
