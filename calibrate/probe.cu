// The small kernels of calibrate/; see probe.hpp.
#include "calibrate/probe.hpp"

#include <cuda_runtime.h>

#include "calibrate/device.hpp"

namespace cplab::measure {
namespace {

__device__ std::uint64_t now_ns() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

// False after `limit_ns`.
__device__ bool wait_for(const volatile int* opened, int ticket, std::uint64_t limit_ns) {
  const std::uint64_t start = now_ns();
  while (*opened < ticket) {
    if (now_ns() - start > limit_ns) return false;
    __nanosleep(200);
  }
  return true;
}

__global__ void gate(const volatile int* opened, int ticket, volatile int* gave_up) {
  if (!wait_for(opened, ticket, 5'000'000'000ull)) *gave_up = 1;
}

__global__ void empty() {}

__global__ void signal(std::uint64_t spin_ns, volatile int* begun, volatile int* ended, int value) {
  *begun = value;
  __threadfence_system();
  const std::uint64_t start = now_ns();
  while (now_ns() - start < spin_ns) {
  }
  *ended = value;
  __threadfence_system();
}

__global__ void resident(volatile int* begun, const volatile int* opened, int ticket) {
  begun[blockIdx.x] = ticket;
  __threadfence_system();
  wait_for(opened, ticket, 2'000'000'000ull);
}

int all_shared_bytes() {
  int device = 0, bytes = 0;
  require_cuda(cudaGetDevice(&device), "cudaGetDevice");
  require_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
               "cudaDeviceGetAttribute");
  return bytes;
}

}  // namespace

void launch_gate(const int* opened, int ticket, int* gave_up, kernels::CudaStream stream) {
  gate<<<1, 1, 0, stream>>>(opened, ticket, gave_up);
  require_cuda(cudaGetLastError(), "launch of gate");
}

void launch_empty(kernels::CudaStream stream) {
  empty<<<1, 1, 0, stream>>>();
  require_cuda(cudaGetLastError(), "launch of empty");
}

const void* empty_kernel() {
  return reinterpret_cast<const void*>(&empty);
}

void launch_signal(std::uint64_t spin_ns, int* begun, int* ended, int value, kernels::CudaStream stream) {
  signal<<<1, 1, 0, stream>>>(spin_ns, begun, ended, value);
  require_cuda(cudaGetLastError(), "launch of signal");
}

void prepare_residents() {
  require_cuda(
      cudaFuncSetAttribute(resident, cudaFuncAttributeMaxDynamicSharedMemorySize, all_shared_bytes()),
      "cudaFuncSetAttribute");
}

void launch_residents(int blocks, int* begun, const int* opened, int ticket, kernels::CudaStream stream) {
  resident<<<blocks, 1, all_shared_bytes(), stream>>>(begun, opened, ticket);
  require_cuda(cudaGetLastError(), "launch of resident");
}

}  // namespace cplab::measure
