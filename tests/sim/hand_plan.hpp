// Plans and machines made by hand, small enough to work out on paper.
//
// Kernels cost what the plan says: given_cost() reads seconds from Operation::flops, waves from head_begin
// and the multiprocessors of the last wave from head_end (0: all of them).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/simulate.hpp"
#include "tests/hand_plans/hand_plans.hpp"

namespace cplab::sim_test {

inline constexpr double microsecond = 1e-6;
inline constexpr std::int64_t mega = 1'000'000;
inline double us(double seconds) {
  return seconds / microsecond;
}

// Times are doubles after a few roundings: a relative error of 1e-9 is far above those and far below any
// effect of the model.
inline constexpr double relative = 1e-9;
bool near(double a, double b);

// `ranks` ranks with one byte-addressed buffer each, and one group of all of them.
class HandPlan {
 public:
  explicit HandPlan(int ranks);

  struct Message {
    bool send = false;
    int peer = 0;
    std::int64_t bytes = 0;
  };
  static Message send(int peer, std::int64_t bytes) { return {true, peer, bytes}; }
  static Message receive(int peer, std::int64_t bytes) { return {false, peer, bytes}; }

  // Each appends an operation to the rank and returns its index.
  std::uint32_t kernel(int rank, int lane, double seconds, const hand::After& after = {}, int waves = 1,
                       int tail_sms = 0);
  std::uint32_t exchange(int rank, const std::vector<Message>& messages, const hand::After& after = {},
                         Transport transport = Transport::nccl, int lane = 0);
  // `bytes` is what every member gives (all_gather), gets (reduce_scatter), sends to each other member
  // (all_to_all) or has (all_reduce).
  std::uint32_t collective(int rank, OpKind kind, std::int64_t bytes, const hand::After& after = {});
  // A collective of these parts, over that transport.
  std::uint32_t collective(int rank, OpKind kind, const std::vector<Message>& messages,
                           Transport transport = Transport::nccl);
  std::uint32_t host_sync(int rank, int lane);

  Plan plan;

 private:
  static hand::ViewIndex view(hand::Rank&, std::int64_t bytes);
};

// Ranks 0 and 1 send each other 1 MB.
void exchange_both(HandPlan&, Transport = Transport::nccl);

// Gives attend or attend_backward all of its operands, stored, with as many key heads and value_size =
// head_size. Their rows are many: what the operation computes is up to its segments.
void give_operands(RankPlan& rank, Operation& op, int heads, int head_size);

KernelCostFunction given_cost(const Hardware&);
// Simulates with given_cost().
Simulation run(const HandPlan&, const Hardware&, const SimulateOptions& = {});

// Nodes of `gpus` GPUs with 100 multiprocessors; links of 100 GB/s; a network of one 10 GB/s NIC per GPU;
// copies at 1 TB/s; the host costs nothing. Exchanges through NCCL: 20 us, then 50 GB/s (start-up 20 us, cap
// 50 GB/s) on 10 multiprocessors; through copy engines: 5 us, then 100 GB/s; over the network: 30 us, then
// 5 GB/s.
Hardware hand_machine(int gpus);

}  // namespace cplab::sim_test
