// A whole plan as one CUDA graph; see graph.hpp.
#include "exec/gpu/graph.hpp"

#include <cuda_runtime.h>

#include "exec/gpu/issuer.hpp"

namespace cplab {

struct GpuGraph::Handles {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
};

GpuGraph::GpuGraph(std::vector<std::unique_ptr<GpuRank>>& ranks, GpuMessages& messages,
                   std::vector<std::unique_ptr<NcclLink>>& links, std::uint32_t number)
    : handles_(std::make_unique<Handles>()), origin_(*ranks.front()) {
  for (const auto& rank : ranks) {
    for (const Operation& op : rank->plan().operations) {
      if (op.kind != OpKind::host_sync) continue;
      throw GpuError(operation_id(rank->plan(), op) + ": a host_sync cannot be part of a CUDA graph");
    }
  }
  origin_.use_device();
  const GpuEvent fork = origin_.new_event(EventUse::order);
  end_ = origin_.new_event(EventUse::order);
  std::vector<GpuEvent> joins;
  for (auto& rank : ranks) {
    rank->use_device();
    for (std::size_t l = 0; l < rank->lanes().size(); ++l) joins.push_back(rank->new_event(EventUse::order));
  }
  origin_.use_device();
  const cudaStream_t stream = origin_.lanes().front().stream;
  cuda_require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture", -1);
  origin_.record(fork, 0);
  std::deque<GpuIssuer> issuers;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r]->use_device();
    for (std::uint32_t l = 0; l < ranks[r]->lanes().size(); ++l) {
      if (r > 0 || l > 0) ranks[r]->wait(fork, l);
    }
    GpuIssuer::Iteration iteration;
    iteration.number = number;
    iteration.jitter = false;
    issuers.emplace_back(*ranks[r], messages, links[r].get()).begin(iteration);
  }
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      ranks[r]->use_device();
      if (issuers[r].advance()) progress = true;
    }
  }
  std::size_t join = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r]->use_device();
    for (std::uint32_t l = 0; l < ranks[r]->lanes().size(); ++l, ++join) {
      if (r == 0 && l == 0) continue;
      ranks[r]->record(joins[join], l);
      origin_.wait(joins[join], 0);
    }
  }
  origin_.use_device();
  cuda_require(cudaStreamEndCapture(stream, &handles_->graph), "cudaStreamEndCapture", -1);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (issuers[r].all_issued()) continue;
    const RankPlan& plan = ranks[r]->plan();
    const std::uint32_t stuck = issuers[r].first_not_issued();
    throw GpuError("rank " + std::to_string(plan.rank) + ": " + operation_id(plan, plan.operations[stuck]) +
                   " waits for a message that nobody sends");
  }
  cuda_require(cudaGraphInstantiate(&handles_->executable, handles_->graph, 0), "cudaGraphInstantiate", -1);
  cuda_require(cudaGraphUpload(handles_->executable, stream), "cudaGraphUpload", -1);
  cuda_require(cudaStreamSynchronize(stream), "cudaStreamSynchronize", -1);
}

GpuGraph::~GpuGraph() {
  if (handles_->executable != nullptr) (void)cudaGraphExecDestroy(handles_->executable);
  if (handles_->graph != nullptr) (void)cudaGraphDestroy(handles_->graph);
}

double GpuGraph::replay(std::chrono::steady_clock::time_point deadline) {
  using Clock = std::chrono::steady_clock;
  origin_.use_device();
  const auto start = Clock::now();
  cuda_require(cudaGraphLaunch(handles_->executable, origin_.lanes().front().stream), "cudaGraphLaunch", -1);
  origin_.record(end_, 0);
  while (!origin_.reached(end_)) {
    if (Clock::now() > deadline) throw GpuError("the time is up in a replay of the CUDA graph");
  }
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace cplab
