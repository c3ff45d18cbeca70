// The link `nccl`: communication operations of one rank as grouped NCCL calls on the stream of their lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "exec/gpu/messages.hpp"
#include "exec/gpu/rank.hpp"
#include "plan/plan.hpp"

namespace cplab {

bool have_nccl();            // in this build
std::string nccl_version();  // "2.28.3", of the library that is loaded; empty without

class NcclLink {
 public:
  // An id for one world, made by one rank and handed to all.
  using WorldId = std::vector<char>;
  static WorldId make_id();

  // Collective over all ranks of the plan, each from its own thread or process: the world's communicator,
  // then one for every group and number of channels that operations of the plan name, in plan order; without
  // clusters of thread blocks. Throws GpuError.
  NcclLink(const Plan& plan, GpuRank& rank, const WorldId& id);
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  // Sends and receives one byte with every neighbour that the plan sends to, and performs one collective of
  // every kind and size of the plan, on the arena before anything is written to it: connections and their
  // memory exist before the run. Collective.
  void connect(const GpuMessages& messages);
  // Queues the operation as one group: as the call that nccl_call (exec/meetings.hpp) names.
  void queue(std::uint32_t operation, const GpuMessages& messages);
  // Throws GpuError with NCCL's last error if a communicator has failed.
  void require_healthy() const;
  // Ends whatever is running or stuck; from any thread. The link is of no use afterwards.
  void abort();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cplab
