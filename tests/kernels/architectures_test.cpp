// Theoretical occupancy on hand-derived numbers, and beside NVIDIA's own calculator where a toolkit has it.
#include "kernels/families/architectures.hpp"

#include <doctest/doctest.h>

#include <random>
#include <stdexcept>
#include <string>

#ifdef CPLAB_CUDA_OCCUPANCY
#include <cuda_occupancy.h>
#endif

namespace cplab::testing {
namespace {

using namespace kernels::cuda;

const Architecture& sm(const std::string& name) {
  for (const Architecture& gpu : architectures)
    if (gpu.name == name) return gpu;
  throw std::invalid_argument(name);
}

void check_occupancy(const std::string& gpu, const BlockNeeds& needs, int blocks, int warps,
                     OccupancyLimit limit) {
  CAPTURE(gpu);
  const Occupancy held = occupancy(sm(gpu), needs);
  CHECK(held.blocks == blocks);
  CHECK(held.warps == warps);
  CHECK(held.share == doctest::Approx(static_cast<double>(warps) / sm(gpu).warps));
  CHECK(held.limit == limit);
}

}  // namespace

TEST_CASE("budgets of the architectures are those of the programming guide's table") {
  // KB of shared memory of a multiprocessor and of a block: 164/163, 100/99, 100/99, 228/227; warps and
  // blocks 64/32, 48/16, 48/24, 64/32.
  CHECK(sm("8.0").shared_bytes == 167936);
  CHECK(sm("8.6").shared_bytes == 102400);
  CHECK(sm("9.0").shared_bytes == 233472);
  for (const Architecture& gpu : architectures) {
    // A block alone has all of it but what the runtime keeps.
    CHECK(gpu.block_shared_bytes + gpu.reserved_shared_bytes == gpu.shared_bytes);
    CHECK(gpu.registers == 65536);
    CHECK(gpu.thread_registers == 255);
  }
  CHECK(sm("8.6").block_shared_bytes == 101376);
  CHECK(sm("8.6").blocks == 16);
  CHECK(sm("8.9").blocks == 24);
  CHECK(shared_bytes_of(Claim::all) == 101376);
  CHECK(shared_bytes_of(Claim::large_shared) == 163 << 10);
  CHECK(shared_bytes_of(Claim::hopper) == 227 << 10);
}

TEST_CASE("occupancy by registers: whole units of 256 a warp, in files of 16384") {
  // 136 x 32 = 4352 = 17 x 256: 3 warps in a file, 12 in a multiprocessor, one block of 8.
  for (const char* gpu : {"8.0", "8.6", "8.9", "9.0"})
    check_occupancy(gpu, {256, 136}, 1, 8, OccupancyLimit::registers);
  // 128 x 32 = 4096: 4 warps in a file, 16, two blocks of 8.
  check_occupancy("9.0", {256, 128}, 2, 16, OccupancyLimit::registers);
  // 168 x 32 = 5376 = 21 x 256: 3 in a file, 12: the one block of 12 warps that kernels for Hopper are.
  check_occupancy("9.0", {384, 168, 0, 194 << 10}, 1, 12, OccupancyLimit::registers);
  check_occupancy("9.0", {512, 128, 0, 217 << 10}, 1, 16, OccupancyLimit::registers);
  // 33 x 32 = 1056, rounded up to 1280: 12 in a file, 48; 33 threads are two warps.
  check_occupancy("9.0", {33, 33}, 24, 48, OccupancyLimit::registers);
}

TEST_CASE("occupancy by warps and by blocks") {
  check_occupancy("8.0", {256, 32}, 8, 64, OccupancyLimit::warps);
  check_occupancy("8.6", {256, 32}, 6, 48, OccupancyLimit::warps);
  check_occupancy("8.6", {1024, 32}, 1, 32, OccupancyLimit::warps);  // 48 warps hold no second block of 32
  check_occupancy("8.0", {32, 16}, 32, 32, OccupancyLimit::blocks);
  check_occupancy("8.6", {32, 16}, 16, 16, OccupancyLimit::blocks);
  check_occupancy("8.9", {32, 16}, 24, 24, OccupancyLimit::blocks);
}

TEST_CASE("occupancy by shared memory: 1 KiB of each block is the runtime's, units of 128 bytes") {
  // 81 KiB with the runtime's: 2 of 164 (registers allow 2 as well), 1 of 100, 2 of 228.
  check_occupancy("8.0", {256, 128, 0, 80 << 10}, 2, 16, OccupancyLimit::registers);
  check_occupancy("8.6", {256, 128, 0, 80 << 10}, 1, 8, OccupancyLimit::shared_memory);
  check_occupancy("9.0", {256, 64, 0, 80 << 10}, 2, 16, OccupancyLimit::shared_memory);
  // Half of 228 KiB less 1 KiB is 115712: one byte more is 128 more, of which there is no room for two.
  check_occupancy("9.0", {256, 64, 0, 115712}, 2, 16, OccupancyLimit::shared_memory);
  check_occupancy("9.0", {256, 64, 0, 115713}, 1, 8, OccupancyLimit::shared_memory);
}

TEST_CASE("occupancy by named barriers, which are counted from Hopper on") {
  check_occupancy("8.6", {64, 16, 5}, 16, 32, OccupancyLimit::blocks);
  check_occupancy("9.0", {64, 16, 5}, 12, 24, OccupancyLimit::barriers);  // of 64
}

TEST_CASE("what cannot be launched says why") {
  CHECK(misfit(sm("8.6"), {128, 64, 1, 101376}).empty());
  CHECK(misfit(sm("8.6"), {128, 64, 1, 101377}) == "101377 bytes of shared memory, of 101376");
  CHECK(misfit(sm("8.0"), {128, 64, 1, 163 << 10}).empty());
  CHECK(misfit(sm("9.0"), {1056, 32}) == "1056 threads, of 1024");
  CHECK(misfit(sm("9.0"), {128, 256}) == "256 registers of a thread, of 255");
  // 255 x 32 = 8160, rounded up to 8192, times 16 warps.
  CHECK(misfit(sm("9.0"), {512, 255}) == "131072 registers, of 65536");
  // 9 warps of 224 x 32 = 7168 are 64512, but are counted as 12.
  CHECK(misfit(sm("9.0"), {288, 224}) == "86016 registers, of 65536");
  CHECK(occupancy(sm("9.0"), {288, 224}).blocks == 0);
}

#ifdef CPLAB_CUDA_OCCUPANCY
TEST_CASE("occupancy equals that of cuda_occupancy.h, for random blocks") {
  std::mt19937 random(1);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int n = 0; n < 40000; ++n) {
    const Architecture& gpu = architectures[static_cast<std::size_t>(draw(0, 3))];
    const BlockNeeds needs{draw(1, 1024), draw(1, 255), draw(0, 16),
                           draw(0, 2) == 0 ? 0 : draw(0, static_cast<int>(gpu.block_shared_bytes))};
    cudaOccDeviceProp device;
    device.computeMajor = gpu.major;
    device.computeMinor = gpu.minor;
    device.maxThreadsPerBlock = gpu.block_threads;
    device.maxThreadsPerMultiprocessor = gpu.warps * 32;
    device.regsPerBlock = gpu.block_registers;
    device.regsPerMultiprocessor = gpu.registers;
    device.warpSize = 32;
    device.sharedMemPerBlock = 48 << 10;
    device.sharedMemPerMultiprocessor = static_cast<std::size_t>(gpu.shared_bytes);
    device.numSms = 1;
    device.sharedMemPerBlockOptin = static_cast<std::size_t>(gpu.block_shared_bytes);
    device.reservedSharedMemPerBlock = static_cast<std::size_t>(gpu.reserved_shared_bytes);
    cudaOccFuncAttributes function;
    function.maxThreadsPerBlock = gpu.block_threads;
    function.numRegs = needs.registers;
    function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    function.maxDynamicSharedSizeBytes = device.sharedMemPerBlockOptin;
    function.numBlockBarriers = needs.barriers;
    const cudaOccDeviceState state;
    cudaOccResult result;
    REQUIRE(cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, needs.threads,
                                                    static_cast<std::size_t>(needs.shared_bytes)) ==
            CUDA_OCC_SUCCESS);
    CAPTURE(gpu.name);
    CAPTURE(needs.threads);
    CAPTURE(needs.registers);
    CAPTURE(needs.barriers);
    CAPTURE(needs.shared_bytes);
    REQUIRE(occupancy(gpu, needs).blocks == result.activeBlocksPerMultiprocessor);
  }
}
#endif

}  // namespace cplab::testing
