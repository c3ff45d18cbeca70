// A whole plan, all ranks of this process, as one CUDA graph.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "exec/gpu/messages.hpp"
#include "exec/gpu/nccl_link.hpp"
#include "exec/gpu/rank.hpp"

namespace cplab {

class GpuGraph {
 public:
  // Captures every rank's operations from one thread. `number` is a repetition that no message has seen.
  // Throws GpuError, also if the plan holds a host_sync, which no graph can.
  GpuGraph(std::vector<std::unique_ptr<GpuRank>>& ranks, GpuMessages& messages,
           std::vector<std::unique_ptr<NcclLink>>& links, std::uint32_t number);
  ~GpuGraph();
  GpuGraph(const GpuGraph&) = delete;
  GpuGraph& operator=(const GpuGraph&) = delete;

  // Launches it and waits. Returns the seconds. Throws GpuError at the deadline.
  double replay(std::chrono::steady_clock::time_point deadline);

 private:
  struct Handles;
  std::unique_ptr<Handles> handles_;
  GpuRank& origin_;
  GpuEvent end_ = nullptr;
};

}  // namespace cplab
