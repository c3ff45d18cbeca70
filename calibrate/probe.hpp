// The small kernels of calibrate/. Each launch is checked; Error if it fails. Flags are host memory.
#pragma once

#include <cstdint>

#include "kernels/cuda.hpp"

namespace cplab::measure {

// One thread waits until *opened >= ticket; after 5 s it gives up and sets *gave_up.
void launch_gate(const int* opened, int ticket, int* gave_up, kernels::CudaStream stream);

void launch_empty(kernels::CudaStream stream);
const void* empty_kernel();

// Stores `value` to *begun, waits `spin_ns`, stores it to *ended.
void launch_signal(std::uint64_t spin_ns, int* begun, int* ended, int value, kernels::CudaStream stream);

// `blocks` thread blocks of which a multiprocessor holds one and nothing beside it (all its shared memory).
// Each sets its own entry of `begun` to `ticket` and waits for *opened >= ticket, 2 s at most.
void prepare_residents();  // for the current device
void launch_residents(int blocks, int* begun, const int* opened, int ticket, kernels::CudaStream stream);

}  // namespace cplab::measure
