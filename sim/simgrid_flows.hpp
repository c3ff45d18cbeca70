// The reference among the flow engines: SimGrid, which appears in simgrid_flows.cpp only.
//
// SimGrid allows one engine per process and no change of platform once it has run: make one per process
// (simulate() runs each simulation with it in a child process of its own).
#pragma once

#include <memory>
#include <string>

#include "sim/flow_engine.hpp"

namespace cplab {

class SimGridFlows : public FlowEngine {
 public:
  SimGridFlows(const Fabric& fabric, Handler on_timer, Handler on_flow_end);
  ~SimGridFlows() override;

  // What SimGrid says it is configured with.
  struct Settings {
    std::string network_model;
    bool cross_traffic = true;
    double tcp_gamma = -1;
  };
  Settings settings() const;

  void timer(double at_us, Token token) override;
  void alarm(int number, double at_us, Token token) override;
  void set_cap(int rank, int port, int level, double bytes_us) override;
  void flow(int from, int port, int to, int level, std::uint64_t bytes, Token token) override;
  void run() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cplab
