// The GPUs of this machine: are they enough, which reach each other, what are they.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "report/results.hpp"

namespace cplab {

// Throws GpuError, saying what is missing and what would do, unless `ranks` ranks fit.
void require_gpus(int ranks, int ranks_per_gpu, bool uses_nccl);

// Whether GPU `from` can write into the memory of GPU `into`, two different ones.
bool can_access_peer(int from, int into);

// Makes the GPU the current one with its context and kernels loaded and, with `peers`, lets it write into all
// others that it can reach. `rank` is who is named in errors.
void load_gpu(int device, bool peers, int rank);

std::int64_t used_gpu_bytes(int device);

int multiprocessors(int device);  // how many it has

// Fills in unexplained_bytes: what remains of each rank's growth of used memory after context, communicators,
// tables and arena; ranks that share a GPU share it evenly.
void explain_memory(std::vector<RankMemory>& memory, int ranks_per_gpu);

// gpu, gpus, compute_capability, sms, driver, cuda, nccl, clocks, NCCL_* variables. NCCL is loaded for its
// version only where it is used: a framework that this process loads later brings its own.
std::vector<std::pair<std::string, std::string>> gpu_environment(bool uses_nccl = true);

}  // namespace cplab
