// What goes wrong between a plan and the GPUs of a machine.
#pragma once

#include <stdexcept>

namespace cplab {

// A CUDA or NCCL call failed, or the machine lacks what the plan needs: what() names the call, the rank and
// the device. Exit code 3.
struct GpuError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace cplab
