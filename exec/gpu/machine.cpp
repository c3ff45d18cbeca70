// The GPUs of this machine; see machine.hpp.
#include "exec/gpu/machine.hpp"

#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "exec/gpu/error.hpp"
#include "exec/gpu/nccl_link.hpp"
#include "exec/gpu/peer_sum.hpp"
#include "exec/gpu/rank.hpp"
#include "kernels/cuda.hpp"

namespace cplab {

namespace {

int device_count() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorNoDevice || code == cudaErrorInsufficientDriver || code == cudaErrorStubLibrary) {
    throw GpuError(std::string("no GPU here (") + cudaGetErrorString(code) +
                   "); --device cpu executes the same plan on the CPU");
  }
  cuda_require(code, "cudaGetDeviceCount", -1);
  return count;
}

std::string version(int number) {  // 13000 is 13.0
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

}  // namespace

void require_gpus(int ranks, int ranks_per_gpu, bool uses_nccl) {
  const int count = device_count();
  const int needed = (ranks + ranks_per_gpu - 1) / ranks_per_gpu;
  if (needed > count) {
    const int would_do = (ranks + count - 1) / std::max(count, 1);
    throw GpuError(std::to_string(ranks) + " ranks need " + std::to_string(needed) +
                   " GPUs and this machine has " + std::to_string(count) + "; --ranks-per-gpu " +
                   std::to_string(would_do) + " with schedule.transport=copy executes them, for correctness");
  }
  if (uses_nccl && ranks_per_gpu > 1) {
    throw GpuError("--ranks-per-gpu " + std::to_string(ranks_per_gpu) +
                   ": NCCL takes one rank a GPU; schedule.transport=copy takes several");
  }
  if (uses_nccl && !have_nccl()) {
    throw GpuError("this build has no NCCL; schedule.transport=copy runs without it");
  }
}

bool can_access_peer(int from, int into) {
  int can = 0;
  cuda_require(cudaDeviceCanAccessPeer(&can, from, into), "cudaDeviceCanAccessPeer", -1);
  return can != 0;
}

void load_gpu(int device, bool peers, int rank) {
  cuda_require(cudaSetDevice(device), "cudaSetDevice", rank);
  cuda_require(cudaFree(nullptr), "making a context", rank);
  try {
    kernels::load_cuda_kernels();
  } catch (const std::runtime_error& error) {
    throw GpuError(error.what());
  }
  if (peers) cuda_require(load_peer_sums(), "loading the sums of the link copy", rank);
  for (int other = 0; peers && other < device_count(); ++other) {
    if (other == device || !can_access_peer(device, other)) continue;
    const cudaError_t code = cudaDeviceEnablePeerAccess(other, 0);
    if (code == cudaErrorPeerAccessAlreadyEnabled) {
      (void)cudaGetLastError();
    } else {
      const std::string call =
          "access of GPU " + std::to_string(device) + " to the memory of GPU " + std::to_string(other);
      cuda_require(code, call.c_str(), rank);
    }
  }
}

std::int64_t used_gpu_bytes(int device) {
  cuda_require(cudaSetDevice(device), "cudaSetDevice", -1);
  std::size_t free = 0, total = 0;
  cuda_require(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", -1);
  return static_cast<std::int64_t>(total - free);
}

void explain_memory(std::vector<RankMemory>& memory, int ranks_per_gpu) {
  const auto share = static_cast<std::size_t>(ranks_per_gpu);
  for (std::size_t first = 0; first < memory.size(); first += share) {
    const std::size_t last = std::min(first + share, memory.size());
    const std::int64_t context = memory[first].context_bytes;
    std::int64_t known = context;
    for (std::size_t r = first; r < last; ++r) {
      known += memory[r].communicator_bytes + memory[r].tables_bytes + memory[r].arena_bytes;
    }
    const std::int64_t rest = memory[first].growth_bytes - known;
    for (std::size_t r = first; r < last; ++r) {
      memory[r].context_bytes = context;
      memory[r].unexplained_bytes = rest / static_cast<std::int64_t>(last - first);
    }
  }
}

std::vector<std::pair<std::string, std::string>> gpu_environment(bool uses_nccl) {
  std::vector<std::pair<std::string, std::string>> out;
  cudaDeviceProp properties{};
  cuda_require(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties", -1);
  int driver = 0, runtime = 0, sm_khz = 0, memory_khz = 0;
  cuda_require(cudaDriverGetVersion(&driver), "cudaDriverGetVersion", -1);
  cuda_require(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion", -1);
  cuda_require(cudaDeviceGetAttribute(&sm_khz, cudaDevAttrClockRate, 0), "cudaDeviceGetAttribute", -1);
  cuda_require(cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, 0), "cudaDeviceGetAttribute",
               -1);
  out.emplace_back("gpu", properties.name);
  out.emplace_back("gpus", std::to_string(device_count()));
  out.emplace_back("compute_capability",
                   std::to_string(properties.major) + "." + std::to_string(properties.minor));
  out.emplace_back("sms", std::to_string(properties.multiProcessorCount));
  out.emplace_back("driver_cuda", version(driver));
  out.emplace_back("cuda", version(runtime));
  out.emplace_back("nccl", uses_nccl || nccl_is_loaded() ? nccl_version() : "");
  out.emplace_back("clocks", "at most " + std::to_string(sm_khz / 1000) + " MHz, memory " +
                                 std::to_string(memory_khz / 1000) + " MHz");
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::size_t equals = text.find('=');
    if (!text.starts_with("NCCL_") || equals == std::string_view::npos) continue;
    out.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

int multiprocessors(int device) {
  int sms = 0;
  cuda_require(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute",
               -1);
  return sms;
}

}  // namespace cplab
