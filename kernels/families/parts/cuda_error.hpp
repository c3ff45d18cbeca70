// CUDA's return codes as exceptions, and the device they come from, without CUDA's headers.
#pragma once

namespace cplab::kernels::cuda {

// Throws std::runtime_error("CALL: CUDA's message") unless `code`, a cudaError_t, is cudaSuccess.
void require_cuda(int code, const char* call);

// Major compute capability of the current device; 0 without one.
int device_major();
// Its multiprocessors; 0 without one.
int device_sms();

}  // namespace cplab::kernels::cuda
