// Device memory and timing for tests; see device_memory.hpp.
#include "tests/gpu/device_memory.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/families/parts/cuda_error.hpp"
#include "kernels/normal_values.hpp"

namespace cplab::kernels {
namespace {

using cuda::require_cuda;

class Event {
 public:
  Event() { require_cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record() { require_cuda(cudaEventRecord(event_, cudaStreamPerThread), "cudaEventRecord"); }
  double seconds_since(const Event& start) const {
    float milliseconds = 0;
    require_cuda(cudaEventElapsedTime(&milliseconds, start.event_, event_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

void wait() {
  require_cuda(cudaStreamSynchronize(cudaStreamPerThread), "cudaStreamSynchronize");
}

}  // namespace

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

std::string cuda_device_text() {
  int device = 0;
  int runtime = 0;
  cudaDeviceProp properties{};
  require_cuda(cudaGetDevice(&device), "cudaGetDevice");
  require_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  require_cuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  return std::string(properties.name) + ", compute capability " + std::to_string(properties.major) + "." +
         std::to_string(properties.minor) + ", CUDA " + std::to_string(runtime / 1000) + "." +
         std::to_string(runtime % 1000 / 10);
}

DeviceMemory::DeviceMemory(std::size_t bytes) : size_(bytes) {
  void* memory = nullptr;
  require_cuda(cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)), "cudaMalloc");
  data_ = static_cast<std::byte*>(memory);
}

DeviceMemory::~DeviceMemory() {
  cudaFree(data_);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

void DeviceMemory::copy_in(std::span<const std::byte> from, std::size_t offset) {
  require_cuda(
      cudaMemcpyAsync(data_ + offset, from.data(), from.size(), cudaMemcpyHostToDevice, cudaStreamPerThread),
      "cudaMemcpyAsync to the device");
  wait();
}

void DeviceMemory::copy_out(std::span<std::byte> into, std::size_t offset) const {
  require_cuda(
      cudaMemcpyAsync(into.data(), data_ + offset, into.size(), cudaMemcpyDeviceToHost, cudaStreamPerThread),
      "cudaMemcpyAsync from the device");
  wait();
}

void DeviceMemory::fill_normal(DType dtype, std::uint64_t seed, std::int64_t count) {
  if (count < 0) count = static_cast<std::int64_t>(size_ / bytes_of(dtype));
  require_cuda(queue_normal(cudaStreamPerThread, data_, dtype, count, seed), "normal values");
  require_cuda(cudaStreamSynchronize(cudaStreamPerThread), "cudaStreamSynchronize");
}

void launch_and_wait(const CudaCalls& calls, std::span<const std::size_t> numbers) {
  for (const std::size_t call : numbers) calls.launch(call, cudaStreamPerThread);
  wait();
}

double seconds_per_call(const CudaCalls& calls, std::span<const std::size_t> numbers, int rounds) {
  Event start;
  Event end;
  std::vector<double> seconds;
  launch_and_wait(calls, numbers);
  for (int round = 0; round < rounds; ++round) {
    start.record();
    for (const std::size_t call : numbers) calls.launch(call, cudaStreamPerThread);
    end.record();
    wait();
    seconds.push_back(end.seconds_since(start));
  }
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
  return seconds[static_cast<std::size_t>(rounds / 2)] / static_cast<double>(numbers.size());
}

double seconds_hidden(const std::function<void(CudaStream)>& queue, const DeviceMemory& memory) {
  Event start;
  Event end;
  const std::size_t half = memory.size() / 2;
  for (int copy = 0; copy < 2; ++copy)
    require_cuda(cudaMemcpyAsync(memory.data() + half, memory.data(), half, cudaMemcpyDeviceToDevice,
                                 cudaStreamPerThread),
                 "cudaMemcpyAsync");
  start.record();
  queue(cudaStreamPerThread);
  end.record();
  wait();
  return end.seconds_since(start);
}

double seconds_hidden(const CudaCalls& calls, std::span<const std::size_t> numbers, int repeats,
                      const DeviceMemory& memory) {
  return seconds_hidden(
      [&](CudaStream stream) {
        for (int repeat = 0; repeat < repeats; ++repeat)
          for (const std::size_t call : numbers) calls.launch(call, stream);
      },
      memory);
}

}  // namespace cplab::kernels
