// What issuing operations costs the host, and the gaps between operations; one thread per GPU, all at once.
// See machine.hpp.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>

#include "calibrate/gpu_parts.hpp"
#include "calibrate/links.hpp"
#include "calibrate/loads.hpp"
#include "calibrate/probe.hpp"

namespace cplab::measure {
namespace {

constexpr int rounds = 15;

class Graph {
 public:
  Graph(int nodes, CudaStream stream) {
    cudaGraph_t graph = nullptr;
    require_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    for (int i = 0; i < nodes; ++i) launch_empty(stream);
    require_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    require_cuda(cudaGraphInstantiate(&executable_, graph, 0), "cudaGraphInstantiate");
    require_cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
    require_cuda(cudaGraphUpload(executable_, stream), "cudaGraphUpload");
    require_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  ~Graph() { (void)cudaGraphExecDestroy(executable_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(CudaStream stream) const {
    require_cuda(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
  }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

// One rank's measurements; the ranks go through them in step, the results are the same on all.
class HostSide {
 public:
  HostSide(Team& team, int rank) : team_(team), rank_(rank), bench_(team, rank) {}

  void launches(const DeviceMemory& arena, std::int64_t l2_bytes, Host& into) {
    Load copy(arena, l2_bytes, "copy", 64 << 10);
    copy.prepare(1, bench_.stream());
    std::int64_t index = 0;
    into.kernel_launch_s = bench_.issue_s(200, [&](CudaStream s) { copy.queue(index++, s); });
    into.tiny_kernel_launch_s = bench_.issue_s(200, [](CudaStream s) { launch_empty(s); });
  }

  void communication(CopyRing& copies, Host& into) {
    if (team_.size() < 2) return;
    constexpr std::int64_t bytes = 4 << 10;
    const DeviceMemory send(bytes), receive(bytes);
    const NcclRank nccl(team_, rank_);
    copies.prepare(rank_, receive.data());
    const auto by_nccl = [&](CudaStream s) { nccl.shift(send.data(), receive.data(), bytes, s); };
    bench_.warm_up([&](std::int64_t, CudaStream s) { by_nccl(s); }, 5);
    into.communication_launch_s = bench_.issue_s(30, by_nccl);
    if (copies.possible()) {
      bench_.warm_up([&](std::int64_t, CudaStream s) { copies.shift(rank_, send.data(), bytes, s); }, 5);
      into.copy_launch_s =
          bench_.issue_s(50, [&](CudaStream s) { copies.shift_unpaired(rank_, send.data(), bytes, s); });
    }
    team_.meet();
  }

  // The kernel's stores reach the host about half a microsecond late, and the host polls: both are in
  // launch_latency_s, and in neither of the two times whose difference is sync_s.
  void latencies(Host& into) {
    std::vector<double> latency, seen, synchronized;
    for (int round = 0; round < 60; ++round) {
      const int value = round + 1;
      const bool polls = round % 2 == 0;
      bench_.warm_up([](std::int64_t, CudaStream) {}, 0);
      const double begin = now_s();
      launch_signal(50'000, flags_.address(0), flags_.address(1), value, bench_.stream());
      const double issued = now_s();
      double began = issued;
      if (polls) {
        poll(0, value);
        began = now_s();
        poll(1, value);
      } else {
        require_cuda(cudaStreamSynchronize(bench_.stream()), "cudaStreamSynchronize");
      }
      const double end = now_s();
      if (round < 10) continue;
      (polls ? seen : synchronized).push_back(end - begin);
      if (polls) latency.push_back(began - issued);
    }
    into.launch_latency_s = largest(median(std::move(latency)));
    into.sync_s = std::max(0.0, largest(median(std::move(synchronized)) - median(std::move(seen))));
  }

  // A chain of kernels that goes from stream to stream at every step, against one that stays.
  void dependencies(Host& into) {
    constexpr int chain = 60;  // kernels in one call; a sample is three calls
    const Effort effort{0.001, 3, 3, 15};
    into.back_to_back_s = bench_.typical(
                              [&](std::int64_t, CudaStream s) {
                                for (int i = 0; i < chain; ++i) launch_empty(s);
                              },
                              effort) /
                          chain;
    const Stream other;
    std::vector<std::unique_ptr<Event>> events;
    for (int i = 0; i < chain; ++i) events.push_back(std::make_unique<Event>(false));
    const double alternating = bench_.typical(
                                   [&](std::int64_t, CudaStream s) {
                                     for (int i = 0; i < chain; ++i) {
                                       const CudaStream from = i % 2 == 0 ? s : other.get();
                                       const CudaStream to = i % 2 == 0 ? other.get() : s;
                                       const Event& event = *events[static_cast<std::size_t>(i)];
                                       launch_empty(from);
                                       event.record(from);
                                       event.queue_wait(to);
                                     }
                                   },
                                   effort) /
                               chain;
    into.dependency_s = std::max(0.0, alternating - into.back_to_back_s);
  }

  void graphs(Host& into) {
    // Least squares over the number of nodes.
    double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (const int nodes : {20, 50, 100, 200}) {
      const Graph graph(nodes, bench_.stream());
      std::vector<double> total, call;
      for (int round = 0; round < rounds + 5; ++round) {
        bench_.warm_up([](std::int64_t, CudaStream) {}, 0);
        const double begin = now_s();
        graph.launch(bench_.stream());
        const double issued = now_s();
        require_cuda(cudaStreamSynchronize(bench_.stream()), "cudaStreamSynchronize");
        if (round < 5) continue;
        call.push_back(issued - begin);
        total.push_back(now_s() - begin);
      }
      const double y = largest(median(std::move(total)));
      const double call_s = largest(median(std::move(call)));
      if (nodes == 100) into.graph_call_s = call_s;
      n += 1;
      sx += nodes;
      sy += y;
      sxx += static_cast<double>(nodes) * nodes;
      sxy += nodes * y;
    }
    into.graph_step_s = (n * sxy - sx * sy) / (n * sxx - sx * sx);
    into.graph_node_s = std::max(0.0, into.graph_step_s - into.back_to_back_s);
    into.graph_launch_s = std::max(0.0, (sy - into.graph_step_s * sx) / n - into.sync_s);
  }

 private:
  double largest(double value) { return team_.largest(rank_, value); }

  void poll(int flag, int value) const {
    const double begin = now_s();
    while (flags_.load(flag) != value)
      if (now_s() - begin > 5) throw Error("a kernel's store did not reach the host within 5 s");
  }

  Team& team_;
  int rank_;
  Bench bench_;
  HostFlags flags_{2};
};

}  // namespace

void measure_host(const Options& options, Measurement& into) {
  Team team(options.gpus);
  CopyRing copies(team);
  std::vector<Host> hosts(static_cast<std::size_t>(options.gpus));
  team.run([&](int rank) {
    kernels::load_cuda_kernels();
    Host& host = hosts[static_cast<std::size_t>(rank)];
    const DeviceMemory arena(64 << 20);
    HostSide side(team, rank);
    side.launches(arena, options.l2_bytes, host);
    side.communication(copies, host);
    side.latencies(host);
    side.dependencies(host);
    side.graphs(host);
  });
  into.host.push_back(hosts.front());
}

}  // namespace cplab::measure
