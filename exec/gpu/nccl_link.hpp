// The link `nccl`: communication operations of one rank as grouped NCCL calls on the stream of their lane.
#pragma once

#include <cstdint>
#include <memory>

#include "exec/gpu/messages.hpp"
#include "exec/gpu/nccl_world.hpp"
#include "exec/gpu/rank.hpp"
#include "plan/plan.hpp"

namespace cplab {

class NcclLink {
 public:
  // Of one rank of the plan. Plan, rank and world, which has the plan's communicators, outlive the link.
  // Throws GpuError.
  NcclLink(const Plan& plan, GpuRank& rank, NcclWorld& world);
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  // Sends and receives one byte with every neighbour that the plan sends to, and performs one collective of
  // every kind and size of the plan, on the arena before anything is written to it: connections and their
  // memory exist before the run. Collective.
  void connect(const GpuMessages& messages);
  // Queues the operation as one group: as the call that nccl_call (exec/meetings.hpp) names.
  void queue(std::uint32_t operation, const GpuMessages& messages);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cplab
