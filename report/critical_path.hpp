// Which chain of operations determines the end of a timeline, and how much of its time has which origin:
// walked back from the last operation to end along what each waited for. The simulator knows these causes;
// those of a run follow from its times (measured_path.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "derive/walk.hpp"
#include "plan/plan.hpp"
#include "report/chain.hpp"
#include "report/origin_seconds.hpp"
#include "report/timeline.hpp"

namespace cplab {

// Why an operation started when it did and, for a communication, why it ended when it did. Operations are
// indices into RankPlan::operations.
struct Cause {
  static constexpr std::uint32_t host = no_operation - 1;

  // The operation of the same rank that let it start (a dependency, or what held multiprocessors); `host`: it
  // was issued too late for anything else to matter; no_operation: nothing before it.
  std::uint32_t start = no_operation;
  // Its rank, where that is another one: the last of the forward, where other layers run between the phases.
  std::int32_t start_rank = -1;
  // The operation of the same rank for which the host last waited before it issued this one.
  std::uint32_t issue = no_operation;
  // Communication: when its last transfer began (-1: not known), and the peer whose posting began it (-1: its
  // own).
  std::int32_t peer_rank = -1;
  std::uint32_t peer_operation = no_operation;
  double begin_s = -1;
  // Of that transfer: its start-up, its other end (-1: a collective of all members), whether this operation
  // sends it, and what carries it (link, nic, message).
  float startup_us = 0;
  std::int32_t far_rank = -1;
  bool sends = false;
  ChainResource carrier = ChainResource::link;
  // A kernel: the share of its time that it lost to communication beside it, and where that is from; of the
  // rest how much is of which origin. All 0: everything is of the origin of OperationTime.
  float lost_share = 0;
  Origin lost_origin = Origin::measured;
  std::array<float, 4> shares{};
};

// `seconds` of an operation, divided by origin. OperationTime says where most of a kernel's time is from.
void add_parts(OriginSeconds& sum, double seconds, const OperationTime& time, const Cause& cause);

// Times and causes of all operations: [rank][operation].
struct Recorded {
  std::vector<std::span<const OperationTime>> times;
  std::vector<std::span<const Cause>> causes;
  // Launches, issue and dependency latencies count as of this origin, and as the host's; kernels as of that
  // resource.
  Origin host_origin = Origin::measured;
  ChainResource processor = ChainResource::gpu;
};

// The seconds of that chain, by origin and by use. Both sum to the end of the last operation.
struct CriticalPath {
  OriginSeconds by_origin;
  UseSeconds by_use;
  ChainParts parts;  // by rank, link or NIC, and kind
};
// Appends the chain's stretches to `steps`, the last first. What a cause names must be something that its
// operation could not do without, so that the chain comes to its beginning.
CriticalPath critical_path(const Plan& plan, const Recorded& recorded, std::vector<ChainStep>& steps);

}  // namespace cplab
