// Device memory, streams, events and the gate for calibrate/, without a CUDA header.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/machine.hpp"
#include "kernels/cuda.hpp"

struct CUevent_st;

namespace cplab::measure {

using kernels::CudaStream;

// Throw Error, naming the call, unless the code (cudaError_t, ncclResult_t) is success.
void require_cuda(int code, const char* call);
void require_nccl(int code, const char* call);

int count_gpus();
void use_gpu(int device);

// On the device that is current at construction.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::int64_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  char* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  // The first `bytes`: standard-normal bf16 values; read as fp32 they are as well distributed.
  void fill_random(std::uint64_t seed, std::int64_t bytes, CudaStream stream) const;

 private:
  char* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

class Event {
 public:
  explicit Event(bool timing);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(CudaStream stream) const;
  void queue_wait(CudaStream stream) const;  // the stream waits for the last record
  void synchronize() const;                  // the host waits for it
  CUevent_st* get() const { return event_; }

 private:
  CUevent_st* event_ = nullptr;
};
double elapsed_s(const Event& from, const Event& to);

// Does not wait for the legacy stream. Urgent: of the highest priority that the device has.
class Stream {
 public:
  explicit Stream(bool urgent = false);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  CudaStream get() const { return stream_; }
  void synchronize() const;

 private:
  CudaStream stream_ = nullptr;
};

// Integers in host memory that kernels read and write.
class HostFlags {
 public:
  explicit HostFlags(int count);
  ~HostFlags();
  HostFlags(const HostFlags&) = delete;
  HostFlags& operator=(const HostFlags&) = delete;
  int load(int index) const;
  void store(int index, int value);
  int* address(int index) const { return flags_ + index; }

 private:
  int* flags_ = nullptr;
};

// Holds back everything queued behind close() until open(), or for 5 s; then check() throws.
class Gate {
 public:
  void close(CudaStream stream);
  void open() { flags_.store(0, ticket_); }
  void check() const;

 private:
  HostFlags flags_{2};  // the last ticket that may pass; 1 if a kernel gave up waiting
  int ticket_ = 0;
};

double now_s();  // the host's steady clock
double median(std::vector<double> values);

struct DeviceFacts {
  std::string name, compute_capability;
  int sms = 0;
  std::int64_t l2_bytes = 0, capacity_bytes = 0, free_bytes = 0;
};
DeviceFacts device_facts(int device);

// Of the whole GPU, other processes included; -1 where the driver's management library cannot be asked.
// Creates no context.
std::int64_t used_bytes_by_driver(int device);
// Of the whole GPU, those of this machine that have a context there; -1 where the library cannot say.
int processes_by_driver(int device);
// Versions, clocks, NCCL_* variables. Nothing is set.
std::vector<std::pair<std::string, std::string>> environment(int device);

}  // namespace cplab::measure
