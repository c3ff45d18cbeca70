// NCCL between nodes; see between_nodes.hpp.
#include "calibrate/between_nodes.hpp"

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "calibrate/device.hpp"

namespace cplab::measure {
namespace {

constexpr std::int64_t least_bytes = 4 << 10, most_bytes = 256 << 20;

// One node's GPU among those of the others.
class Node {
 public:
  Node(const std::string& id, int node, int nodes, std::uint64_t seed)
      : node_(node), nodes_(nodes), send_(most_bytes), receive_(most_bytes), time_(sizeof(float)) {
    ncclUniqueId own{};
    if (id.size() != sizeof own) throw Error("the id of the first node has another size: another NCCL");
    std::memcpy(&own, id.data(), sizeof own);
    require_nccl(ncclCommInitRank(&communicator_, nodes, own, node), "ncclCommInitRank");
    send_.fill_random(seed + static_cast<std::uint64_t>(node), most_bytes, stream_.get());
  }
  ~Node() { (void)ncclCommDestroy(communicator_); }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // `call(bytes)`, bytes to each other node; wire: of them that a node sends.
  MessageTable table(const char* kind, double wire, const std::function<void(std::int64_t)>& call) {
    MessageTable table;
    table.kind = kind;
    table.transport = "nccl";
    table.group = nodes_;
    table.inter = true;
    table.tool =
        "cplab calibrate: calls in a row between one GPU of each node, events, median; channels as "
        "in the table before";
    for (std::int64_t bytes = least_bytes; bytes <= most_bytes / nodes_; bytes *= 4)
      table.points.push_back({wire * static_cast<double>(bytes), seconds(call, bytes)});
    return table;
  }

  void shift(std::int64_t bytes) {
    group([&] {
      put(0, bytes, (node_ + 1) % nodes_);
      get(0, bytes, (node_ + nodes_ - 1) % nodes_);
    });
  }
  void trade(std::int64_t bytes) {
    group([&] {
      for (int other = 0; other < nodes_; ++other) {
        if (other == node_) continue;
        put(other * bytes, bytes, other);
        get(other * bytes, bytes, other);
      }
    });
  }
  void gather(std::int64_t bytes) {
    require_nccl(ncclAllGather(send_.data(), receive_.data(), static_cast<std::size_t>(bytes), ncclInt8,
                               communicator_, stream_.get()),
                 "ncclAllGather");
  }
  void scatter(std::int64_t bytes) {
    require_nccl(ncclReduceScatter(send_.data(), receive_.data(), static_cast<std::size_t>(bytes) / 4,
                                   ncclFloat32, ncclSum, communicator_, stream_.get()),
                 "ncclReduceScatter");
  }

 private:
  template <class Calls>
  static void group(Calls calls) {
    require_nccl(ncclGroupStart(), "ncclGroupStart");
    calls();
    require_nccl(ncclGroupEnd(), "ncclGroupEnd");
  }
  void put(std::int64_t at, std::int64_t bytes, int to) {
    require_nccl(ncclSend(send_.data() + at, static_cast<std::size_t>(bytes), ncclInt8, to, communicator_,
                          stream_.get()),
                 "ncclSend");
  }
  void get(std::int64_t at, std::int64_t bytes, int from) {
    require_nccl(ncclRecv(receive_.data() + at, static_cast<std::size_t>(bytes), ncclInt8, from,
                          communicator_, stream_.get()),
                 "ncclRecv");
  }

  // The largest of all nodes; all have come here when it returns.
  double largest(double value) {
    auto own = static_cast<float>(value);
    require_cuda(cudaMemcpyAsync(time_.data(), &own, sizeof own, cudaMemcpyHostToDevice, stream_.get()),
                 "cudaMemcpyAsync");
    require_nccl(
        ncclAllReduce(time_.data(), time_.data(), 1, ncclFloat32, ncclMax, communicator_, stream_.get()),
        "ncclAllReduce");
    require_cuda(cudaMemcpyAsync(&own, time_.data(), sizeof own, cudaMemcpyDeviceToHost, stream_.get()),
                 "cudaMemcpyAsync");
    stream_.synchronize();
    return own;
  }

  double seconds(const std::function<void(std::int64_t)>& call, std::int64_t bytes) {
    constexpr int samples = 5, first_calls = 3;
    for (int i = 0; i < first_calls; ++i) call(bytes);
    const auto sample = [&](int count) {
      (void)largest(0);
      begin_.record(stream_.get());
      for (int i = 0; i < count; ++i) call(bytes);
      end_.record(stream_.get());
      stream_.synchronize();
      return largest(elapsed_s(begin_, end_) / count);
    };
    const int count = static_cast<int>(std::clamp(0.01 / std::max(sample(3), 1e-7), 5.0, 50.0));
    std::vector<double> all;
    for (int i = 0; i < samples; ++i) all.push_back(sample(count));
    return median(std::move(all));
  }

  int node_, nodes_;
  Stream stream_;
  DeviceMemory send_, receive_, time_;
  Event begin_{true}, end_{true};
  ncclComm_t communicator_ = nullptr;
};

}  // namespace

std::string new_nccl_id() {
  ncclUniqueId id{};
  require_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return {reinterpret_cast<const char*>(&id), sizeof id};
}

void measure_between_nodes(const std::string& id, int node, int nodes, std::uint64_t seed,
                           Measurement& into) {
  use_gpu(0);
  Node own(id, node, nodes, seed);
  const double others = nodes - 1;
  into.messages.push_back(own.table("exchange", 1, [&](std::int64_t bytes) { own.shift(bytes); }));
  into.messages.push_back(own.table("all_to_all", others, [&](std::int64_t bytes) { own.trade(bytes); }));
  into.messages.push_back(own.table("all_gather", others, [&](std::int64_t bytes) { own.gather(bytes); }));
  into.messages.push_back(
      own.table("reduce_scatter", others, [&](std::int64_t bytes) { own.scatter(bytes); }));
}

}  // namespace cplab::measure
