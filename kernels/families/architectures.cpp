// Theoretical occupancy; see architectures.hpp.
#include "kernels/families/architectures.hpp"

#include <algorithm>
#include <utility>

namespace cplab::kernels::cuda {
namespace {

constexpr int warp_threads = 32;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

int warps_of(const BlockNeeds& needs) {
  return (needs.threads + warp_threads - 1) / warp_threads;
}

std::int64_t registers_of_warp(const Architecture& gpu, const BlockNeeds& needs) {
  return round_up(std::int64_t{needs.registers} * warp_threads, gpu.register_unit);
}

std::string beyond(std::int64_t has, const char* what, std::int64_t most) {
  return std::to_string(has) + " " + what + ", of " + std::to_string(most);
}

}  // namespace

std::string_view name_of(OccupancyLimit limit) {
  switch (limit) {
    case OccupancyLimit::warps: return "warps";
    case OccupancyLimit::blocks: return "blocks";
    case OccupancyLimit::registers: return "registers";
    case OccupancyLimit::shared_memory: return "shared memory";
    case OccupancyLimit::barriers: return "barriers";
  }
  return "";
}

std::string misfit(const Architecture& gpu, const BlockNeeds& needs) {
  if (needs.threads > gpu.block_threads) return beyond(needs.threads, "threads", gpu.block_threads);
  if (needs.registers > gpu.thread_registers)
    return beyond(needs.registers, "registers of a thread", gpu.thread_registers);
  // The hardware checks as if every partition held as many of the block's warps.
  const std::int64_t registers = registers_of_warp(gpu, needs) * round_up(warps_of(needs), gpu.partitions);
  if (registers > gpu.block_registers) return beyond(registers, "registers", gpu.block_registers);
  if (needs.shared_bytes > gpu.block_shared_bytes)
    return beyond(needs.shared_bytes, "bytes of shared memory", gpu.block_shared_bytes);
  return {};
}

Occupancy occupancy(const Architecture& gpu, const BlockNeeds& needs) {
  if (needs.threads <= 0 || !misfit(gpu, needs).empty()) return {};
  const std::int64_t warps = warps_of(needs);
  const std::int64_t of_warp = registers_of_warp(gpu, needs);
  const std::int64_t of_block = round_up(needs.shared_bytes + gpu.reserved_shared_bytes, gpu.shared_unit);
  const std::int64_t warps_by_registers =
      of_warp == 0 ? gpu.warps : gpu.registers / gpu.partitions / of_warp * gpu.partitions;
  const std::pair<std::int64_t, OccupancyLimit> limits[] = {
      {gpu.warps / warps, OccupancyLimit::warps},
      {gpu.blocks, OccupancyLimit::blocks},
      {warps_by_registers / warps, OccupancyLimit::registers},
      {gpu.shared_bytes / of_block, OccupancyLimit::shared_memory},
      {gpu.barriers == 0 || needs.barriers == 0 ? gpu.blocks : gpu.barriers / needs.barriers,
       OccupancyLimit::barriers}};
  const auto least = std::min_element(std::begin(limits), std::end(limits),
                                      [](const auto& a, const auto& b) { return a.first < b.first; });
  const int blocks = static_cast<int>(least->first);
  return {.blocks = blocks,
          .warps = static_cast<int>(blocks * warps),
          .share = static_cast<double>(blocks * warps) / gpu.warps,
          .limit = least->second};
}

}  // namespace cplab::kernels::cuda
