// Device memory, streams, events, the gate, and what the driver says of the machine; see device.hpp.
#include "calibrate/device.hpp"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "calibrate/probe.hpp"
#include "kernels/normal_values.hpp"

namespace cplab::measure {

void require_cuda(int code, const char* call) {
  if (code == cudaSuccess) return;
  const auto error = static_cast<cudaError_t>(code);
  throw Error(std::string(call) + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")");
}

void require_nccl(int code, const char* call) {
  if (code == ncclSuccess) return;
  throw Error(std::string(call) + ": " + ncclGetErrorString(static_cast<ncclResult_t>(code)) + " (" +
              ncclGetLastError(nullptr) + ")");
}

namespace {

// For destructors, which cannot throw.
void report_cuda(cudaError_t code, const char* call) {
  if (code != cudaSuccess) std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(code));
}

// The parts of the driver's management library (NVML) that are asked, by the names and types of its manual.
struct Nvml {
  using Handle = void*;
  struct Memory {
    unsigned long long total, free, used;
  };
  int (*init)() = nullptr;
  int (*by_bus)(const char*, Handle*) = nullptr;
  int (*memory)(Handle, Memory*) = nullptr;
  int (*clock)(Handle, int, unsigned*) = nullptr;
  int (*max_clock)(Handle, int, unsigned*) = nullptr;
  int (*power_limit)(Handle, unsigned*) = nullptr;  // milliwatts
  int (*driver)(char*, unsigned) = nullptr;
  int (*processes)(Handle, unsigned*, void*) = nullptr;  // may be missing
  bool there = false;

  Nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto find = [&](auto& function, const char* name) {
      void* address = dlsym(library, name);
      std::memcpy(&function, &address, sizeof address);
      return address != nullptr;
    };
    const bool all = find(init, "nvmlInit_v2") && find(by_bus, "nvmlDeviceGetHandleByPciBusId_v2") &&
                     find(memory, "nvmlDeviceGetMemoryInfo") && find(clock, "nvmlDeviceGetClockInfo") &&
                     find(max_clock, "nvmlDeviceGetMaxClockInfo") &&
                     find(power_limit, "nvmlDeviceGetEnforcedPowerLimit") &&
                     find(driver, "nvmlSystemGetDriverVersion");
    if (!find(processes, "nvmlDeviceGetComputeRunningProcesses_v3")) processes = nullptr;
    there = all && init() == 0;
  }

  Handle device(int index) const {
    char bus[32] = {};
    Handle handle = nullptr;
    require_cuda(cudaDeviceGetPCIBusId(bus, sizeof bus, index), "cudaDeviceGetPCIBusId");
    return there && by_bus(bus, &handle) == 0 ? handle : nullptr;
  }
};

const Nvml& nvml() {
  static const Nvml instance;
  return instance;
}

std::string version_text(int version, int major_unit, int minor_unit) {
  return std::to_string(version / major_unit) + "." + std::to_string(version % major_unit / minor_unit);
}

}  // namespace

int count_gpus() {
  int count = 0;
  require_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

void use_gpu(int device) {
  require_cuda(cudaSetDevice(device), "cudaSetDevice");
}

DeviceMemory::DeviceMemory(std::int64_t bytes) : bytes_(bytes) {
  void* data = nullptr;
  require_cuda(cudaMalloc(&data, static_cast<std::size_t>(bytes)), "cudaMalloc");
  data_ = static_cast<char*>(data);
}

DeviceMemory::~DeviceMemory() {
  report_cuda(cudaFree(data_), "cudaFree");
}

void DeviceMemory::fill_random(std::uint64_t seed, std::int64_t bytes, CudaStream stream) const {
  require_cuda(kernels::queue_normal(stream, data_, kernels::DType::bf16, bytes / 2, seed), "random data");
}

Event::Event(bool timing) {
  require_cuda(cudaEventCreateWithFlags(&event_, timing ? cudaEventDefault : cudaEventDisableTiming),
               "cudaEventCreateWithFlags");
}

Event::~Event() {
  report_cuda(cudaEventDestroy(event_), "cudaEventDestroy");
}

void Event::record(CudaStream stream) const {
  require_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
}

void Event::queue_wait(CudaStream stream) const {
  require_cuda(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
}

void Event::synchronize() const {
  require_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
}

double elapsed_s(const Event& from, const Event& to) {
  float ms = 0;
  require_cuda(cudaEventElapsedTime(&ms, from.get(), to.get()), "cudaEventElapsedTime");
  return static_cast<double>(ms) * 1e-3;
}

Stream::Stream(bool urgent) {
  int lowest = 0, highest = 0;
  require_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  require_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, urgent ? highest : lowest),
               "cudaStreamCreateWithPriority");
}

Stream::~Stream() {
  report_cuda(cudaStreamDestroy(stream_), "cudaStreamDestroy");
}

void Stream::synchronize() const {
  require_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

HostFlags::HostFlags(int count) {
  void* flags = nullptr;
  const auto bytes = static_cast<std::size_t>(count) * sizeof(int);
  require_cuda(cudaHostAlloc(&flags, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc");
  std::memset(flags, 0, bytes);
  flags_ = static_cast<int*>(flags);
}

HostFlags::~HostFlags() {
  report_cuda(cudaFreeHost(flags_), "cudaFreeHost");
}

int HostFlags::load(int index) const {
  return std::atomic_ref<int>(flags_[index]).load(std::memory_order_acquire);
}

void HostFlags::store(int index, int value) {
  std::atomic_ref<int>(flags_[index]).store(value, std::memory_order_release);
}

void Gate::close(CudaStream stream) {
  ++ticket_;
  launch_gate(flags_.address(0), ticket_, flags_.address(1), stream);
}

void Gate::check() const {
  if (flags_.load(1) != 0)
    throw Error("a sample could not be queued within 5 s: something in it waited for the device");
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  if (values.empty()) throw Error("median of no values");
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

DeviceFacts device_facts(int device) {
  cudaDeviceProp properties{};
  require_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  std::size_t free = 0, total = 0;
  require_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  DeviceFacts facts;
  facts.name = properties.name;
  facts.compute_capability = std::to_string(properties.major) + "." + std::to_string(properties.minor);
  facts.sms = properties.multiProcessorCount;
  facts.l2_bytes = properties.l2CacheSize;
  facts.capacity_bytes = static_cast<std::int64_t>(total);
  facts.free_bytes = static_cast<std::int64_t>(free);
  return facts;
}

std::int64_t used_bytes_by_driver(int device) {
  Nvml::Memory memory{};
  const Nvml::Handle handle = nvml().device(device);
  if (handle == nullptr || nvml().memory(handle, &memory) != 0) return -1;
  return static_cast<std::int64_t>(memory.used);
}

int processes_by_driver(int device) {
  const Nvml::Handle handle = nvml().device(device);
  if (handle == nullptr || nvml().processes == nullptr) return -1;
  constexpr int too_small = 7;  // NVML_ERROR_INSUFFICIENT_SIZE: there are some, and `count` says how many
  unsigned count = 0;
  const int code = nvml().processes(handle, &count, nullptr);
  return code == 0 || code == too_small ? static_cast<int>(count) : -1;
}

std::vector<std::pair<std::string, std::string>> environment(int device) {
  std::vector<std::pair<std::string, std::string>> facts;
  const auto add = [&](const std::string& key, const std::string& value) { facts.emplace_back(key, value); };
  char driver[96] = {};
  if (nvml().there && nvml().driver(driver, sizeof driver) == 0) add("driver", driver);
  int version = 0;
  require_cuda(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
  add("cuda_of_driver", version_text(version, 1000, 10));
  require_cuda(cudaRuntimeGetVersion(&version), "cudaRuntimeGetVersion");
  add("cuda", version_text(version, 1000, 10));
  require_nccl(ncclGetVersion(&version), "ncclGetVersion");
  add("nccl", version_text(version, 10000, 100) + "." + std::to_string(version % 100));
  add("compute_capability", device_facts(device).compute_capability);
  if (const Nvml::Handle handle = nvml().device(device); handle != nullptr) {
    const auto clocks = [&](int (*ask)(Nvml::Handle, int, unsigned*), int kind) {
      unsigned mhz = 0;
      return ask(handle, kind, &mhz) == 0 ? std::to_string(mhz) + " MHz" : std::string("unknown");
    };
    add("clock_sm", clocks(nvml().clock, 1) + ", at most " + clocks(nvml().max_clock, 1));
    add("clock_memory", clocks(nvml().clock, 2) + ", at most " + clocks(nvml().max_clock, 2));
    unsigned milliwatts = 0;
    if (nvml().power_limit(handle, &milliwatts) == 0)
      add("power_limit", std::to_string(milliwatts / 1000) + " W");
  }
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::size_t equals = text.find('=');
    if (text.starts_with("NCCL_") && equals != std::string::npos)
      add(text.substr(0, equals), text.substr(equals + 1));
  }
  return facts;
}

}  // namespace cplab::measure
