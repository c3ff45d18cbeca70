// Device memory and launch times for programs that drive kernels by hand (tests/gpu), behind a plain header.
// The executor has its own arena. Everything concerns the current device and waits for what it does; errors
// are std::runtime_error with CUDA's message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "kernels/cuda.hpp"

namespace cplab::kernels {

// 0 without a driver or a GPU.
int cuda_device_count();
// "NVIDIA H200, compute capability 9.0, CUDA 13.0".
std::string cuda_device_text();

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;

  std::byte* data() const { return data_; }  // aligned to 256
  std::size_t size() const { return size_; }
  void copy_in(std::span<const std::byte> from, std::size_t offset = 0);
  void copy_out(std::span<std::byte> into, std::size_t offset = 0) const;
  // With standard normal values of this type (kernels/normal_values.hpp), the same for the same seed: the
  // first `count`, or all.
  void fill_normal(DType dtype, std::uint64_t seed, std::int64_t count = -1);

 private:
  std::byte* data_ = nullptr;
  std::size_t size_;
};

// Launches all calls in order on one stream and waits.
void launch_and_wait(const CudaCalls& calls, std::span<const std::size_t> numbers);

// Seconds per call: `rounds` times all calls are queued back to back between two events, after one round that
// is not timed; the median round, divided by the number of calls.
double seconds_per_call(const CudaCalls& calls, std::span<const std::size_t> numbers, int rounds);

// Seconds of what `queue` queues on the calling thread's stream: behind a copy within `memory` that lasts
// longer than the queueing (2 GiB take about a millisecond). Then of all calls together, `repeats` times
// over.
double seconds_hidden(const std::function<void(CudaStream)>& queue, const DeviceMemory& memory);
double seconds_hidden(const CudaCalls& calls, std::span<const std::size_t> numbers, int repeats,
                      const DeviceMemory& memory);

}  // namespace cplab::kernels
