// CUDA's return codes as exceptions, without CUDA's headers.
#pragma once

namespace cplab::kernels::cuda {

// Throws std::runtime_error("CALL: CUDA's message") unless `code`, a cudaError_t, is cudaSuccess.
void require_cuda(int code, const char* call);

}  // namespace cplab::kernels::cuda
