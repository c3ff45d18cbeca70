// What a multiprocessor of each architecture has for thread blocks, and how many of a kernel it holds at
// once.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace cplab::kernels::cuda {

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; what is rounded up to what:
// cuda_occupancy.h of the toolkit, from which the CUDA runtime answers.
struct Architecture {
  std::string_view name;  // "8.6"
  int major = 0, minor = 0;
  std::int64_t shared_bytes = 0;        // of a multiprocessor
  std::int64_t block_shared_bytes = 0;  // that one thread block may have, static and dynamic together
  int warps = 0;                        // resident
  int blocks = 0;
  int barriers = 0;                           // named ones, of all resident blocks
  std::int64_t reserved_shared_bytes = 1024;  // taken by the runtime, for each thread block
  std::int64_t shared_unit = 128;             // bytes: a block's shared memory is a multiple of it
  int registers = 65536;                      // of 32 bits, in `partitions` files of the same size
  int block_registers = 65536, thread_registers = 255;
  int register_unit = 256;  // the registers of a warp are a multiple of it
  int partitions = 4;       // a warp stays in one
  int block_threads = 1024;
};

constexpr std::array<Architecture, 4> architectures = {{
    {"8.0", 8, 0, 164 << 10, 163 << 10, 64, 32, 0},
    {"8.6", 8, 6, 100 << 10, 99 << 10, 48, 16, 0},
    {"8.9", 8, 9, 100 << 10, 99 << 10, 48, 24, 0},
    {"9.0", 9, 0, 228 << 10, 227 << 10, 64, 32, 64},
}};

// Whether kernels of this repository ran on one, in a record of scenarios/measured; for others they are
// compiled, and what a multiprocessor holds of them is computed, no more.
constexpr bool has_record(const Architecture& gpu) {
  return gpu.major == 9;
}

// Which architectures a kernel says that it runs on: all; those whose thread blocks may have more than 99 KiB
// of shared memory (8.0 and 9.0); Hopper.
enum class Claim : std::uint8_t { all, large_shared, hopper };
constexpr bool claims(Claim claim, const Architecture& gpu) {
  if (claim == Claim::hopper) return gpu.major == 9;
  return claim == Claim::all || gpu.block_shared_bytes > 99 << 10;
}

// Shared memory that a thread block may have on all architectures that are claimed.
constexpr std::int64_t shared_bytes_of(Claim claim) {
  std::int64_t least = INT64_MAX;
  for (const Architecture& gpu : architectures)
    if (claims(claim, gpu) && gpu.block_shared_bytes < least) least = gpu.block_shared_bytes;
  return least;
}

// What a thread block of a kernel takes.
struct BlockNeeds {
  int threads = 0;
  int registers = 0;              // of a thread, as compiled (setmaxnreg moves them between warps later)
  int barriers = 0;               // named ones
  std::int64_t shared_bytes = 0;  // static and dynamic
};

// What there is not enough of for one block more.
enum class OccupancyLimit : std::uint8_t { warps, blocks, registers, shared_memory, barriers };
std::string_view name_of(OccupancyLimit);  // "shared memory"

struct Occupancy {
  int blocks = 0;  // of a multiprocessor at once; 0: not even one can be launched
  int warps = 0;
  double share = 0;                              // of the warps that it can hold
  OccupancyLimit limit = OccupancyLimit::warps;  // of several the first
};

// As cudaOccupancyMaxActiveBlocksPerMultiprocessor, without a device.
Occupancy occupancy(const Architecture&, const BlockNeeds&);

// Why a block cannot be launched there: "103424 bytes of shared memory, of 101376"; empty: it can.
std::string misfit(const Architecture&, const BlockNeeds&);

}  // namespace cplab::kernels::cuda
