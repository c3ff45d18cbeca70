// Who runs on the multiprocessors of one GPU, and how fast. Knows kernels by their operation index; time in
// microseconds.
//
// - A communication kernel takes its multiprocessors at once if they are free, else it waits (in order) and
//   compute makes room; it holds them until it is released. Kernels that share their multiprocessors with it
//   are not in its way, nor is it in theirs.
// - Compute may hold all but max(reserved, held and awaited by communication). Kernels are served in the
//   order in which they were submitted, each up to what its thread blocks fill; what the earlier leave, the
//   later take: two lanes overlap at the tails of kernels and where a kernel does not fill the GPU.
// - Nothing is preempted: a kernel gives up multiprocessors only when a wave of its thread blocks ends (a
//   multiple of seconds/waves before its end), but takes free ones at once. In its last wave it holds no more
//   than that wave fills. A persistent kernel gives up none before its last wave: its thread blocks end when
//   no tile is left, and what is to run beside it must be there before it.
// - Progress is work: the rate is the share of the multiprocessors a kernel would use alone (up to
//   useful_sms), divided by the slowdown of its class while communication is resident beside it.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "derive/walk.hpp"
#include "sim/hardware.hpp"
#include "sim/kernel_cost.hpp"

namespace cplab {

// slowdown[kind][transport]
struct Slowdowns {
  struct Entry {
    double factor = 1;
    Origin origin = Origin::measured;
  };
  static constexpr std::size_t kinds = static_cast<std::size_t>(OpKind::host_sync) + 1;
  std::array<std::array<Entry, 2>, kinds> table{};

  explicit Slowdowns(const Hardware&);
};

// What communication beside a kernel takes over what it takes alone (BesideTable).
class Contentions {
 public:
  explicit Contentions(const Hardware& hardware) : tables_(&hardware.finer.beside) {}
  // Linear in log bytes between the points of the table of that communication, the exchange's where there is
  // none, constant outside; 1 without a table.
  Slowdowns::Entry factor(OpKind communication, Transport, OpKind kernel, double bytes) const;

 private:
  const std::vector<BesideTable>* tables_;
};

class Multiprocessors {
 public:
  enum class EventKind : std::uint8_t { kernel_started, kernel_finished, communication_placed };
  struct Event {
    EventKind kind;
    std::uint32_t operation;
    // The operation that made room, if this one had to wait for it; no_operation otherwise.
    std::uint32_t cause;
    // kernel_finished: where its cost comes from; the time it lost to communication beside it, and where
    // that slowdown comes from.
    Origin origin = Origin::measured;
    double lost_us = 0;
    Origin lost_origin = Origin::measured;
  };

  // reserved: from 0 to sms - 1. cluster: thread blocks of a communication kernel come in clusters of so
  // many, if it has a multiple of them.
  Multiprocessors(int sms, int reserved, const Slowdowns& slowdowns, int cluster = 1);

  // Each call appends what happens at `now_us`, then next_us() says when to call wake() unless another call
  // comes first (infinity: never).
  void submit_kernel(double now_us, std::uint32_t operation, OpKind kind, const KernelCost& cost,
                     std::vector<Event>& events);
  // The communication is resident from its placement to its release. sms may be 0 (copy engines).
  // `pressure`: its share of the traffic that slowdowns were measured beside; what is resident together
  // presses together, no more than 1.
  void submit_communication(double now_us, std::uint32_t operation, int sms, Transport transport,
                            double pressure, std::vector<Event>& events);
  void release_communication(double now_us, std::uint32_t operation, int sms, Transport transport,
                             double pressure, std::vector<Event>& events);
  void wake(double now_us, std::vector<Event>& events);
  double next_us() const { return next_us_; }
  // From now on every change is appended to `samples`, which outlives this; null: no longer.
  void keep_samples(std::vector<MultiprocessorSample>* samples) { samples_ = samples; }
  // By how much communication that takes `alone_us` and `sms` multiprocessors is longer beside the kernels
  // that run now: by the largest of their classes' factors, but not for longer than that kernel still runs.
  // Kernels that share their multiprocessors and leave half as many free as it takes do not hold it up (seen
  // on H200s: 128 thread blocks do, 120 do not).
  struct Contention {
    double longer_us = 0;
    Origin origin = Origin::measured;
  };
  struct Carried {
    OpKind kind = OpKind::exchange;
    Transport transport = Transport::nccl;
    int sms = 0;
    double bytes = 0, alone_us = 0;
  };
  Contention contention(const Contentions&, const Carried&, double now_us) const;

 private:
  struct Kernel {
    std::uint32_t operation = 0;
    OpKind kind = OpKind::attend;
    KernelCost cost;
    int share = 0;         // multiprocessors it was given
    double left_us = 0;    // of work at full rate
    double rate = 0;       // work per time
    double finish_us = 0;  // at this rate
    double slowdown = 1;
    double lost_us = 0;  // to slowdown so far
    Origin lost_origin = Origin::measured;
  };
  struct Communication {
    std::uint32_t operation = 0;
    int sms = 0;
    Transport transport = Transport::nccl;
    double pressure = 1;
  };

  double wave_us(const Kernel& kernel) const { return kernel.cost.seconds * 1e6 / kernel.cost.waves; }
  bool in_tail(const Kernel& kernel) const { return kernel.left_us <= wave_us(kernel) * (1 + slack(kernel)); }
  double slack(const Kernel& kernel) const;
  bool at_boundary(const Kernel& kernel) const;
  int demand(const Kernel& kernel) const;
  int held(const Kernel& kernel) const;
  int held_by_compute() const;
  int held_alone() const;  // by compute beside which communication has no room
  int compute_limit() const;
  bool clusters_fit(int blocks, int free) const;

  void advance(double now_us);
  void assign(double now_us, std::uint32_t cause, std::vector<Event>& events);
  void update_rates(double now_us);
  void schedule(double now_us);
  void keep_sample(double now_us);

  // Work is a difference of doubles of similar size: two boundaries this close, relative to a wave, are one.
  static constexpr double tolerance = 1e-9;

  int sms_, reserved_, cluster_;
  const Slowdowns* slowdowns_;
  std::vector<MultiprocessorSample>* samples_ = nullptr;
  int communication_sms_ = 0, awaited_sms_ = 0;
  int together_ = 0;  // free ones that a communication held last: its like fits there again
  struct Residents {
    int count = 0;
    double pressure = 0;
  };
  void place(const Communication&, std::uint32_t cause, std::vector<Event>& events);
  std::array<Residents, 2> residents_{};  // by transport
  double updated_us_ = 0, next_us_ = std::numeric_limits<double>::infinity();
  std::vector<Kernel> running_, waiting_;  // in order of submission
  std::vector<Communication> waiting_communication_;
};

}  // namespace cplab
