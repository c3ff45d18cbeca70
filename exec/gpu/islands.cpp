// Which ranks share a node and reach each other's memory; see executor.hpp.
#include "plan/islands.hpp"

#include <algorithm>
#include <cstdint>

#include "exec/gpu/executor.hpp"
#include "exec/gpu/machine.hpp"
#include "exec/gpu/team.hpp"

namespace cplab {

namespace {

// What one process knows: the first rank of its host, and which of the host's GPUs its own can write to.
struct Host {
  std::int32_t first = 0, device = 0;
  std::uint64_t reaches = 0;  // bit d: GPU d
};

std::uint64_t reaches_of(int device, int devices) {
  std::uint64_t bits = 0;
  for (int other = 0; other < std::min(devices, 64); ++other)
    if (other == device || can_access_peer(device, other)) bits |= std::uint64_t{1} << other;
  return bits;
}

}  // namespace

std::vector<int> islands_of_gpus(int world, const GpuOptions& options) {
  const int share = options.ranks_per_gpu;
  Rendezvous* processes = options.rendezvous;
  std::vector<Host> hosts;
  if (processes == nullptr) {
    require_gpus(world, share, false);
    for (int rank = 0; rank < world; ++rank)
      hosts.push_back({0, rank / share, reaches_of(rank / share, (world + share - 1) / share)});
  } else {
    require_gpus(options.local_world, share, false);
    const int device = options.local_rank / share;
    const Host own{processes->rank() - options.local_rank, device,
                   reaches_of(device, (options.local_world + share - 1) / share)};
    hosts = processes->all_gather_value(own, GpuTeam::patience_s);
  }
  // Another number of processes than of ranks is an error of the executor.
  if (std::ssize(hosts) != world) return {};
  return islands_of(world, [&](int a, int b) {
    const Host &from = hosts[static_cast<std::size_t>(a)], &into = hosts[static_cast<std::size_t>(b)];
    return from.first == into.first && (from.reaches >> into.device & 1) != 0;
  });
}

}  // namespace cplab
