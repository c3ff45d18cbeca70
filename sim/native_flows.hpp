// The fast one of the flow engines: equal to SimGrid to rounding (tests/sim/flow_engine_test.cpp,
// tests/properties/engines_test.cpp), any number of them in a process, each independent of all others.
//
// The rates are max-min fair. What starts or ends changes the rates of few flows: those are rated anew,
// together with what turns out to depend on them, and all others keep theirs.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/flow_engine.hpp"
#include "sim/timer_queue.hpp"

namespace cplab {

class NativeFlows : public FlowEngine {
 public:
  NativeFlows(const Fabric& fabric, Handler on_timer, Handler on_flow_end);

  void timer(double at_us, Token token) override { timers_.timer(at_us, token); }
  void alarm(int number, double at_us, Token token) override { timers_.alarm(number, at_us, token); }
  void set_cap(int rank, int port, int level, double bytes_us) override;
  void flow(int from, int port, int to, int level, std::uint64_t bytes, Token token) override;
  void run() override;

 private:
  using Index = std::uint32_t;
  static constexpr Index none = 0xffffffff;

  // Its flows are a list of places, oldest first.
  struct Link {
    double bytes_us = 0;
    Index first = none, last = none;
    Index flows = 0;
    bool freed = false;  // a flow of it has ended since the rates were made
    // Of the region that is rated anew:
    Index at = none;  // in region_links_
  };
  // A flow's hop over one link: place `slot * hops_ + hop`.
  struct Place {
    Index link = none;
    Index next = none, previous = none;
  };
  struct Flow {
    Token token = 0;
    std::uint64_t number = 0;  // in the order of starts
    double left_bytes = 0;     // at since_us
    double since_us = 0;
    double rate = 0;          // bytes/us
    double end_us = 0;        // at that rate
    double next_rate = -1;    // in a region; below 0: not found yet
    Index bottleneck = none;  // a link that is full, on which no flow is faster
    Index next_bottleneck = none;
    Index in_heap = none;
    Index hops = 0;
    bool in_region = false;
  };
  // A link of the region: what flows outside leave of it, for so many flows of the region.
  struct Share {
    Index link = none;
    Index open = 0;
    double left = 0;
    bool full = false;
    double share() const { return left / open; }
  };

  Index& link_of(std::vector<Index>& links, int rank) { return links[static_cast<std::size_t>(rank)]; }
  Index add_link(double bytes_us);
  Index cap_of(int rank, int port, int level) const;
  void add_place(Index slot, Index link);
  void remove(Index slot);

  void rate_anew();
  bool rate_alone(Index slot);
  void take_in(Index slot);
  void take_in_neighbours();
  void collect_links();
  void fill();
  bool grow();
  bool is_at_odds(const Flow& outside, const Share& share, double fastest) const;
  void apply();
  void set_rate(Index slot, double rate);

  // The ends of flows, earliest first: a heap of slots.
  bool is_before(Index a, Index b) const;
  void place_in_heap(Index at, Index slot);
  void sift(Index at);
  void drop_from_heap(Index slot);

  Handler on_timer_, on_flow_end_;
  TimerQueue timers_;
  int ranks_, ports_;
  Index hops_;  // of the longest route
  std::vector<Link> links_;
  Index node_cap_ = 0, net_cap_ = 0;           // the first of either; then by rank and port
  std::vector<std::vector<Index>> up_, down_;  // [0]: inside the node, [1]: NICs, [2 + v]: switches; by rank
  std::vector<Flow> flows_;
  std::vector<Place> places_;
  std::vector<Index> free_slots_;
  std::vector<Index> heap_;
  std::uint64_t next_number_ = 0;

  std::vector<Index> started_, freed_links_;  // since the rates were made
  std::vector<Index> region_;                 // flows
  std::vector<Share> region_links_;
  std::vector<std::pair<double, Index>> by_share_;  // scratch of fill()
  std::vector<Token> ended_;                        // scratch of run()
};

}  // namespace cplab
