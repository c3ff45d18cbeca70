// A flow engine: a clock, timers, and flows that share links max-min fairly. Two of them: simgrid_flows.hpp,
// the reference, and native_flows.hpp, the fast one. Time in microseconds, bandwidth in bytes per
// microsecond.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace cplab {

inline constexpr double us_per_s = 1e6;

// Links. A flow between two ranks takes the links of the lowest level that joins them: level 0 inside a node
// (each rank's link up and the peer's down), level 1 + v over the network through the switch levels below v
// (NIC up, uplinks of v switches, the same downwards, NIC down). Everything else does not block.
struct Fabric {
  // One level of switches. Ranks below one switch are below one switch of every higher level too.
  struct Switches {
    std::function<int(int rank)> switch_of;  // the switch that the rank is below, from 0
    double up_bytes_us = 0;                  // of one switch, all its uplinks together
  };
  int ranks = 0;
  int ranks_per_node = 1;
  double link_bytes_us = 1;
  int ranks_per_nic = 1;    // ranks that share a NIC
  double nic_bytes_us = 1;  // of all NICs of a rank together, where it has several
  std::vector<Switches> switches;
  // By rank what it has of its link, and of the NIC that it uses; empty: all of it.
  std::vector<double> link_factor, nic_factor;
  int ports = 1;  // per rank: flows from different ports have caps of their own

  int level(int from, int to) const;
  double link_bytes_us_of(int rank) const;
  // Of a NIC by its number, node after node: as fast as its slowest rank has it.
  double nic_bytes_us_of(int nic) const;
};

class FlowEngine {
 public:
  using Token = std::uint64_t;
  using Handler = std::function<void(Token)>;
  // Events closer together than this, in microseconds, count as one instant for flows that end.
  static constexpr double instant_us = 1e-9;

  FlowEngine() = default;
  virtual ~FlowEngine() = default;
  FlowEngine(const FlowEngine&) = delete;
  FlowEngine& operator=(const FlowEngine&) = delete;

  double now_us() const { return now_us_; }
  // Fires at that time (not before now). Timers of one time fire in the order in which they were set, and
  // before the flows that end at that time.
  virtual void timer(double at_us, Token token) = 0;
  // The one alarm of that number (from 0, below the number of ranks): replaces what was set for it before;
  // infinity: never.
  virtual void alarm(int number, double at_us, Token token) = 0;
  // The cap of all flows together that leave this port inside the node (level 0) or over the network (any
  // other level). To be set while none is under way.
  virtual void set_cap(int rank, int port, int level, double bytes_us) = 0;
  // Starts now; bytes > 0. `to` differs from `from`.
  virtual void flow(int from, int port, int to, int level, std::uint64_t bytes, Token token) = 0;
  // Until no timer and no flow is left. Both handlers are called from here, with the clock at the time of the
  // event.
  virtual void run() = 0;

 protected:
  double now_us_ = 0;
};

}  // namespace cplab
